"""Filters and methods that a chat template may use: those whose results are known to be bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2.exceptions import SecurityError
from jinja2.utils import pass_context

from packcli.encode.text.bounds import (
    ITEM,
    PIECE,
    bound,
    held,
    of_format,
    of_indent,
    of_join,
    of_replace,
    of_split,
    size_of,
    text_size,
)

if TYPE_CHECKING:
    from jinja2.runtime import Context

    from packcli.encode.text.bounds import Budget

Size = Callable[..., int]
"""Estimates from above what is made of a value and the arguments."""


def _none(*_: object, **__: object) -> int:
    return 0


def _text(value: object, *_: object, **__: object) -> int:
    return text_size(value)


def _escaped(value: object) -> int:
    return 5 * text_size(value)  # &amp; for &


def _wide(value: object, width: object = 80, *_: object) -> int:
    return max(text_size(value), width if isinstance(width, int) else 0)


def _json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - as the filter has it
    indent: object = None,
    separators: object = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - as the filter has it
) -> int:
    del ensure_ascii, sort_keys
    each = 0 if separators is None else text_size(separators)
    wide = indent if isinstance(indent, int) else len(str(indent or ""))
    return text_size(value, each, max(0, wide))


def _joined(items: object, d: object = "", attribute: object = None) -> int:
    del attribute
    return of_join(items, d)


def _indented(s: object, width: object = 4, *_: object, **__: object) -> int:
    return of_indent(s, width)


def _formatted(value: object, *args: object, **kwargs: object) -> int:
    bound(text_size(value), "format")
    return of_format(str(value), [*args, kwargs])


def _batched(_: object, linecount: int, fill_with: object = None) -> int:
    del fill_with
    return ITEM * linecount


def _sliced(_: object, slices: int, fill_with: object = None) -> int:
    del fill_with
    return PIECE * slices


def _rounded(_: object, precision: int = 0, *__: object, **___: object) -> int:
    return 4 * abs(precision)  # 10**precision has so many bits


def _truncated(s: object, *args: object, **kwargs: object) -> int:
    return text_size([s, *args, kwargs])


FILTERS: dict[str, Size] = {
    **dict.fromkeys(
        [
            *("abs", "attr", "count", "d", "default", "dictsort", "first"),
            *("float", "groupby", "int", "items", "last", "length", "list"),
            *("map", "max", "min", "reject", "rejectattr", "reverse", "select"),
            *("selectattr", "sort", "unique"),
        ],
        _none,
    ),
    **dict.fromkeys(("capitalize", "lower", "safe", "string", "title", "trim", "upper"), _text),
    **dict.fromkeys(("e", "escape", "forceescape"), _escaped),
    "batch": _batched,
    "center": _wide,
    "format": _formatted,
    "indent": _indented,
    "join": _joined,
    "replace": of_replace,
    "round": _rounded,
    "slice": _sliced,
    "tojson": _json,
    "truncate": _truncated,
}
_GATHERING = frozenset({"groupby", "join", "list", "reverse", "slice", "sort"})
"""Filters that hold all items of their value at once."""


def _split(text: str, sep: object = None, *_: object, **__: object) -> int:
    return of_split(text, sep)


def _lines(text: str, *_: object, **__: object) -> int:
    return of_split(text, None)


def _tabs(text: str, tabsize: int = 8) -> int:
    return len(text) + text.count("\t") * tabsize


def _formed(text: str, *args: object, **kwargs: object) -> int:
    return of_format(text, [*args, kwargs])


def _joining(text: str, items: object) -> int:
    return of_join(items, text)


_TEXT_METHODS: dict[str, Size] = {
    **dict.fromkeys(
        [
            *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum"),
            *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric"),
            *("isprintable", "isspace", "istitle", "isupper", "lower", "lstrip", "partition"),
            *(
                "removeprefix",
                "removesuffix",
                "rfind",
                "rindex",
                "rpartition",
                "rstrip",
                "startswith",
            ),
            *("strip", "swapcase", "title", "upper"),
        ],
        _none,
    ),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _wide),
    **dict.fromkeys(("format", "format_map"), _formed),
    **dict.fromkeys(("rsplit", "split"), _split),
    "expandtabs": _tabs,
    "join": _joining,
    "replace": of_replace,
    "splitlines": _lines,
}
_METHODS: dict[type, dict[str, Size]] = {
    dict: dict.fromkeys(("copy", "get", "items", "keys", "values"), _none),
    list: dict.fromkeys(("copy", "count", "index"), _none),
    tuple: dict.fromkeys(("count", "index"), _none),
    float: {"is_integer": _none},
}


def check_method(owner: object, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a method that is not known, or that would make too much.

    Raises:
        SecurityError: either.
    """
    methods = _TEXT_METHODS if isinstance(owner, str) else _METHODS.get(type(owner), {})
    size = methods.get(name)
    if size is None:
        raise SecurityError(f"a chat template may not call {type(owner).__name__}.{name}")
    if size is not _none:
        bound(size(owner, *args, **kwargs), name)


def gathered(value: object, maker: str) -> Any:  # noqa: ANN401 - what a template computes with
    """Hold what can be iterated only once; what is held already is measured."""
    if isinstance(value, str):
        bound(PIECE * len(value), maker)
    elif isinstance(value, Iterable) and not isinstance(value, Sized):
        return held(value, maker)
    return value


def guard(filters: dict[str, Callable[..., Any]], budget: Budget) -> None:
    """Bound the filters that are known, and refuse the others."""
    for name, plain in filters.items():
        known = FILTERS.get(name)
        filters[name] = _refused(name) if known is None else _guarded(name, plain, known, budget)


def _refused(name: str) -> Callable[..., Any]:
    @pass_context
    def refused(*_: object, **__: object) -> None:
        raise SecurityError(f"a chat template may not use the filter {name}")

    return refused


def _guarded(
    name: str, plain: Callable[..., Any], size: Size, budget: Budget
) -> Callable[..., Any]:
    kind = getattr(plain, "jinja_pass_arg", None)
    passed = "" if kind is None else kind.name

    # with a context, jinja2 does not compute it while it compiles
    @pass_context
    @wraps(plain)
    def guarded(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a filter's own
        if name in _GATHERING:
            value = gathered(value, name)
        if size is not _none:
            bound(size(value, *args, **kwargs), name)
        if passed:
            first = {"context": context, "eval_context": context.eval_ctx}
            made = plain(first.get(passed, context.environment), value, *args, **kwargs)
        else:
            made = plain(value, *args, **kwargs)
        if made is not value:
            budget.spend(size_of(made), name)
        return made

    return guarded
