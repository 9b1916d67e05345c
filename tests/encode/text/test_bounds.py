"""No step of a chat template makes more than the limit, whatever makes it."""

import pytest
from jinja2.filters import FILTERS as JINJA

from packcli.contract.errors import InputError, Rejection
from packcli.encode.text import bounds
from packcli.encode.text.allowed import FILTERS
from packcli.encode.text.bounds import of_operator, text_size
from packcli.encode.text.template import ChatTemplate

USER = [{"role": "user", "content": "x"}]
DOUBLED = (
    "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}"
    "{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(bounds, "OUTPUT_LIMIT", 5000)


def refusal(source):
    with pytest.raises(Rejection) as caught:
        ChatTemplate(source, {}).render(USER)
    assert caught.value.code == "template_error"
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "maker"),
    [
        ("{{ range(99) | join('a' * 99) }}", "join"),
        ("{{ {'a': 1, 'b': 2} | join('a' * 3000) }}", "join"),
        ("{{ range(90) | map('string') | map('center', 500) | join }}", "join"),
        ("{{ ''.join(range(90) | map('string') | map('center', 500)) }}", "join"),
        ("{{ ('a' * 99).join(range(99)) }}", "join"),
        ("{{ [1] | batch(7000, 'x') | list }}", "batch"),
        ("{{ [1] | slice(7000) | list }}", "slice"),
        ("{{ ('a' * 4000) | list }}", "list"),
        ("{{ ('a ' * 2000).split() }}", "split"),
        ("{{ ('a' * 2000).split('a') }}", "split"),
        ("{{ 'x' | center(6000) }}", "center"),
        ("{{ 'x'.ljust(6000) }}", "ljust"),
        ("{{ 'x'.zfill(6000) }}", "zfill"),
        ("{% for i in [1] %}{% set y = 'x' %}{{ 'x'.rjust(6000) }}{% endfor %}", "rjust"),
        ("{{ ('x' | attr('rjust'))(6000) }}", "rjust"),
        ("{{ '\t'.expandtabs(6000) }}", "expandtabs"),
        ("{{ ('a' * 999).replace('a', 'b' * 99) }}", "replace"),
        ("{{ 'x' | indent(6000, true) }}", "indent"),
        ("{{ [1, 2] | tojson(indent=3000) }}", "tojson"),
        ("{{ [1, 2, 3] | tojson(separators=('a' * 2000, ':')) }}", "tojson"),
        ("{{ '%6000d' % 1 }}", "%"),
        ("{{ '%*d' % (6000, 1) }}", "%"),
        ("{{ '%(a)s%(a)s' % {'a': 'x' * 4000} }}", "%"),
        ("{{ '{:>{w}}'.format('x', w=6000) }}", "format"),
        ("{{ '%s' | format('x' * 4999) }}", "format"),
        ("{{ 1 | round(6000, 'ceil') }}", "round"),
        ("{{ 3 ** 60 }}", "**"),
        ("{% set x = 2 ** 39 %}{{ x * x }}", "*"),
        ("{{ joiner(*('a' * 999)) }}", "*"),
        (DOUBLED + "{{ ns.l }}", "a value"),
        (DOUBLED + "{{ '' ~ ns.l }}", "a value"),
        (DOUBLED + "{{ ns.l | string }}", "string"),
        (DOUBLED + "{{ ns.l | upper }}", "upper"),
        (DOUBLED + "{{ ns.l | tojson }}", "tojson"),
        (DOUBLED + "{{ '%s' % (ns.l,) }}", "%"),
        (DOUBLED + "{{ 'x'.replace('x', 'y') | replace(ns.l, '') }}", "replace"),
    ],
)
def test_a_step_is_bounded(source, maker):
    assert f"may not make so much with {maker};" in refusal(source)


@pytest.mark.parametrize(
    ("step", "maker"),
    [
        ("'x' | center(4000)", "center"),
        ("('x' * 4000)[1:]", "a slice"),
        ("'x'.ljust(4000)", "ljust"),
    ],
)
def test_all_steps_together_are_bounded(step, maker):
    kept = "{% set ns = namespace(l=[]) %}{% for i in range(COUNT) %}{% set ns.l = ns.l + [STEP] %}"
    source = kept.replace("STEP", step) + "{% endfor %}{{ ns.l | length }}"
    few = ChatTemplate(source.replace("COUNT", "3"), {})
    assert [few.render(USER), few.render(USER)] == ["3", "3"]
    message = refusal(source.replace("COUNT", "99"))
    assert "may not make so much with" in message


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("{{ (1).to_bytes(9, 'big') }}", "int.to_bytes"),
        ("{{ 'a'.translate({97: 'b'}) }}", "str.translate"),
        ("{{ 'a'.encode() }}", "str.encode"),
        ("{{ (1.5).hex() }}", "float.hex"),
        ("{{ 'a' | pprint }}", "the filter pprint"),
        ("{{ [[1]] | sum(start=[]) }}", "the filter sum"),
        ("{{ 'a' | xmlattr }}", "the filter xmlattr"),
    ],
)
def test_what_is_not_known_to_be_bounded_is_refused_by_name(source, named):
    assert named in refusal(source)
    # what does not run is not refused
    assert (
        ChatTemplate("{% if messages is none %}" + source + "{% endif %}y", {}).render(USER) == "y"
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ [3, 1] | sort | join('-') }}{{ 'a,b'.split(',') | last }}", "1-3b"),
        ("{{ {'a': 1} | tojson }}{{ {'b': 2} | dictsort }}", "{\"a\": 1}[('b', 2)]"),
        ("{{ messages | map(attribute='role') | join(', ') | title }}", "User"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ '%s-%d' | format('a', 2) }}{{ '{}'.format(3) }}{{ '%02d' % 4 }}", "a-2304"),
        ("{{ [1, 2, 3] | batch(2) | list }}{{ 'abc'[::-1] }}", "[[1, 2], [3]]cba"),
        ("{{ 'a\nb' | indent(2) }}{{ nothing | default('d') }}{{ '4' | int + 1 }}", "a\n  bd5"),
        ("{{ '<' | e }}{{ ' x ' | trim }}{{ range(3) | reverse | list }}", "&lt;x[2, 1, 0]"),
        ("{{ nothing | join('x') }}{{ nothing | list }}{{ 2 * 3 }}", "[]6"),
    ],
)
def test_what_chat_templates_use_is_as_jinja2_has_it(source, expected):
    assert ChatTemplate(source, {}).render(USER) == expected


def test_every_known_filter_is_one_of_jinja2():
    assert FILTERS.keys() - {"tojson"} <= JINJA.keys()


@pytest.mark.parametrize("value", ["ab", [], [1, "a"], {"a": [1, {"b": None}]}, (1.5, True), 2**99])
def test_the_size_of_a_text_is_told_from_above(value):
    assert len(str(value)) <= text_size(value) <= 4 * len(str(value)) + 64


def test_operators_that_make_no_more_are_free():
    assert [of_operator(o, 7, 2) for o in "+%"] == [0, 0]
    assert of_operator("+", "ab", "c") == 3


@pytest.mark.parametrize("depth", [100, 3000])
def test_a_template_nested_too_deeply_is_told_so(depth):
    with pytest.raises(InputError, match="does not compile: nested too deeply"):
        ChatTemplate("{{ " + "(" * depth + "messages" + ")" * depth + " }}", {})
    with pytest.raises(InputError, match="does not compile: nested too deeply"):
        ChatTemplate("{% for x in messages %}" * depth + "{% endfor %}" * depth, {})
