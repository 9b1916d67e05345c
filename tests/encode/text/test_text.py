import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import InputError, Rejection
from packcli.contract.packs import IGNORED
from packcli.encode.records.reading import read_record
from packcli.encode.text.text_encoder import TextEncoder
from packcli.families.family import Expansion

from ..conftest import CHATML, PLAIN, SPECIAL, write_model

TOKENS = SPECIAL + PLAIN


def chat(*contents, **more):
    """Alternating user and assistant turns."""
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]
    return read_record({"messages": turns, **more})


def shown(encoder, ids):
    """Token names: bytes joined to text, added tokens as they are."""
    names = {token_id: text for text, token_id in encoder._vocabulary.ids.items()}
    return [names.get(i) or encoder._vocabulary.backend._tokenizer.decode([i]) for i in ids]


def learned(encoder, sample):
    """The learned runs as text."""
    runs, last = [], -2
    for place in np.flatnonzero(sample.labels != IGNORED):
        if place != last + 1:
            runs.append("")
        runs[-1] += shown(encoder, [int(sample.labels[place])])[0]
        last = place
    return runs


def test_ids_and_labels_of_one_answer(tiny):
    sample = tiny.encode(chat("Hi", "Yes"))
    assert shown(tiny, sample.input_ids) == [
        *("<|im_start|>", *"user", "\n", "Hi", "<|im_end|>", "\n"),
        *("<|im_start|>", *"assistant", "\n", *"Yes", "<|im_end|>", "\n"),
    ]
    assert sample.input_ids.dtype == sample.labels.dtype == np.int32
    assert np.flatnonzero(sample.labels != IGNORED).tolist() == [20, 21, 22, 23]
    assert np.array_equal(sample.labels[20:24], sample.input_ids[20:24])


def test_every_answer_or_the_last(tiny):
    talk = chat("a", "One", "b", "Two")
    assert learned(tiny, tiny.encode(talk)) == ["One<|im_end|>", "Two<|im_end|>"]
    assert learned(tiny, tiny.encode(talk, supervise="last")) == ["Two<|im_end|>"]


def test_an_empty_answer_beside_others_is_masked(tiny):
    assert learned(tiny, tiny.encode(chat("a", " ", "b", "Two"))) == ["Two<|im_end|>"]


def test_loss_false_and_weights(tiny):
    record = {
        "messages": [
            {"role": "assistant", "content": "One", "loss": False},
            {"role": "assistant", "content": "Two", "weight": 0.5},
            {"role": "assistant", "content": "Tri", "weight": 0},
            {"role": "assistant", "content": "Fo"},
        ]
    }
    sample = tiny.encode(read_record(record))
    assert learned(tiny, sample) == ["Two<|im_end|>", "Fo<|im_end|>"]
    assert sample.loss_scale.dtype == np.float32
    weights = sample.loss_scale[sample.labels != IGNORED].tolist()
    assert weights == [0.5] * 4 + [1.0] * 3
    assert tiny.encode(chat("a", "b")).loss_scale is None


def test_nothing_left_to_learn(tiny):
    record = {"messages": [{"role": "assistant", "content": "One", "loss": False}]}
    with pytest.raises(Rejection, match="no_supervised_tokens"):
        tiny.encode(read_record(record))


def test_a_token_across_the_start_of_an_answer_is_not_learned(tiny):
    sample = tiny.encode(chat("a", "\nYes"))
    assert "\n\n" in shown(tiny, sample.input_ids)
    assert learned(tiny, sample) == ["Yes<|im_end|>"]


def test_one_token_of_text_leaves_nothing_to_learn(tiny):
    with pytest.raises(Rejection, match="no_supervised_tokens"):
        tiny.encode(read_record({"text": "Hi"}))


def test_plain_text_is_learned_but_for_its_first_token(tiny):
    sample = tiny.encode(read_record({"text": "Hi<|im_end|>"}))
    assert shown(tiny, sample.input_ids) == ["Hi", *"<|im_end|>"]
    assert sample.labels.tolist() == [IGNORED, *sample.input_ids[1:]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from([*TOKENS, "a", "<|im_", "end|>", "<", ">", "\n", "\U000f0001"]), max_size=12
    ).map("".join)
)
def test_typed_tokens_stay_text(tiny, typed):
    messages = [
        {"role": "system", "content": typed},
        {"role": "user", "content": [{"type": "text", "text": typed}] * 2},
        {"role": "tool", "content": typed},
        {
            "role": "assistant",
            "content": "x" + typed.replace("think>", "").replace("tool_call>", ""),
        },
    ]
    call = {"function": {"name": "f" + typed, "arguments": {typed: [typed]}}}
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    sample = tiny.encode(read_record({"messages": messages}))
    ids = sample.input_ids.tolist()
    vocabulary = tiny._vocabulary.ids
    counts = {text: ids.count(token_id) for text, token_id in vocabulary.items()}
    only = {"<|im_start|>": 5, "<|im_end|>": 5, "<tool_call>": 1, "</tool_call>": 1}
    assert counts == dict.fromkeys(TOKENS, 0) | only
    decoded = tiny._vocabulary.backend._tokenizer.decode(
        [i for i in ids if i not in vocabulary.values()]
    )
    assert f"system\n{typed}\nuser\n{typed}{typed}\ntool\n{typed}\n" in decoded


def test_an_answer_may_think(tiny):
    sample = tiny.encode(chat("<think>", "<think>a</think>b"))
    assert learned(tiny, sample) == ["<think>a</think>b<|im_end|>"]
    assert sample.input_ids.tolist().count(tiny._vocabulary.ids["<think>"]) == 1


def test_expansions_replace_placeholders_in_order(tiny):
    talk = chat("<image>a<image>", "b", images=["1", "2"])
    images = [
        Expansion("<|image_pad|>", (3,)),
        Expansion("<1s><|image_pad|>-<|image_pad|>", (2, 1)),
    ]
    sample = tiny.encode(talk, images)
    text = "".join(shown(tiny, sample.input_ids))
    pad, start, end = "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"
    assert f"{start}{pad * 3}{end}a{start}<1s>{pad * 2}-{pad}{end}<|im_end|>" in text
    assert learned(tiny, sample) == ["b<|im_end|>"]
    assert sample.labels.size == sample.input_ids.size


def test_media_in_an_answer_are_not_learned(tiny):
    parts = [{"type": "text", "text": "a"}, {"type": "image", "image": "1"}]
    sample = tiny.encode(chat("q", parts), [Expansion("<|image_pad|>", (2,))])
    assert learned(tiny, sample) == ["a<|vision_start|>", "<|vision_end|><|im_end|>"]


def test_a_template_that_drops_media_is_told(tiny, tmp_path):
    with pytest.raises(Rejection, match="template_error: the chat template shows 1 of 0 media"):
        tiny.encode(chat("<image>", "b", images=["1"]))
    talk = chat([{"type": "video", "video": "v"}], "b")
    with pytest.raises(Rejection, match="the model takes no such media, the record has 1"):
        tiny.encode(talk, [], [Expansion("<|image_pad|>", (1,))])


NO_CALLS = CHATML.replace("message.tool_calls or []", "[]")
CALLS_ONLY = CHATML.replace(
    "{{ message.content }}", "{{ '' if message.tool_calls else message.content }}"
)
ONE_ANSWER = CHATML.replace("in messages %}", "in messages[:2] %}", 1)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (NO_CALLS, "leaves out the tool call 'f'"),
        (CALLS_ONLY, "leaves out the text beside them"),
        (ONE_ANSWER, "shows 1 answer of 2 assistant turns"),
        (CHATML.replace("<|im_end|>", "", 1).replace("{{- '<|im_end|>", "{{- '"), "neither ChatML"),
    ],
)
def test_a_template_that_leaves_something_out(tmp_path, template, told):
    call = {"function": {"name": "f", "arguments": {}}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "Let me see", "tool_calls": [call]},
        {"role": "assistant", "content": "b"},
    ]
    with pytest.raises((Rejection, InputError), match=told):
        TextEncoder.open(write_model(tmp_path, template)).encode(
            read_record({"messages": messages})
        )


def test_a_dropped_system_turn_is_told(tmp_path):
    spoken = "{%- for message in messages if message.role != 'system' %}"
    silent = CHATML.replace("{%- for message in messages %}", spoken)
    encoder = TextEncoder.open(write_model(tmp_path, silent))
    record = {"messages": [{"role": r, "content": r} for r in ("user", "system", "assistant")]}
    with pytest.raises(Rejection, match="leaves out the system turn 2"):
        encoder.encode(read_record(record))


TAGGED = """{% for m in messages %}[{{ m.role }}] {% if m.role == 'assistant' %}
{%- generation %}{{ m.content }}<|im_end|>
{% endgeneration %}{% else %}{{ m.content }}
{% endif %}{% endfor %}"""


def test_generation_tags_say_what_is_learned(tmp_path):
    encoder = TextEncoder.open(write_model(tmp_path, TAGGED))
    sample = encoder.encode(chat("q\U000ffffb", "One", "p", "Two\U000ffffa"))
    assert learned(encoder, sample) == ["One<|im_end|>", "Two" + "�" * 4 + "<|im_end|>"]
    text = "".join(shown(encoder, sample.input_ids))
    assert text.startswith("[user] q")
    assert "[assistant] One<|im_end|>\n[user] p\n" in text


def test_generation_tags_without_a_token_at_the_end(tmp_path):
    source = (
        "{% for m in messages %}{{ m.role }}:"
        "{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}"
    )
    encoder = TextEncoder.open(write_model(tmp_path, source))
    record = {"messages": [{"role": "assistant", "content": c} for c in ("Hi", "Yo")]}
    assert learned(encoder, encoder.encode(read_record(record))) == ["Hi", "Yo"]


def test_arguments_as_text_become_objects_where_needed(tmp_path):
    source = CHATML.replace(
        "{{ call.function | tojson }}",
        "{% for k, v in call.function.arguments|items %}{{ k }}={{ v }}{% endfor %}"
        "{{ call.function.name }}",
    )
    encoder = TextEncoder.open(write_model(tmp_path, source))

    def ask(arguments):
        call = {"function": {"name": "f", "arguments": arguments}}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        return learned(encoder, encoder.encode(read_record({"messages": [turn]})))

    assert ask('{"a": 1}') == ask({"a": 1}) == ["<tool_call>a=1f</tool_call><|im_end|>"]
    escaped = ask('{"a": "\\u003c|im_end|\\u003e"}')
    assert escaped == ["<tool_call>a=<|im_end|>f</tool_call><|im_end|>"]
    with pytest.raises(Rejection, match="no JSON object"):
        ask("[1]")


def test_parts_and_text_reach_a_template_in_the_form_it_takes(tmp_path):
    source = CHATML.split("{%- if message.content")[0]
    source += "{{ message.content }}{{- '<|im_end|>\n' }}{%- endfor %}"
    encoder = TextEncoder.open(write_model(tmp_path, source))
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert learned(encoder, encoder.encode(chat(parts, parts))) == ["ab<|im_end|>"]


def test_half_a_surrogate_pair(tiny):
    with pytest.raises(Rejection, match="bad_unicode"):
        tiny.encode(chat("\ud800", "a"))
    with pytest.raises(Rejection, match="bad_unicode"):
        tiny.encode(read_record({"text": "\udfff"}))


def test_tools_nested_too_deeply(tiny):
    tool = {}
    for _ in range(5000):
        tool = {"a": tool}
    with pytest.raises(Rejection, match="nested too deeply"):
        tiny.encode(chat("a", "b", tools=[tool]))


def test_many_at_once_equal_one_by_one(tiny):
    talks = [chat("a", f"answer {i}") for i in range(5)]
    together = tiny.finish([tiny.draft(talk) for talk in talks])
    for talk, sample in zip(talks, together, strict=True):
        assert np.array_equal(tiny.encode(talk).input_ids, sample.input_ids)
        assert np.array_equal(tiny.encode(talk).labels, sample.labels)


def test_a_model_without_template_takes_text_alone(tmp_path):
    encoder = TextEncoder.open(write_model(tmp_path, None))
    assert encoder.encode(read_record({"text": "HiHi"})).input_ids.tolist() == [256, 256]
    with pytest.raises(InputError, match=r"add chat_template\.jinja"):
        encoder.encode(chat("a", "b"))


def test_a_folder_without_tokenizer(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer\.json is missing"):
        TextEncoder.open(tmp_path)
