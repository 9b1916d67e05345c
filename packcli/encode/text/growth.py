"""Which templates an engine without bounds may render: those whose results cannot run away.

Text grows where it is put together out of text that was put together before. The names of a
template are ordered by that: each has a level above all that it is made of, and a name that is
made of itself has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEVELS = 3
_NUMBER = 4096  # a width or count in the template, at most
_FUNCTIONS = frozenset({"namespace", "raise_exception", "strftime_now"})
_FILTERS = frozenset(
    {
        *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int"),
        *("items", "join", "last", "length", "list", "lower", "map", "reject", "rejectattr"),
        *("replace", "reverse", "safe", "select", "selectattr", "sort", "string", "title"),
        *("tojson", "trim", "unique", "upper"),
    }
)
_METHODS = frozenset(
    {
        *("capitalize", "count", "endswith", "find", "get", "items", "keys", "lower", "lstrip"),
        *("replace", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title"),
        *("upper", "values"),
    }
)
_FOREIGN = (
    *(nodes.Mul, nodes.Pow, nodes.CallBlock, nodes.FilterBlock, nodes.Include, nodes.Import),
    *(nodes.FromImport, nodes.Extends, nodes.Block),
)
_PARTS = (nodes.Concat, nodes.List, nodes.Tuple, nodes.Dict)
_JOINING = frozenset({"join", "replace"})

Made = tuple[str, str, int]
"""A name, one that it is made of, and 1 where more may come out than went in."""


def may_run_away(tree: nodes.Template) -> bool:
    """Tell whether a template can make much out of little, as far as its text shows."""
    macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
    if any(tree.find_all(_FOREIGN)) or not _known(tree, macros):
        return True
    for macro in macros.values():
        _rename(macro)
    made = {*_made(tree, macros)}
    level = dict.fromkeys((name for name, _, _ in made), 0)
    changed = True
    while changed:
        changed = False
        for name, of, more in made:
            least = level.get(of, 0) + more
            if level[name] < least:
                level[name], changed = least, True
            if least > _LEVELS:
                return True
    return False


def _known(tree: nodes.Template, macros: dict[str, nodes.Macro]) -> bool:
    """Whether nothing is used but what is known, and no large number."""
    for const in tree.find_all(nodes.Const):
        if isinstance(const.value, int | float) and not -_NUMBER <= const.value <= _NUMBER:
            return False
    if any(found.name not in _FILTERS for found in tree.find_all(nodes.Filter)):
        return False
    names = _FUNCTIONS | macros.keys()
    return all(_calls_known(call, names) for call in tree.find_all(nodes.Call))


def _calls_known(call: nodes.Call, names: frozenset[str]) -> bool:
    if call.dyn_args is not None or call.dyn_kwargs is not None:
        return False
    called = call.node
    if isinstance(called, nodes.Getattr):
        return called.attr in _METHODS
    return isinstance(called, nodes.Name) and called.name in names


def _rename(macro: nodes.Macro) -> None:
    """Tell the parameters of a macro from names outside."""
    own = {parameter.name for parameter in macro.args}
    for name in macro.find_all(nodes.Name):
        if name.name in own:
            name.name = f"{macro.name}.{name.name}"


def _made(tree: nodes.Template, macros: dict[str, nodes.Macro]) -> Iterator[Made]:
    for loop in tree.find_all(nodes.For):
        yield from _edges(loop.target, loop.iter, _more(loop.iter))
    for assign in tree.find_all(nodes.Assign):
        yield from _edges(assign.target, assign.node, _more(assign.node))
    for block in tree.find_all(nodes.AssignBlock):
        for part in block.body:
            yield from _edges(block.target, part, 1)
    yield from _made_by_macros(tree, macros)


def _made_by_macros(tree: nodes.Template, macros: dict[str, nodes.Macro]) -> Iterator[Made]:
    for macro in macros.values():
        for part in macro.body:
            yield from ((macro.name, of, 1) for of in _names(part))
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name in macros:
            yield from _passed(call, macros[call.node.name])


def _passed(call: nodes.Call, macro: nodes.Macro) -> Iterator[Made]:
    given = [*zip((one.name for one in macro.args), call.args, strict=False)]
    given += [(f"{macro.name}.{one.key}", one.value) for one in call.kwargs]
    for name, value in given:
        more = _more(value)
        yield from ((name, of, more) for of in _names(value))


def _edges(target: nodes.Node, value: nodes.Node, more: int) -> Iterator[Made]:
    for name in _names(target):
        yield from ((name, of, more) for of in _names(value))


def _names(node: nodes.Node) -> set[str]:
    kinds = (nodes.Name, nodes.NSRef)
    found = {one.name for one in node.find_all(kinds)}
    return found | ({node.name} if isinstance(node, kinds) else set())


def _more(value: nodes.Node) -> int:
    """1 where more may come out than went in."""
    every = [value, *value.find_all(nodes.Node)]
    return int(any(map(_puts_together, every)))


def _puts_together(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Add):
        sides = (node.left, node.right)
        return not any(isinstance(s, nodes.Const) and not isinstance(s.value, str) for s in sides)
    if isinstance(node, nodes.Filter):
        return node.name in _JOINING
    if isinstance(node, nodes.Call):
        # the methods that are known return parts; a function is a macro
        called = node.node
        return called.attr == "replace" if isinstance(called, nodes.Getattr) else True
    return isinstance(node, _PARTS)
