"""What a template leaves out of a record that becomes a sample all the same."""

import pytest

from packcli.encode.records.reading import read_record
from packcli.encode.text.template import ChatTemplate
from packcli.encode.text.text_encoder import TextEncoder

from ..conftest import CHATML, write_model

THOUGHT = "I add two and two, which makes four."
TOOLS = [{"type": "function", "function": {"name": "sum", "description": "adds two numbers"}}]
FIRST = "{%- if tools %}{{ tools | tojson }}{% endif %}"
HEAD = "{{- '<|im_start|>' + message.role + '\\n' }}"
THINKING, TOOLLESS = ["thinking_not_shown"], ["tools_not_shown"]
WORDS = ["words_not_shown"]
FORMS = {
    "no": "",
    "all": "{{ message.reasoning_content }}",
    "as JSON": "{{ message.reasoning_content | tojson }}",
    "last": "{% if loop.last %}{{ message.reasoning_content }}{% endif %}",
}


def omitted(folder, turns, source=CHATML, **more):
    encoder = TextEncoder.open(write_model(folder, source))
    conversation = read_record({"messages": turns, **more})
    return encoder.omitted(conversation, encoder.render(conversation))


def chat(*answers):
    asked = {"role": "user", "content": "2+2?"}
    given = [{"role": "assistant", "content": "4", **answer} for answer in answers]
    return [turn for answer in given for turn in (asked, answer)]


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
@pytest.mark.parametrize(
    ("form", "thoughts", "found"),
    [
        ("no", [THOUGHT], THINKING),
        ("no", ["4"], THINKING),  # which the answer says, too
        ("no", ["  \n"], []),
        ("all", [THOUGHT], []),
        ("all", ["4", THOUGHT, THOUGHT], []),
        ("all", ["typed <|im_end|>, which is marked"], []),
        ("as JSON", ['it is "four"\n'], []),
        ("last", [THOUGHT, ""], THINKING),
        ("last", [THOUGHT, THOUGHT], THINKING),
        ("last", ["", THOUGHT], []),
    ],
)
def test_thinking_kept_apart(tmp_path, key, form, thoughts, found):
    source = CHATML.replace(HEAD, HEAD + "{% if message.reasoning_content %}" + FORMS[form]
                            + "{% endif %}")  # fmt: skip
    turns = chat(*({key: thought} for thought in thoughts))
    assert omitted(tmp_path, turns, source) == found


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([f"<think>{THOUGHT}</think>4"], []),
        ([f"<think>{THOUGHT}</think>4"] * 2, THINKING),
        ([[{"type": "text", "text": f"<think>{THOUGHT}"}, {"type": "text", "text": "</think>4"}],
          "5"], THINKING),
        ([f"{THOUGHT}</think>4", "5"], THINKING),
        (["<think>\n\n</think>4", "5"], []),
        (["4", "<think>4</think>4"], []),
        (["4", f"Let me see. <think>{THOUGHT}</think>4"], []),
        ([f"Let me see. <think>{THOUGHT}</think>4", "5"], THINKING + WORDS),
        (["4 <think>\n</think>4", "5"], WORDS),
        (["Let me <b>see</b>. 4", "5"], []),
    ],
)  # fmt: skip
def test_thinking_inside_an_answer(tmp_path, answers, found):
    text = "{% set text = message.content if message.content is string"
    text += " else message.content | map(attribute='text') | join %}"
    cut = "{{ text if loop.last else text.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
    source = "{% for message in messages %}" + HEAD + text + cut
    turns = chat(*({"content": content} for content in answers))
    assert omitted(tmp_path, turns, source) == found


@pytest.mark.parametrize(
    ("source", "tools", "found"),
    [
        (CHATML, TOOLS, TOOLLESS),
        (CHATML, [], []),
        (FIRST + CHATML, TOOLS, []),
        (FIRST + CHATML, [{"name": "sum"}], []),
        ("{% for tool in tools %}{{ tool.name }}{% endfor %}" + CHATML, [{"name": "sum"}], []),
        ("{% if not tools %}{{ raise_exception('no tools') }}{% endif %}" + CHATML, TOOLS, []),
    ],
)
@pytest.mark.parametrize("said", ["4", "It adds two numbers: sum."])
def test_tools(tmp_path, source, tools, found, said):
    source = source.replace(FIRST, "{{- '<|im_start|>system\\n' }}" + FIRST + "<|im_end|>\n")
    # words of a tool's description in an answer do not show the tool
    assert omitted(tmp_path, chat({"content": said}), source, tools=tools) == found


def test_text_shows_whole(tiny):
    record = {"text": f"Let me see. <think>{THOUGHT}</think>"}
    assert tiny.omitted(read_record(record), "") == []
    assert tiny.omitted(read_record(record | {"tools": TOOLS}), "") == TOOLLESS


def test_thinking_that_is_shown_is_not_rendered_again(tmp_path, monkeypatch):
    source = FIRST + CHATML.replace(HEAD, HEAD + "{{ message.reasoning_content or '' }}")
    encoder = TextEncoder.open(write_model(tmp_path, source))
    talk = read_record({"messages": chat({"thinking": THOUGHT}), "tools": TOOLS})
    rendered = encoder.render(talk)
    monkeypatch.setattr(ChatTemplate, "render", None)
    assert encoder.omitted(talk, rendered) == []


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("qwen2_5_vl", [THINKING, THINKING, TOOLLESS]),
        ("qwen3_vl", [THINKING, THINKING, []]),
        ("qwen3_5", [[], THINKING, []]),
    ],
)
def test_templates_of_the_qwen_models(encoder_of, model, found):
    encoder = encoder_of(model)
    one, two = chat({"thinking": THOUGHT}), chat({"thinking": THOUGHT}, {})
    records = [{"messages": one}, {"messages": two}, {"messages": chat({}), "tools": TOOLS}]
    talks = map(read_record, records)
    assert [encoder.omitted(talk, encoder.render(talk)) for talk in talks] == found


def test_templates_that_take_thinking_out_of_an_answer_drop_what_stands_before_it(encoder_of):
    answers = [
        f"Let me see. <think>\n{THOUGHT}\n</think>\n\n4",
        f"<think>{THOUGHT}</think>Let me see. <think>Or not.</think>4",
        f"<think>{THOUGHT}</think>4",
        f"<think>{THOUGHT}</think>4</think>",
    ]
    talks = [read_record({"messages": chat({"content": one})}) for one in answers]
    encoder = encoder_of("qwen3_5")
    assert not any("Let me see" in encoder.render(talk) for talk in talks)
    found = [encoder.omitted(talk, encoder.render(talk)) for talk in talks]
    assert found == [WORDS, WORDS, [], WORDS]
