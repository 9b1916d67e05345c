"""GIF, still or animated: blocks are passed at a stride, up to the second frame."""

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


TAIL = 1 << 13
"""Bytes at the end of a file that tell whether it is whole."""

_CONTROL = b"!\xf9\x04"
_TRIES = 8
_FULL_BLOCKS = 8
"""Full blocks in a row that are no chance: 64 bits."""


def read(contents: Contents) -> Still | None:
    """Walk to the trailer, and count frames; the first one may reach beyond the screen.

    Behind the second frame nothing is of interest but whether the file has an end.
    """
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
            if len(frames) == 2 and ends_whole(contents.read(TAIL, max(0, contents.size - TAIL))):  # noqa: PLR2004 - animated
                return _still(screen, frames)
            place += 11 + colour_table(data[place + 9 : place + 10])
        elif block == _EXTENSION and data[place + 1 : place + 3] not in _SHORT_CONTROLS:
            place += 2
        else:
            return None
        place = behind_blocks(data, place)
    if place >= len(data) or not frames:
        return None
    return _still(screen, frames)


def _still(screen: tuple[int, int], frames: list[tuple[int, int]]) -> Still | None:
    height, width = (max(pair) for pair in zip(screen, frames[0], strict=True))
    return Still(height, width, animated=len(frames) > 1) if height and width else None


def ends_whole(tail: bytes) -> bool:
    """Tell whether the blocks at the end of a file lead to a trailer that is its last byte.

    Not so of a file that is cut short, nor of every whole one: then it has to be walked through.
    In what is cut, blocks that begin where a frame does lead beyond the end, and others do not
    fit together by chance.

    Args:
        tail: the last bytes of the file.
    """
    if not tail.endswith(b"\0;"):
        return False
    place = len(tail)
    for _ in range(_TRIES):
        place = tail.rfind(_CONTROL, 0, place)
        if place < 0:
            break
        if tail[place + 7 : place + 9] == b"\0,":
            start = place + 19 + colour_table(tail[place + 17 : place + 18])
            if behind_blocks(tail, start) == len(tail) - 1:
                return True
    return _full_behind(tail)


def _full_behind(tail: bytes) -> bool:
    """Whether full blocks in a row lead to a last one, which ends where the file does."""
    first = len(tail) - 258
    start = first - 256 * _FULL_BLOCKS
    if start < 0:
        return False
    # every place where the last block may start, at once
    full = (1 << 8 * 255) - 1
    for row in range(start, first, 256):
        full &= int.from_bytes(tail[row : row + 255], "big")
    marks = full.to_bytes(255, "big")
    return any(
        mark == _FULL and tail[first + place] == 255 - place for place, mark in enumerate(marks)
    )


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
