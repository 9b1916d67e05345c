import json

import pytest

from packcli.contract.errors import InputError, Rejection
from packcli.encode.text import template as template_file
from packcli.encode.text.template import ChatTemplate, read_object, read_template, special_variables

USER = [{"role": "user", "content": "x"}]


def render(source, messages=USER, **more):
    return ChatTemplate(source, {"eos_token": "</s>"}).render(messages, **more)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}\n  {{ m.role }}\n{% endfor %}\n", "  user\n"),
        ("{{ eos_token }}{{ enable_thinking }}", "</s>False"),
        ("{{ tools | tojson }}", '[{"a": "<\'é&>"}]'),
        ("{{ tools | tojson(indent=1, sort_keys=true) }}", '[\n {\n  "a": "<\'é&>"\n }\n]'),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% set ns = namespace(self=1) %}{{ ns.self }}{{ dict(a=1).a }}", "11"),
        ("{{ strftime_now('%%') }}{{ documents is none }}", "%True"),
        ("{{ add_generation_prompt }}", "False"),
    ],
)
def test_the_sandbox_is_that_of_transformers(source, expected):
    assert render(source, tools=[{"a": "<'é&>"}], kwargs={"enable_thinking": False}) == expected
    transformers = pytest.importorskip("transformers.utils.chat_template_utils")
    theirs, _ = transformers.render_jinja_template(
        [USER],
        tools=[{"a": "<'é&>"}],
        chat_template=source,
        enable_thinking=False,
        eos_token="</s>",
    )
    assert theirs == [expected]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ raise_exception('No user query\nfound.') }}", "refuses: No user query found."),
        ("{{ messages[0].content + 1 }}", "TypeError"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% set ns = namespace() %}{% set ns._x = 1 %}", "may not store '_x'"),
        ("{% for i in range(10**9) %}{% endfor %}", "OverflowError"),
        ("{{ messages.append(1) }}", "unsafe"),
    ],
)
def test_what_a_template_may_not_do_rejects_the_record(source, told):
    with pytest.raises(Rejection) as caught:
        render(source)
    assert caught.value.code == "template_error"
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_output_is_capped(monkeypatch):
    monkeypatch.setattr(template_file, "OUTPUT_LIMIT", 1000)
    with pytest.raises(Rejection, match="more than 1000 characters"):
        render("{% for i in range(10000) %}xx{% endfor %}")


def test_a_template_that_does_not_compile():
    with pytest.raises(InputError, match="does not compile"):
        ChatTemplate("{% for %}", {})


def test_what_a_template_accepts_is_found_out():
    text_only = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", {})
    assert (text_only.parts_as_text, text_only.text_as_parts) == (True, False)
    listed = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
    parts_only = ChatTemplate(listed, {})
    assert (parts_only.parts_as_text, parts_only.text_as_parts) == (False, True)
    calls = (
        "{% for m in messages %}{% for c in m.tool_calls %}"
        "{% for k, v in c.function.arguments|items %}{% endfor %}{% endfor %}{% endfor %}"
    )
    assert ChatTemplate(calls, {}).needs_objects
    assert not text_only.needs_objects


def test_generation_tag_is_noticed():
    assert ChatTemplate("{%- generation -%}x{%- endgeneration -%}", {}).marks_answers
    assert not ChatTemplate("{{ 'generation' }}", {}).marks_answers


def test_the_first_place_that_has_a_template_wins(tmp_path):
    assert read_template(tmp_path) is None
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert (read_template(tmp_path), read_template(tmp_path, with_tools=True)) == ("d", "t")
    (tmp_path / "chat_template.json").write_text('{"chat_template": "j"}')
    assert read_template(tmp_path) == "j"
    (tmp_path / "chat_template.jinja").write_text("f")
    assert read_template(tmp_path, with_tools=True) == "f"


def test_a_broken_config_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: not valid JSON"):
        read_object(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(InputError, match="not a JSON object"):
        read_object(tmp_path / "a.json")


def test_special_tokens_by_name():
    config = {"eos_token": {"content": "</s>"}, "bos_token": None, "pad_token": "<p>", "x": "y"}
    assert special_variables(config) == {"eos_token": "</s>", "pad_token": "<p>"}
