"""The garbage collector while records are encoded: seldom, as they make no cycles."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_YOUNG = 50_000
"""Objects on top of those of before that are looked through: more than a batch of chats holds."""


@contextmanager
def seldom() -> Generator[None]:
    """Leave what is loaded out of collections, and collect after many objects instead of 700.

    A batch of records lives as a whole and dies as a whole: looking for cycles in it takes a
    fifth of the time. What does leave cycles, some library, is still found.
    """
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()
