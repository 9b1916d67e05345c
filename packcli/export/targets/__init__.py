"""The shelf of targets: one file each, found by name, imported when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from packcli.contract.errors import UsageError
from packcli.contract.shelf import listed

if TYPE_CHECKING:
    from packcli.export.target import TargetFile


def names() -> list[str]:
    """Return the targets from the folder's listing: none is imported."""
    return [name.replace("_", "-") for name in listed(__path__)]


def load(name: str) -> TargetFile:
    """Import one target's file.

    Raises:
        UsageError: there is no target of that name.
    """
    if name not in names():
        raise UsageError(f"no target is called {name!r}; there are {', '.join(names())}")
    return cast("TargetFile", import_module(f"{__name__}.{name.replace('-', '_')}"))
