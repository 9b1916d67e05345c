"""JPEG: baseline and progressive, one or three components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.encode.media.headers.exif import XMP_ORIENTATION, OddExifError, sideways
from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_TABLES, _CODES, _SCAN, _METADATA, _PROFILE = 0xDB, 0xC4, 0xDA, 0xE1, 0xE2
_SKIPPED = frozenset({0xDD, 0xE0, 0xEE, 0xFE})
"""Restart interval, JFIF, Adobe, comment."""

_COMPONENTS = {1, 3}
_EXIF, _XMP, _ICC = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0", b"ICC_PROFILE\0"
_MOST_SEGMENTS = 64
MAGICS = tuple(
    b"\xff\xd8\xff" + bytes([kind]) for kind in (_TABLES, _CODES, _METADATA, _PROFILE, *_SKIPPED)
)


def read(contents: Contents) -> Still | None:
    """Walk through the segments up to the scan; its end is the end of the file."""
    if contents.read(2, contents.size - 2) != b"\xff\xd9":
        return None
    place, size = 2, None
    walk = _Walk(contents)
    for _ in range(_MOST_SEGMENTS):
        mark = contents.at(place, 4)
        if len(mark) < 4 or mark[0] != 0xFF:  # noqa: PLR2004 - a marker and its length
            return None
        kind, length = mark[1], int.from_bytes(mark[2:], "big")
        if kind == _SCAN:
            body = contents.at(place + 4, 1)
            return walk.turned(size) if body and length == 6 + 2 * body[0] else None
        if kind in _FRAMES and size is None:
            size = _frame(contents.at(place + 4, length - 2))
            if size is None:
                return None
        elif not walk.passes(kind, place + 4, length - 2):
            return None
        place += 2 + length
    return None


class _Walk:
    """What the segments in front of the scan said."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._sideways: bool | None = None
        self._exif = self._xmp = False

    def passes(self, kind: int, place: int, length: int) -> bool:
        """Whether a segment says nothing that only Pillow understands."""
        if length < 0 or place + length > self._contents.size:
            return False
        if kind in _SKIPPED:
            return True
        if kind == _METADATA:
            return self._metadata(place, length)
        if kind == _PROFILE:
            return length > len(_ICC) + 1 and self._contents.at(place, len(_ICC)) == _ICC
        return _whole(kind, self._contents.at(place, length))

    def _metadata(self, place: int, length: int) -> bool:
        body = self._contents.at(place, length)
        if body.startswith(_XMP):
            self._xmp = self._xmp or XMP_ORIENTATION in body
            return True
        if self._exif or not body.startswith(_EXIF):
            return False
        self._exif = True
        try:
            self._sideways = sideways(body[len(_EXIF) :])
        except OddExifError:
            return False
        return True

    def turned(self, size: tuple[int, int] | None) -> Still | None:
        """Return what is known at the scan."""
        if size is None or (self._xmp and self._sideways is None):
            return None
        return Still(*size, sideways=bool(self._sideways))


def _frame(body: bytes) -> tuple[int, int] | None:
    """Read the frame header: 8 bits a sample, one or three components."""
    if len(body) < 6 or body[0] != 8 or body[5] not in _COMPONENTS or len(body) != 6 + 3 * body[5]:  # noqa: PLR2004 - bits, components and their three bytes each
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    return (height, width) if height and width else None


def _whole(kind: int, body: bytes) -> bool:
    """Whether a segment holds whole tables: of quantization, with 8 bits, or of Huffman codes."""
    if kind == _TABLES:
        return bool(body) and len(body) % 65 == 0 and all(b < 4 for b in body[::65])  # noqa: PLR2004 - 64 numbers behind one of four names
    place = 0
    while kind == _CODES and place < len(body):
        place += 17 + sum(body[place + 1 : place + 17])
    return place == len(body)
