"""The disk: what reaches it, and how it refuses."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from packcli.contract.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Tell a full, damaged or read-only disk as work that can be resumed.

    Raises:
        IncompleteError: an OSError was raised inside.
    """
    try:
        yield
    except OSError as error:
        raise IncompleteError(f"{path}: {error}; free space or mend it, then run again") from error


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
