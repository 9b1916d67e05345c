"""A shelf: a folder of parts whose listing is the registry."""

from __future__ import annotations

from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def listed(folder: Iterable[str]) -> list[str]:
    """Name the parts on a shelf, sorted, without importing one.

    Args:
        folder: the package's ``__path__``; folders inside it are no parts.
    """
    return sorted(module.name for module in iter_modules(folder) if not module.ispkg)
