"""What data says of itself, made harmless: it may steer neither a terminal nor a CI runner."""

from __future__ import annotations

import unicodedata

_LEGACY_COMMAND = "##["
_STEERING = {"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"}


def plain(text: str) -> str:
    """Show control, format and line-breaking characters as escapes, on one line.

    An escape sequence in a sample's id would reach the terminal; a runner of GitHub or Azure
    obeys ``##[command]`` wherever it stands in a line, and ``::command::`` at a line's start.
    """
    shown = "".join(_shown(char) for char in text)
    return shown.replace(_LEGACY_COMMAND, "##\\[")


def _shown(char: str) -> str:
    if unicodedata.category(char) not in _STEERING:
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
