"""Texts that a template may place and not look at: what it writes then holds for every text.

A template is rendered once on holes instead of contents. It may join them with other text, strip
white space off them, and ask what is true of every content that is given later: it is not blank,
and holds no token of the vocabulary. Whatever else it asks ends the attempt.
"""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, Self

from jinja2 import nodes
from jinja2.utils import pass_context

from packcli.encode.text.sandbox import RENDER_SECONDS, Sandbox, bring_names, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jinja2.runtime import Context

_FIRST = 0x100000
MOST_HOLES = 64
HOLE = re.compile(f"[{chr(_FIRST)}-{chr(_FIRST + 4 * MOST_HOLES - 1)}]")
_FOREIGN = re.compile("[\U00100000-\U0010ffff]")
_LEFT, _RIGHT = 1, 2
_STRIPPED: tuple[Callable[[str], str], ...] = (str, str.lstrip, str.rstrip, str.strip)
"""What becomes of a content in a hole, by the white space that a template takes off it."""


def hole_number(hole: str) -> int:
    """Tell which content belongs into a hole."""
    return (ord(hole) - _FIRST) // 4


def stripping(hole: str) -> Callable[[str], str]:
    """Tell how a content is stripped before it fills a hole."""
    return _STRIPPED[(ord(hole) - _FIRST) % 4]


_KINDS = frozenset(
    {"boolean", "defined", "float", "integer", "mapping", "none", "number", "string", "undefined"}
)
"""Tests that ask for the kind of a value."""

_OF_LISTS = frozenset(
    {"count", "first", "last", "length", "list", "rejectattr", "reverse", "selectattr"}
)
"""Filters that look at no text in a list but by a test."""


class SeenError(Exception):
    """A template looked at a text."""


def _seen(*_: object, **__: object) -> NoReturn:
    raise SeenError


class Unseen(str):  # noqa: PLW1641 - it refuses to be hashed, below
    """Text with holes in it: one private character each, that says which and how it is stripped.

    Its true length, and whatever else is not told here, is nobody's business.
    """

    __slots__ = ("tokens",)
    tokens: Collection[str]

    def __new__(cls, text: str, tokens: Collection[str]) -> Self:
        """Take text, and the strings that no content holds."""
        made = super().__new__(cls, text)
        made.tokens = tokens
        return made

    @classmethod
    def hole(cls, number: int, tokens: Collection[str]) -> Unseen:
        """Stand for one content."""
        return cls(chr(_FIRST + 4 * number), tokens)

    def __bool__(self) -> bool:
        """No content is empty."""
        return True

    def __eq__(self, other: object) -> bool:
        """Tell where it does not depend on a content."""
        if not isinstance(other, str) or (other.startswith(self._known) is False):
            return False
        return False if not other else _seen()

    def __ne__(self, other: object) -> bool:
        """Tell as `__eq__`."""
        return not self == other

    def __contains__(self, part: str) -> bool:
        """Tell whether a token is in it: not in a content, and nothing else is around that."""
        return False if len(self) == 1 and part in self.tokens else _seen()

    def startswith(self, prefix: object, *more: object) -> bool:  # type: ignore[override]
        """Tell where it does not depend on a content."""
        if more or type(prefix) is not str:
            _seen()
        if len(prefix) <= len(known := self._known):
            return known.startswith(prefix)
        if not prefix.startswith(known):
            return False
        return False if prefix[len(known) :] in self.tokens else _seen()

    def endswith(self, suffix: object, *more: object) -> bool:  # type: ignore[override]
        """Tell whether a content ends with a token."""
        if more or len(self) > 1 or suffix not in self.tokens:
            _seen()
        return False

    def strip(self, chars: str | None = None, /) -> Unseen:
        """Strip both ends."""
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> Unseen:
        """Strip the left end."""
        text = str.lstrip(self, chars)
        return self.like(_bare(text[0], _LEFT, chars) + text[1:])

    def rstrip(self, chars: str | None = None, /) -> Unseen:
        """Strip the right end."""
        text = str.rstrip(self, chars)
        return self.like(text[:-1] + _bare(text[-1], _RIGHT, chars))

    @property
    def _known(self) -> str:
        """What stands before the first content."""
        return HOLE.split(str.__str__(self), maxsplit=1)[0]

    def like(self, text: str) -> Unseen:
        """Take other text with the same holes, or some of them."""
        return Unseen(text, self.tokens)

    __hash__ = __iter__ = __getitem__ = __repr__ = __format__ = _seen  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = _seen  # type: ignore[assignment]
    __add__ = __radd__ = __mod__ = __rmod__ = __mul__ = __rmul__ = _seen  # type: ignore[assignment]


def _bare(edge: str, side: int, chars: str | None) -> str:
    """Note that a hole at the edge of a text has lost its white space there."""
    if HOLE.match(edge) is None:
        return edge
    known = ord(edge) - _FIRST
    if chars is None:
        known |= side
    elif not (known & side and chars.isspace()):
        _seen()
    return chr(_FIRST + known)


_ASKED: dict[str, Callable[..., Any]] = {
    name: getattr(Unseen, name) for name in ("startswith", "endswith", "strip", "lstrip", "rstrip")
}


class _Watchful(Sandbox):
    """A sandbox in which text with holes stays known for it, wherever it goes."""

    def __init__(self) -> None:
        super().__init__()
        for name, plain in self.filters.items():
            self.filters[name] = _watched_filter(name, plain)
        for name, plain in self.tests.items():
            if not hasattr(plain, "jinja_pass_arg"):
                self.tests[name] = _watched_test(name, plain)

    def concat(self, parts: Iterable[str]) -> str:
        every = list(parts)
        made = super().concat(every)
        return next((part.like(made) for part in every if isinstance(part, Unseen)), made)

    @staticmethod
    def shown(value: object) -> str:
        return value if isinstance(value, Unseen) else Sandbox.shown(value)

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:  # noqa: ANN401 - as the sandbox has it
        return _seen() if isinstance(value, Unseen) else super().sliced(value, start, stop, step)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - as the sandbox has it
        if not (isinstance(left, Unseen) or isinstance(right, Unseen)):
            return super().call_binop(context, operator, left, right)
        # text that is marked as safe escapes what is added to it
        plain = {type(left), type(right)} <= {str, Unseen}
        return self.concat((left, right)) if operator == "+" and plain else _seen()

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the sandbox has it
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, Unseen):
            return _ASKED.get(obj.__name__, _seen)(owner, *args)
        if owner is not None and any(isinstance(one, Unseen) for one in (*args, *kwargs.values())):
            _seen()
        return super().call(context, obj, *args, **kwargs)


def _watched_filter(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @pass_context
    def watched(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - a filter's own
        if name in {"default", "d"}:
            return plain(context, value, *args, **kwargs)
        if any(isinstance(one, Unseen) for one in (*args, *kwargs.values())):
            _seen()
        if isinstance(value, Unseen):
            if name == "trim" and not kwargs:
                return value.strip(*args)
            return value if name == "string" else _seen()
        if name in _OF_LISTS or name == "string" or not isinstance(value, list | tuple | dict):
            return plain(context, value, *args, **kwargs)
        return _seen()

    return watched


def _watched_test(name: str, plain: Callable[..., bool]) -> Callable[..., bool]:
    @wraps(plain)
    def watched(value: object, *args: object) -> bool:
        if any(isinstance(one, Unseen) for one in args):
            _seen()
        if isinstance(value, Unseen):
            return plain(str.__str__(value)) if name in _KINDS else _seen()
        return plain(value, *args)

    return watched


class UnseenTemplate:
    """A template that is rendered on holes.

    Args:
        source: its text.

    Raises:
        SeenError: it may look at a text where nobody would notice.
    """

    def __init__(self, source: str) -> None:
        sandbox = _Watchful()
        bring_names(sandbox)
        sandbox.globals["strftime_now"] = _seen
        self._sandbox = sandbox
        if _FOREIGN.search(source) or any(
            map(_in_text, sandbox.parse(source).find_all(nodes.Compare))
        ):
            raise SeenError
        self._template = sandbox.from_string(source)

    def render(self, context: Mapping[str, Any]) -> str:
        """Render a conversation with holes.

        Raises:
            SeenError: what is written depends on what is in them.
            Exception: whatever the template raises.
        """
        if any(_FOREIGN.search(v) for v in context.values() if isinstance(v, str)):
            raise SeenError
        self._sandbox.budget.renew()
        with seconds(RENDER_SECONDS):
            return "".join(self._template.generate(context))


def _in_text(compared: nodes.Compare) -> bool:
    """Whether a text may be looked for in another, which only the other would know."""
    sides = [compared.expr, *(operand.expr for operand in compared.ops)]
    return any(
        operand.op in {"in", "notin"}
        and not isinstance(left, nodes.Const)
        and not isinstance(operand.expr, nodes.List | nodes.Tuple)
        for left, operand in zip(sides, compared.ops, strict=False)
    )
