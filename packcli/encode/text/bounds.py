"""How much one rendering of a chat template makes, told before each step makes it.

An alarm cannot stop a single operation, and memory cannot hold what doubles at every step: each
text and list on the way is held to the bound of the whole output, and all of them together to a
few times that. What is not known here to be bounded, a template may not use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, cast

from jinja2.exceptions import SecurityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OUTPUT_LIMIT = 2**26
"""Characters that one rendering, or one text on the way to it, may have."""

_TOTAL = 16
"""All that one rendering makes on the way, in such outputs."""

ITEM, PIECE = 8, 64
"""Characters that an item of a list counts for, and one that is a new text."""

_CONVERSIONS = re.compile(r"[%{]")
_NESTED = re.compile(r":[^{}]*\{")
_NUMBERS = re.compile(r"\d+|\*")
_DIGITS = 12  # a number of so many is too much


class TooMuchError(SecurityError):
    """A template makes more than the limit; an engine without bounds would end the process."""


class Budget:
    """What one rendering may still make."""

    def __init__(self) -> None:
        self.left = 0
        self.renew()

    def renew(self) -> None:
        """Begin another rendering."""
        self.left = _TOTAL * OUTPUT_LIMIT

    def spend(self, size: int, maker: str) -> None:
        """Count what has been made.

        Args:
            size: characters.
            maker: what made them, for the message.

        Raises:
            TooMuchError: it is more than the limit, alone or with all before it.
        """
        bound(size, maker)
        self.left -= size
        if self.left < 0:
            raise TooMuchError(_told(maker))


def bound(size: int, maker: str) -> None:
    """Refuse what is too much.

    Args:
        size: characters, items or bits.
        maker: what would make them, for the message.

    Raises:
        TooMuchError: it is more than the limit.
    """
    if size > OUTPUT_LIMIT:
        raise TooMuchError(_told(maker))


def _told(maker: str) -> str:
    return f"a chat template may not make so much with {maker}"


def size_of(value: object) -> int:
    """Return characters that a value takes by itself, without what its items are."""
    if isinstance(value, str):
        return len(value)
    return ITEM * len(value) if isinstance(value, list | tuple | dict | set) else 0


def of_operator(operator: str, left: Any, right: Any) -> int:  # noqa: ANN401 - what a template computes with
    """Estimate what an operator makes, from above."""
    if operator == "%":
        return of_format(left, [right]) if isinstance(left, str) else 0
    if isinstance(left, int) and isinstance(right, int):
        return PIECE * _bits(operator, left, right)  # large numbers take time, too
    if operator == "+":
        return size_of(left) + size_of(right)
    if operator == "*":
        times = left if isinstance(left, int) else right
        return max(size_of(left), size_of(right)) * times if isinstance(times, int) else 0
    return 0


def _bits(operator: str, left: int, right: int) -> int:
    if operator == "**":
        return left.bit_length() * right
    return left.bit_length() + right.bit_length() if operator == "*" else 0


def of_format(form: str, given: Sequence[object]) -> int:
    """Estimate what a format makes, from above: each of its fields is as wide as the widest."""
    widths = [
        OUTPUT_LIMIT + 1 if width == "*" else int(f"{width:.{_DIGITS}}")
        for width in _NUMBERS.findall(form)
    ]
    if _NESTED.search(form):
        # a width may be an argument of its own
        widths += map(abs, _whole_numbers(given))
    widest = max(text_size(list(given)), *widths, 0)
    return len(form) + widest * len(_CONVERSIONS.findall(form))


def _whole_numbers(value: object) -> Iterator[int]:
    """Yield the whole numbers in a value; a field of a format may reach any of them."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        yield from _whole_numbers([*cast("Mapping[object, object]", value).values()])
    elif isinstance(value, list | tuple):
        for item in cast("Iterable[object]", value):
            yield from _whole_numbers(item)


def text_size(value: object, each: int = 0, indent: int = 0, depth: int = 1) -> int:
    """Estimate a value as text, from above but for escapes; stops where it is too much.

    Args:
        value: what is written.
        each: characters around every item.
        indent: characters before every item, for each level.
        depth: of the value.
    """
    if isinstance(value, str):
        return len(value) + 2
    if not isinstance(value, Mapping | list | tuple | set):
        # a number, or an object that is written by its name
        return value.bit_length() if isinstance(value, int) else PIECE
    around, size = 2 + each + indent * depth, 2 + indent * depth
    items = cast("Iterable[object]", value)
    for item in items:
        size += around + text_size(item, each, indent, depth + 1)
        if isinstance(value, Mapping):
            size += 2 + each + text_size(value[item], each, indent, depth + 1)
        if size > OUTPUT_LIMIT:
            break
    return size


def held(items: object, maker: str) -> list[Any]:
    """Make a list of what can be iterated.

    Raises:
        TooMuchError: its items, as text, are more than the limit.
    """
    if isinstance(items, Sized):
        bound((PIECE if isinstance(items, str) else ITEM) * len(items), maker)
    every: list[Any] = []
    size = 0
    for item in cast("Iterable[Any]", items):
        size += ITEM + size_of(item)
        bound(size, maker)
        every.append(item)
    return every


def of_join(items: Any, between: object) -> int:  # noqa: ANN401 - what can be iterated
    """Estimate what joining makes, from above; an attribute of an item is a part of its text."""
    return text_size(items) + text_size(between) * (len(items) if isinstance(items, Sized) else 0)


def of_replace(text: object, old: object, new: object, *_: object, **__: object) -> int:
    """Estimate what replacing makes, from above, however often it may."""
    for value in (text, old, new):
        bound(text_size(value), "replace")
    whole = str(text)
    return len(whole) + whole.count(str(old)) * len(str(new))


def of_split(text: str, between: object) -> int:
    """Estimate the list that splitting makes, from above."""
    pieces = text.count(between) if isinstance(between, str) and between else len(text) // 2
    return len(text) + PIECE * (pieces + 1)


def of_indent(text: object, width: object) -> int:
    """Estimate what indenting makes, from above."""
    bound(text_size(text), "indent")
    whole = str(text)
    wide = width if isinstance(width, int) else len(str(width))
    return len(whole) + (whole.count("\n") + 1) * wide


def concat(parts: Iterable[str]) -> str:
    """Join the output of a block.

    Raises:
        TooMuchError: it is more than the limit.
    """
    texts: list[str] = []
    size = 0
    for part in parts:
        size += len(part)
        bound(size, "~ or a block")
        texts.append(part)
    return "".join(texts)
