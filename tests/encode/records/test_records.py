import base64

import pytest

from packcli.contract.errors import Rejection
from packcli.contract.rejections import WARNINGS
from packcli.encode.records import shapes
from packcli.encode.records.reading import MediaRef, Part, Turn, read_record
from packcli.encode.records.shapes import second_shape

ANSWER = {"role": "assistant", "content": "Yes."}


def user(content, **more):
    return {"messages": [{"role": "user", "content": content}, ANSWER], **more}


def answer(**more):
    return {"messages": [{"role": "user", "content": "Hi"}, ANSWER | more]}


def reject(record, code):
    with pytest.raises(Rejection) as caught:
        read_record(record)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    return caught.value.message


TURNS = (Turn("user", "Hi"), Turn("assistant", "Yes."))


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [{"role": "user", "content": "Hi"}, ANSWER]},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes."}]},
        {
            "conversation": [
                {"role": "human", "content": "Hi"},
                {"role": "model", "content": "Yes."},
            ]
        },
        {"prompt": "Hi", "completion": "Yes."},
        {"prompt": "Hi", "completion": [ANSWER], "messages": None},
        {"query": "Hi", "response": "Yes.", "history": []},
        {"instruction": "Hi", "output": "Yes.", "input": ""},
    ],
)
def test_one_meaning_in_every_shape(record):
    turns = read_record(record).turns
    assert [(t.role, t.content) for t in turns] == [(t.role, t.content) for t in TURNS]


def test_instruction_and_input_are_joined_by_a_newline():
    found = read_record({"instruction": "Add.", "input": "1+1", "output": "2"})
    assert found.turns[0].content == "Add.\n1+1"


def test_history_and_system_come_first():
    record = {"query": "q", "response": "r", "history": [["q0", "r0"]], "system": "s"}
    assert [t.content for t in read_record(record).turns] == ["s", "q0", "r0", "q", "r"]


def test_answers_inside_a_prompt_are_not_learned():
    record = {"prompt": [{"role": "user", "content": "a"}, ANSWER], "completion": "b"}
    assert [t.loss for t in read_record(record).turns] == [False, False, None]


def test_plain_text():
    found = read_record({"text": "Once", "id": 7})
    assert (found.id, found.turns, found.text) == ("7", (), "Once")
    reject({"text": ""}, "zero_length")


def test_two_system_prompts_must_agree():
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "q"}, ANSWER]
    assert len(read_record({"messages": messages, "system": "a"}).turns) == 3
    reject({"messages": messages, "system": "b"}, "bad_record")


@pytest.mark.parametrize(
    ("record", "code", "told"),
    [
        ({"foo": 1}, "bad_record", "found foo"),
        ({"messages": "x"}, "bad_record", "give a list of turns"),
        ({"messages": [3]}, "bad_record", "turn 1 is 3"),
        ({"messages": []}, "empty_conversation", "no turn"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no_supervised_tokens", "no assistant"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "bad_role", "'narrator'"),
        ({"messages": [{"content": "x"}]}, "bad_role", "turn 1 has no role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "bad_role", "['user']"),
        ({"query": "a", "response": "b", "history": [["x"]]}, "bad_record", "history entry 1"),
        (user(5), "bad_record", "content is 5"),
        (user(None), "bad_record", "turn 1: the user turn has no content"),
        ({"messages": [{"role": "user"}, ANSWER]}, "bad_record", "the user turn has no content"),
        ({"query": "a", "response": "b", "history": [[None, None]]}, "bad_record", "turn 1: the"),
        ({"messages": [{"role": "tool", "content": None}, ANSWER]}, "bad_record", "the tool turn"),
        (
            user("<video>", videos=["a"], fps=[1, 2]),
            "bad_record",
            "fps holds 2 numbers for 1 video",
        ),
        (user("<video>", videos=["a"], fps=[]), "bad_record", "fps is []"),
        (user("<video>", videos=["a"], fps=["1"]), "bad_record", "fps is '1'"),
        (user([{"type": "video", "video": "v", "fps": [1]}]), "bad_record", "fps is [1]"),
        (user("<video>", videos=["a"], max_frames=[1]), "bad_record", "max_frames is [1]"),
        (user([{"type": "audio", "audio": "a.wav"}]), "bad_record", "'audio'"),
        (user([{"type": "text", "text": 4}]), "bad_record", "holds 4"),
        (user("x", audios=["a.wav"]), "bad_record", "audio is not supported"),
        (user("x", tools="{"), "bad_record", "tools is not JSON"),
        (user("x", tools=[1]), "bad_record", "list of objects"),
        (user("x", chat_template_kwargs={"messages": []}), "bad_record", "must not set messages"),
        (user("x", fps="2"), "bad_record", "fps is '2'"),
        (user("<image>", image="a", images=["b"]), "bad_record", "images and image name different"),
        (user("<video>", video="a", videos=["b"]), "bad_record", "videos and video name different"),
        (
            user("<image><image>", image="a", images=["a", "b"]),
            "bad_record",
            "keep one, or put all into images",
        ),
        (answer(loss_scale=0.5, weight=2), "bad_record", "turn 2: loss_scale and weight differ"),
        (answer(content="a", value="b"), "bad_record", "turn 2: content and value differ; keep"),
        (answer(**{"from": "human"}), "bad_record", "turn 2: role and from differ; keep one"),
        (
            answer(content=[{"type": "text", "text": "a", "value": "b"}]),
            "bad_record",
            "turn 2: text and value differ; keep one of them",
        ),
        (
            user([{"type": "text", "text": "look", "image": "a.png"}]),
            "bad_record",
            "turn 1: a part of text also holds image; make each a part of its own",
        ),
        (user([{"text": "look", "image": "a.png"}]), "bad_record", "a part of text also holds"),
        (user([{"type": "image", "image": "a", "text": "b"}]), "bad_record", "also holds text"),
        (user([{"type": "image", "image": "a", "video": "b"}]), "bad_record", "also holds video"),
        (user("?", mm_processor_kwargs='{"fps": 1}'), "bad_record", "mm_processor_kwargs is '{"),
        (
            user("?", mm_processor_kwargs={"fps": 1, "total_pixels": 9}),
            "bad_record",
            "mm_processor_kwargs: total_pixels is not supported; drop it",
        ),
        (user("?", nframes=4, num_frames=8), "bad_record", "nframes and num_frames differ; keep"),
        (
            user("?", fps=1, mm_processor_kwargs={"fps": 2}),
            "bad_record",
            "fps of the record and fps of mm_processor_kwargs differ; keep one of them",
        ),
        (answer(loss_scale=0, weight=1), "bad_record", "loss_scale and weight differ; keep one"),
        (
            answer(thinking="a", reasoning="b"),
            "bad_record",
            "turn 2: thinking and reasoning differ",
        ),
        (
            user([{"type": "image", "image": "a", "resized_height": 280, "resized_width": 420}]),
            "bad_record",
            "image part: resized_height is not supported; give min_pixels and max_pixels",
        ),
        (
            user([{"type": "image", "resized_width": 420}], images=["a"]),
            "bad_record",
            "image part: resized_width is not supported",
        ),
        (
            user("<image>", images=[{"path": "a", "resized_width": 1}]),
            "bad_record",
            "images: resiz",
        ),
        (
            user([{"type": "video", "video": "a", "video_end": 3.5}]),
            "bad_record",
            "video_end is not supported; give a file that is cut",
        ),
        (
            user([{"type": "video", "video": ["a", "b"], "sample_fps": 1}]),
            "bad_record",
            "sample_fps is not supported; give fps",
        ),
    ],
)
def test_faults_have_a_code_and_a_place(record, code, told):
    assert told in reject(record, code)


@pytest.mark.parametrize("both", [("b", ""), ("", "b"), (None, "b"), ("b", 0.5), ("b", "b")])
def test_a_field_that_is_empty_hides_no_other_name_of_it(both):
    content, value = both
    turns = read_record(answer(content=content, value=value)).turns
    assert turns[1].text == "b"


@pytest.mark.parametrize("content", ["", "  \n", None, [{"type": "text", "text": " "}]])
def test_an_empty_answer_is_no_target(content):
    answer = {"role": "assistant", "content": content}
    reject({"messages": [{"role": "user", "content": "x"}, answer]}, "empty_target")
    record = {"messages": [{"role": "user", "content": "x"}, answer, ANSWER]}
    assert [t.empty for t in read_record(record).turns] == [False, True, False]


def test_call_turns_become_tool_calls_and_neighbours_join():
    record = {
        "conversations": [
            {"from": "human", "value": "x"},
            {"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
            {"from": "function_call", "value": '[{"name": "g", "arguments": {}}]'},
            {"from": "observation", "value": "<image>3"},
            {"from": "gpt", "value": "3"},
        ],
        "images": ["a.png"],
    }
    turns = read_record(record).turns
    assert [t.role for t in turns] == ["user", "assistant", "tool", "assistant"]
    assert turns[1].tool_calls == [
        {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"type": "function", "function": {"name": "g", "arguments": {}}},
    ]
    assert turns[2].content == (Part("image"), Part("text", "3"))


@pytest.mark.parametrize("value", ["no json", '{"arguments": 1}', "[]", "3"])
def test_a_call_without_a_name_is_refused(value):
    record = {"conversations": [{"from": "function_call", "value": value}]}
    reject(record, "bad_record")


def test_tool_calls_and_fields_of_turns():
    call = {"id": None, "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "s"},
        {"role": "assistant", "content": None, "tool_calls": [call], "thinking": "hm"},
        {"role": "function", "content": "1", "name": "f", "tool_call_id": "c"},
        {"role": "assistant", "content": "a", "loss": False, "loss_scale": 0.5},
    ]
    system, asks, result, answer = read_record({"messages": messages}).turns
    assert (system.role, system.content) == ("system", "s")
    assert (asks.content, asks.reasoning_content) == ("", "hm")
    assert asks.tool_calls == [{"function": {"name": "f", "arguments": "{}"}}]
    assert (result.role, result.name, result.tool_call_id) == ("tool", "f", "c")
    assert (answer.loss, answer.weight) == (False, 0.5)


@pytest.mark.parametrize("field", [{"loss": "yes"}, {"weight": -1}, {"loss_scale": "1"}])
def test_bad_loss_fields(field):
    reject({"messages": [{"role": "assistant", "content": "a", **field}]}, "bad_record")


def test_tools_as_text_and_template_kwargs():
    kwargs = {"enable_thinking": False, "fps": 1}
    found = read_record(user("x", tools='[{"name": "f"}]', chat_template_kwargs=kwargs))
    assert found.tools == [{"name": "f"}]
    assert found.template_kwargs == {"enable_thinking": False}
    assert read_record(user("x", tools="[]")).tools is None


def test_tags_are_places_in_order():
    found = read_record(user("a<image>b<video><image>", images=["1", "2"], videos="v"))
    assert found.turns[0].content == (
        Part("text", "a"),
        Part("image"),
        Part("text", "b"),
        Part("video"),
        Part("image"),
    )
    assert [(m.kind, m.uri) for m in found.media] == [
        ("image", "1"),
        ("video", "v"),
        ("image", "2"),
    ]


def test_tags_in_answers_and_in_parts_are_text():
    parts = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "<image>?"}]
    record = user(parts)
    record["messages"][1] = {"role": "assistant", "content": "see <image>"}
    user_turn, answer = read_record(record).turns
    assert user_turn.content == (Part("image"), Part("text", "<image>?"))
    assert answer.content == "see <image>"


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            user("<image>", images=["1", "2"]),
            "2 images, 1 <image> placeholder; add a placeholder or drop an image",
        ),
        (
            user("<image><image>", images="1"),
            "1 image, 2 <image> placeholders; add an image or drop a placeholder",
        ),
        (user("<image>"), "0 images, 1 <image> placeholder; add an image or drop a placeholder"),
        (
            user("x", videos=["v"]),
            "1 video, 0 <video> placeholders; add a placeholder or drop a video",
        ),
        (
            user("<video>", videos=["a.jpg", "b.PNG"]),
            (
                "2 videos, 1 <video> placeholder; add a placeholder or drop a video; the frames of "
                'one video are a list of their own: [["a.jpg", "b.jpg"]]'
            ),
        ),
        (
            user("<video>", videos=["a.jpg", "b.mp4"]),
            "2 videos, 1 <video> placeholder; add a placeholder or drop a video",
        ),
        (
            user([{"type": "image", "image": "1"}], images=["1"]),
            "1 image, 0 <image> placeholders; add a placeholder or drop an image",
        ),
    ],
)
def test_counts_must_agree(record, told):
    assert reject(record, "tag_count_mismatch") == told


@pytest.mark.parametrize(
    ("part", "ref"),
    [
        ({"type": "image", "image": "a"}, MediaRef("image", uri="a")),
        ({"type": "image", "path": "a"}, MediaRef("image", uri="a")),
        ({"type": "image", "url": "a"}, MediaRef("image", uri="a")),
        ({"type": "image_url", "image_url": {"url": "a"}}, MediaRef("image", uri="a")),
        ({"type": "image_url", "image_url": "a"}, MediaRef("image", uri="a")),
        ({"type": "input_image", "image_url": "data:x"}, MediaRef("image", uri="data:x")),
        ({"image": {"bytes": "YQ==", "path": None}}, MediaRef("image", data=b"a")),
        ({"type": "image", "bytes": b"a", "path": "p"}, MediaRef("image", uri="p", data=b"a")),
        ({"type": "image", "base64": "YQ=="}, MediaRef("image", data=b"a")),
        (
            {"type": "video", "video": "v", "fps": 2, "nframes": 8},
            MediaRef("video", uri="v", options={"fps": 2, "num_frames": 8}),
        ),
        (
            {"type": "video", "video": ["0", "1"], "text": None},
            MediaRef("video", frames=(MediaRef("image", uri="0"), MediaRef("image", uri="1"))),
        ),
    ],
)
def test_references_in_parts(part, ref):
    assert read_record(user([part])).media == (ref,)


def test_a_part_without_reference_takes_the_next_image():
    parts = [{"type": "image"}, {"type": "image", "image": None}]
    found = read_record(user(parts, images=["1", "2"]))
    assert [m.uri for m in found.media] == ["1", "2"]


@pytest.mark.parametrize(
    ("images", "ref"),
    [
        ("a", MediaRef("image", uri="a")),
        ([{"path": "a", "bytes": None}], MediaRef("image", uri="a")),
        ([{"bytes": base64.b64encode(b"png").decode()}], MediaRef("image", data=b"png")),
        ([b"png"], MediaRef("image", data=b"png")),
    ],
)
def test_references_in_fields(images, ref):
    assert read_record(user("<image>", images=images)).media == (ref,)
    assert read_record(user("<image>", image=images)).media == (ref,)


@pytest.mark.parametrize(
    "images",
    [[None], [{"path": None, "bytes": None}], [""], [3], [["a"]], [{"bytes": "*"}], [{"bytes": 3}]],
)
def test_an_entry_that_names_nothing(images):
    reject(user("<image>", images=images), "bad_media_ref")


def test_a_list_of_frames_and_options_of_the_record():
    record = user("<video>", videos=[["0.png", "1.png"]], fps=1.0)
    record["chat_template_kwargs"] = {"max_pixels": 100}
    (video,) = read_record(record).media
    assert [frame.uri for frame in video.frames] == ["0.png", "1.png"]
    assert video.options == {"fps": 1.0, "max_pixels": 100}


def test_a_rate_for_each_video():
    record = user("<video><image><video>", videos=["a", "b"], images=["c"])
    record["mm_processor_kwargs"] = {"fps": [1, 2.5], "max_frames": 8}
    media = read_record(record).media
    assert [ref.options["max_frames"] for ref in media] == [8, 8, 8]
    assert [ref.options["fps"] for ref in media if ref.kind == "video"] == [1, 2.5]
    part = {"type": "video", "video": "v", "fps": 4}
    videos = read_record(user([part, {"type": "video", "video": "w"}], fps=[1, 3])).media
    assert [ref.options["fps"] for ref in videos] == [4, 3]
    # a rate of canvases, without a video
    assert read_record(user("<image>", images=["a"], fps=[30])).media[0].uri == "a"


def test_a_call_may_come_without_content():
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    turn = read_record({"messages": [{"role": "user", "content": "x"}, answer]}).turns[1]
    assert (turn.content, turn.tool_calls) == ("", [call])


def test_options_of_a_medium_win():
    part = {"type": "video", "video": "v", "fps": 4}
    assert read_record(user([part], fps=1)).media[0].options == {"fps": 4}


def test_options_of_a_place_win():
    part = {"type": "image", "max_pixels": 400, "resized_height": None}
    image = {"path": "a", "max_pixels": 900, "min_pixels": 100}
    (found,) = read_record(user([part], images=[image], max_pixels=1000)).media
    assert found.options == {"min_pixels": 100, "max_pixels": 400}


@pytest.mark.parametrize("empty", [[], None, "", [None], {}])
def test_an_empty_key_hides_no_medium(empty):
    for kind in ("image", "video"):
        for one, other in ((kind, f"{kind}s"), (f"{kind}s", kind)):
            record = user(f"<{kind}>", **{one: ["a"], other: empty})
            assert [ref.uri for ref in read_record(record).media] == ["a"]


def test_keys_may_say_the_same():
    assert len(read_record(user("<image>", image="a", images=["a"])).media) == 1
    turn = read_record(answer(loss_scale=2, weight=2.0)).turns[1]
    assert turn.weight == 2
    turn = read_record(answer(reasoning_content="", thinking="hm", reasoning="hm")).turns[1]
    assert turn.reasoning_content == "hm"


@pytest.mark.parametrize(
    ("more", "second"),
    [
        ({}, False),
        ({"prompt": "p"}, False),
        ({"prompt": "p", "text": "t", "response": "r"}, False),
        ({"conversations": []}, False),
        ({"query": "", "response": ""}, False),
        ({"conversations": [{"from": "gpt", "value": "g"}]}, True),
        ({"query": "q", "response": "r"}, True),
        ({"prompt": "p", "completion": "c"}, True),
    ],
)
def test_a_second_shape(more, second):
    assert second_shape(user("x", **more)) == second
    assert not second_shape(more)


def test_explain_lists_shapes_in_the_order_in_which_they_are_taken():
    order = ", ".join(" + ".join(keys) for keys, _ in shapes._SHAPES)
    assert f"the first of {order} is taken" in WARNINGS["second_shape_ignored"]
