"""What the readers of headers get and give."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = 1 << 12
_SMALL = 1 << 17


@dataclass(frozen=True, slots=True)
class Still:
    """The first frame of an image.

    Attributes:
        height: pixels, as stored.
        width: pixels, as stored.
        sideways: EXIF orientation turns the image onto its side.
        animated: more than one frame.
    """

    height: int
    width: int
    sideways: bool = False
    animated: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """The bytes of a file.

    Attributes:
        read: so many bytes at a place, fewer at the end.
        size: bytes.
        head: the first 4 KiB.
        number: of the open file; None for bytes at hand.
    """

    read: Callable[[int, int], bytes]
    size: int
    head: bytes
    number: int | None = None

    def at(self, place: int, count: int) -> bytes:
        """Return bytes, out of the head where they lie there."""
        if place + count <= len(self.head):
            return self.head[place : place + count]
        return self.read(count, place)

    def all(self) -> bytes | mmap.mmap:
        """Return every byte; of a large file only those are read that are asked for."""
        if self.number is None or self.size <= _SMALL:
            return self.read(self.size, 0)
        return mmap.mmap(self.number, 0, access=mmap.ACCESS_READ)
