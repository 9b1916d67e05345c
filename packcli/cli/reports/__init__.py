"""Reports: a verdict as text for a reader or a machine; one file a format, each a pure function.

A format's file has ``render(verdict) -> str``. What data says of itself (ids, file names) is
never passed on raw: see `safe`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from packcli.contract.verdict import Verdict

Format = Literal["text", "json", "github", "junit", "sarif"]

FORMATS: tuple[Format, ...] = ("text", "json", "github", "junit", "sarif")


def render(verdict: Verdict, form: Format) -> str:
    """Write a verdict in a format, without the last line break."""
    return import_module(f"{__name__}.{form}").render(verdict)
