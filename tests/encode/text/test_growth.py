"""Which templates the engine without bounds may render."""

import pytest

from packcli.encode.text.growth import may_run_away
from packcli.encode.text.sandbox import environment
from packcli.encode.text.template import read_template


def runs_away(source):
    return may_run_away(environment().parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "{% set n = namespace(x='a') %}{% for m in x %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace() %}{% for m in x %}{% set n.x %}{{ n.x }}{% endset %}{% endfor %}",
        "{% set n = namespace(l=[1]) %}{% for m in x %}{% set n.l = [n.l, n.l] %}{% endfor %}",
        "{% set b = a ~ a %}{% set a = b ~ b %}",
        "{% set b = a + a %}{% set c = b + b %}{% set d = c + c %}{% set e = d + d %}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{{ m(m('a')) }}",
        "{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m('a') }}",
        "{{ 'a' * 2 }}",
        "{{ 'a' | center(5) }}",
        "{{ 'a'.ljust(5) }}",
        "{{ 5000 }}",
        "{{ range(3) }}",
        "{{ f(*x) }}",
        "{% filter upper %}x{% endfilter %}",
    ],
)
def test_growth_is_noticed(source):
    assert runs_away(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ '<' + m.role + '>' ~ m.content | trim }}{% endfor %}",
        "{% set n = namespace(i=0) %}{% for m in x %}{% set n.i = n.i + 1 %}{% endfor %}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set x = m(messages[0].content) %}{{ x }}",
        "{% set c = c.split('x')[-1].strip() %}{{ c }}",
    ],
)
def test_common_forms_are_not_taken_for_growth(source):
    assert not runs_away(source)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_templates_of_real_models_are_rendered_quickly(shared, name):
    assert not runs_away(read_template(shared / "models" / name))
