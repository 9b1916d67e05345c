"""GIF, still or animated: every block is passed, at a stride."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from mmap import mmap

    from packcli.encode.media.headers.still import Contents

    Data = bytes | mmap

MAGICS = (b"GIF8",)

_VERSIONS = {b"GIF87a", b"GIF89a"}
_SCREEN = 13
_IMAGE, _EXTENSION, _TRAILER = 0x2C, 0x21, 0x3B
_SHORT_CONTROLS = {b"\xf9" + bytes([length]) for length in range(4)}
"""A control block has four bytes; Pillow fails on fewer."""

_FULL = 0xFF
_RUN = 256 * 256
"""Bytes that 256 full blocks take, each behind its length."""


def read(contents: Contents) -> Still | None:
    """Walk to the trailer, and count frames; the first one may reach beyond the screen."""
    head = contents.head
    if head[:6] not in _VERSIONS:
        return None
    data = contents.all()
    screen = int.from_bytes(head[8:10], "little"), int.from_bytes(head[6:8], "little")
    frames: list[tuple[int, int]] = []
    place = _SCREEN + colour_table(head[10:11])
    while place < len(data) and (block := data[place]) != _TRAILER:
        if block == _IMAGE:
            left, top, width, height = _corner(data, place)
            frames.append((top + height, left + width))
            place += 11 + colour_table(data[place + 9 : place + 10])
        elif block == _EXTENSION and data[place + 1 : place + 3] not in _SHORT_CONTROLS:
            place += 2
        else:
            return None
        place = behind_blocks(data, place)
    if place >= len(data) or not frames:
        return None
    height, width = (max(pair) for pair in zip(screen, frames[0], strict=True))
    return Still(height, width, animated=len(frames) > 1) if height and width else None


def _corner(data: Data, place: int) -> list[int]:
    """Return left, top, width and height of a frame."""
    return [int.from_bytes(data[place + n : place + n + 2], "little") for n in (1, 3, 5, 7)]


def colour_table(flags: bytes) -> int:
    """Return the bytes of the table of colours that flags announce."""
    packed = int.from_bytes(flags, "big")
    return 3 << ((packed & 7) + 1) if packed & 0x80 else 0


def behind_blocks(data: Data, place: int) -> int:
    """Return the place behind a chain of blocks and its end; beyond the data if it is cut."""
    while place < len(data) and (length := data[place]):
        if length == _FULL:
            # nearly every block is full: their lengths stand at a fixed distance
            lengths = data[place : place + _RUN : 256]
            place += 256 * (len(lengths) - len(lengths.lstrip(b"\xff")))
        else:
            place += 1 + length
    return place + 1
