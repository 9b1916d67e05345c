"""How much one step of a chat template makes, told before it makes it.

An alarm cannot stop a single operation, and memory cannot hold what doubles at every step: each
text on the way is held to the bound of the whole output.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from jinja2.exceptions import SecurityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

OUTPUT_LIMIT = 2**26
"""Characters that one rendering, or one text on the way to it, may have."""

_PADDING = frozenset({"center", "ljust", "rjust", "zfill"})
_FORMATS = frozenset({"format", "format_map"})
_NESTED = re.compile(r":[^{}]*\{")
_NUMBERS = re.compile(r"\d+|\*")
_TAB = 8


class TooMuchError(SecurityError):
    """A template makes more than the limit; an engine without bounds would end the process."""


def bound(size: int, maker: str) -> None:
    """Refuse what is too much.

    Args:
        size: characters, items or bits.
        maker: what would make them, for the message.

    Raises:
        TooMuchError: it is more than the limit.
    """
    if size > OUTPUT_LIMIT:
        raise TooMuchError(f"a chat template may not make so much with {maker}")


def of_operator(operator: str, left: Any, right: Any) -> int:  # noqa: ANN401 - what a template computes with
    """Estimate what an operator makes, from above."""
    if operator == "+":
        return _length(left) + _length(right)
    if operator == "%":
        return _widest(left) if isinstance(left, str) else 0
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * right if operator == "**" else 0
    if operator == "*":
        times = left if isinstance(left, int) else right
        return (_length(left) or _length(right)) * times if isinstance(times, int) else 0
    return 0


def of_method(name: str, text: str, args: Sequence[Any]) -> int:
    """Estimate what a method of a text makes, from above."""
    if name == "replace" and len(args) > 1:
        return _replaced(text, *args[:2])
    if name == "join" and args:
        return _joined(args[0], text)
    if name in _FORMATS:
        # a width may be an argument of its own
        given = args if _NESTED.search(text) else ()
        return max((_widest(text), *(arg for arg in given if isinstance(arg, int))))
    if name == "expandtabs":
        return len(text) + text.count("\t") * (args[0] if args else _TAB)
    return args[0] if name in _PADDING and args and isinstance(args[0], int) else 0


def _length(value: object) -> int:
    return len(cast("str", value)) if isinstance(value, str | list | tuple) else 0


def _widest(form: str) -> int:
    """Return the largest number in a format, as it may be a width; a star may be any."""
    found = _NUMBERS.findall(form)
    return max((OUTPUT_LIMIT + 1 if w == "*" else int(f"{w:.12}") for w in found), default=0)


def _replaced(text: object, old: object, new: object) -> int:
    whole = str(text)
    return len(whole) + whole.count(str(old)) * len(str(new))


def _joined(items: object, between: object) -> int:
    if not isinstance(items, list | tuple):
        return 0
    every = cast("list[object]", items)
    return sum(map(_length, every)) + len(str(between)) * len(every)


def _replace_filter(_context: object, s: object, old: object, new: object, **_: object) -> int:
    return _replaced(s, old, new)


def _join_filter(_context: object, value: object, d: object = "", **_: object) -> int:
    return _joined(value, d)


def _center_filter(value: object, width: int = 80) -> int:
    del value
    return width


def _indent_filter(s: object, width: int | str = 4, *_: object, **__: object) -> int:
    text = str(s)
    return len(text) + (text.count("\n") + 1) * (width if isinstance(width, int) else len(width))


def _format_filter(value: object, *_: object, **__: object) -> int:
    return _widest(str(value))


_FILTERS: dict[str, Callable[..., int]] = {
    "replace": _replace_filter,
    "join": _join_filter,
    "center": _center_filter,
    "indent": _indent_filter,
    "format": _format_filter,
}


def guard(filters: dict[str, Callable[..., Any]]) -> None:
    """Bound the filters that make long texts out of short ones."""
    for name, size in _FILTERS.items():
        filters[name] = _guarded(name, filters[name], size)


def _guarded(name: str, plain: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
    # `wraps` also copies the mark by which jinja2 knows that a filter takes the context
    @wraps(plain)
    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a filter's own
        bound(size(*args, **kwargs), name)
        return plain(*args, **kwargs)

    return guarded


def concat(parts: Iterable[str]) -> str:
    """Join the output of a block, or what stands around `~`.

    Raises:
        TooMuchError: it is more than the limit.
    """
    texts = [*parts]
    bound(sum(map(len, texts)), "~")
    return "".join(texts)
