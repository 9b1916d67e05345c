"""Marks: how typed text is kept from becoming a control, media, thinking or tool token.

Before rendering, every token string inside a typed text becomes one private-use character that
remembers it. In the rendered text each remaining token string was written by the template; when
the pieces between are tokenized, marks are text again. A private-use character that somebody
typed is itself escaped, so nothing is lost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST, _LAST = 0xF0000, 0xFFFFD
_ESCAPE = chr(_LAST)
_GUARD = chr(_LAST - 1)
OPEN, CLOSE = chr(_LAST - 2), chr(_LAST - 3)
"""Stand around what a template puts between `{% generation %}` and `{% endgeneration %}`."""

_PRIVATE = f"[{chr(_FIRST)}-{chr(_LAST)}]"
_TYPED = re.compile(_PRIVATE)
ANY_MARK = re.compile(f"{_ESCAPE}{_PRIVATE}|{_PRIVATE}", re.DOTALL)
SPARED = frozenset({"<think>", "</think>", "<tool_call>", "</tool_call>"})
"""What an assistant turn may say itself: the template makes of it what it makes of it."""


class Marks:
    """The marks of one vocabulary.

    Args:
        tokens: strings that the tokenizer would cut out of any text; white space is left out.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        ordered = sorted(tokens, key=len, reverse=True)
        self._mark_of = {token: chr(_FIRST + i) for i, token in enumerate(ordered)}
        self._text_of = {mark: token for token, mark in self._mark_of.items()}
        named = "|".join(map(re.escape, ordered)) or "(?!)"
        # two fast searches instead of one slow one: `re` looks for the common first letter
        self._named = re.compile(named)
        self._found = re.compile(f"{named}|{_PRIVATE}")
        # a token may also be put together from the end of a text and what follows it
        self._heads = tuple({t[:i] for t in ordered for i in range(1, len(t)) if _odd(t[:i])})
        self._tails = tuple({t[i:] for t in ordered for i in range(1, len(t)) if _odd(t[i:])})
        edges = {t[0] for t in ordered} | {t[-1] for t in ordered}
        self._edge = re.compile("|".join(map(re.escape, sorted(edges))) or "(?!)")
        self._reach = max(map(len, ordered), default=1)

    def mark(self, text: str, spared: frozenset[str] = frozenset()) -> str:
        """Return the text with every token string but the spared ones marked.

        Equal to the input where nothing has to be marked, which is nearly always.
        """
        if self._named.search(text) or not (text.isascii() or _TYPED.search(text) is None):
            text = self._found.sub(lambda match: self._replace(match[0], spared), text)
        reach = self._reach
        edges = text if len(text) <= 2 * reach else text[:reach] + text[-reach:]
        if self._edge.search(edges):
            if text.endswith(self._heads):
                text += _GUARD
            if text.startswith(self._tails):
                text = _GUARD + text
        return text

    def clear(self, text: str) -> bool:
        """Whether a text holds no token string, no private character, and whole characters only."""
        if self._named.search(text) is not None:
            return False
        if text.isascii():
            return True
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return _TYPED.search(text) is None

    def _replace(self, found: str, spared: frozenset[str]) -> str:
        if found in spared:
            return found
        return self._mark_of.get(found) or _ESCAPE + found

    def mark_values(self, value: object) -> Any:  # noqa: ANN401 - any JSON value, as it came
        """Mark every string in a JSON value, keys too: templates print them."""
        if isinstance(value, str):
            return self.mark(value)
        if isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            return {self.mark(key): self.mark_values(item) for key, item in fields.items()}
        if isinstance(value, list):
            return [self.mark_values(item) for item in cast("list[object]", value)]
        return value

    def unmark(self, text: str) -> str:
        """Return a piece of rendered text as it was typed."""
        return text if text.isascii() else ANY_MARK.sub(self._restore, text)

    def _restore(self, match: re.Match[str]) -> str:
        mark = match[0]
        return mark[1] if len(mark) > 1 else self._text_of.get(mark, "")


def _odd(piece: str) -> bool:
    """Whether a piece of a token is unlike a word, whose end would be marked far too often."""
    return not piece.isalnum() and not piece.isspace()
