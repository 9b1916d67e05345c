import json
from itertools import islice

import pytest

from packcli.contract.errors import Rejection
from packcli.encode.records.reading import read_record
from packcli.encode.text import quick_template
from packcli.encode.text.quick_template import NotAlikeError
from packcli.encode.text.template import ChatTemplate
from tests.encode.conftest import CHATML

pytest.importorskip("minijinja")

CALLS = [{"type": "function", "function": {"name": "f", "arguments": {"huge": 1e22}}}]
PRINTED = (
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments.huge }}{% endfor %}{% endfor %}"
)


def quick(source, **variables):
    template = ChatTemplate(source, variables)
    template.prepare_quick()
    return template


def talk(*contents, **more):
    return [
        {"role": ("user", "assistant")[n % 2], "content": c, **more} for n, c in enumerate(contents)
    ]


def test_a_common_template_is_rendered_quickly():
    template = quick(CHATML)
    messages = talk("Hi <b>", "é\n")
    text = template.render(messages)
    assert text == "<|im_start|>user\nHi <b><|im_end|>\n<|im_start|>assistant\né\n<|im_end|>\n"
    template.trust(quick=False)
    assert template.render(messages) == text


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
        "{% set x = [] %}{% for m in messages %}{{ m.content.format(1) }}{% endfor %}",
        "{% for m in messages %}{{ m.content | title }}{{ 1e22 }}{% endfor %}",
        "{{ strftime_now('%f') }}{% for m in messages %}{{ m.content }}{% endfor %}",
    ],
)
def test_templates_that_only_jinja2_renders(source):
    assert quick(source)._quick is None


def test_numbers_in_calls_are_left_to_jinja2():
    template = quick(PRINTED)
    assert template._quick is not None
    assert not template._quick._knows_tools
    assert template.render(talk("a", "b", tool_calls=CALLS)) == "a1e+22b1e+22"


def test_what_only_python_strips_is_left_to_jinja2():
    template = quick("{% for m in messages %}{{ m.content | trim }}{% endfor %}")
    assert template._quick is not None
    assert template.render(talk("\x1ca\x1f ", "b")) == "ab"


def test_what_a_template_refuses_is_told_as_jinja2_tells_it():
    template = quick(
        "{% for m in messages %}{{ m.content }}{{ raise_exception('no') }}{% endfor %}"
    )
    with pytest.raises(Rejection, match="the chat template refuses: no; change the record"):
        template.render(talk("a", "b"))


def test_another_text_is_noticed(monkeypatch):
    template = quick(CHATML)
    monkeypatch.setattr(quick_template, "_CHECKED_SHARE", 1)
    monkeypatch.setattr(template._quick, "_render", lambda *_, **__: "other")
    with pytest.raises(NotAlikeError):
        template.render(talk("a", "b"))


def test_unknown_variables_are_left_to_jinja2(monkeypatch):
    template = quick("{{ x }}{% for m in messages %}{{ m.content }}{% endfor %}")
    monkeypatch.setattr(template._quick, "_render", lambda *_, **__: "other")
    assert template.render(talk("a", "b"), None, {"x": 1e22}) == "1e+22ab"


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
@pytest.mark.parametrize("corpus", ["tool_calls", "text_zh"])
def test_real_conversations_are_rendered_alike(shared, encoder_of, name, corpus):
    encoder = encoder_of(name)
    chat = encoder._chats[False].template
    chat.prepare_quick()
    drafts = []
    try:
        for trust in (True, False):
            chat.trust(quick=trust)
            with (shared / "realdata" / f"{corpus}.jsonl").open(encoding="utf-8") as lines:
                drafts.append([drafted(encoder, line) for line in islice(lines, 100)])
    finally:
        chat.trust(quick=False)
    assert drafts[0] == drafts[1]
    assert chat._quick is not None


def drafted(encoder, line):
    try:
        return encoder.draft(read_record(json.loads(line))).pieces
    except Rejection as rejection:
        return str(rejection)
