"""The orientation in EXIF data, without the rest of it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ORIENTATION = 0x0112
_TEXT, _SHORT, _RATIONAL = 2, 3, 5
_HEADER = 8

SIDEWAYS = frozenset({5, 6, 7, 8})
"""Orientations that swap height and width."""

ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
"""Byte order of a TIFF directory as `struct` calls it, by the first bytes before it."""

BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Bytes of a value of a TIFF directory, by its type."""

_WRITTEN = {
    **dict.fromkeys((0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x8298), _TEXT),
    **dict.fromkeys((_ORIENTATION, 0x0128, 0x0213), _SHORT),
    **dict.fromkeys((0x011A, 0x011B), _RATIONAL),
}
"""Plain tags of the first directory, and the type that Pillow writes them with."""

XMP_ORIENTATION = b"tiff:Orientation"
"""XMP data may turn an image too, where EXIF data say nothing of it."""


class OddExifError(Exception):
    """Pillow has to say what this means."""


def sideways(data: bytes) -> bool | None:
    """Tell whether an image is stored on its side; None where its first directory does not say.

    Args:
        data: from the byte order on, all of it.

    Raises:
        OddExifError: anything is not as it should be.
    """
    found = orientation(data)
    return None if found is None else found in SIDEWAYS


def orientation(data: bytes) -> int | None:
    """Return the orientation; None where the first directory does not say.

    Args:
        data: from the byte order on, all of it.

    Raises:
        OddExifError: anything is not as it should be.
    """
    order, entries = _directory(data)
    found = [_value(order, entry) for entry in _entries(order, data, entries)]
    if len(found) > 1:
        raise OddExifError
    return found[0] if found else None


def rewritable(data: bytes) -> bool:
    """Tell whether Pillow can write the first directory anew: it has none but the plainest tags.

    Args:
        data: from the byte order on, all of it; its orientation was read.
    """
    order, entries = _directory(data)
    return all(
        _WRITTEN.get(tag) == kind and (kind == _TEXT or number == 1)
        for tag, kind, number, _ in struct.iter_unpack(f"{order}HHLL", entries)
    )


def _directory(data: bytes) -> tuple[str, bytes]:
    """Return the byte order and the entries of the first directory, 12 bytes each."""
    order = ORDERS.get(data[:4])
    if order is None or len(data) < _HEADER:
        raise OddExifError
    (place,) = struct.unpack_from(f"{order}L", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, place) if place + 2 <= len(data) else (0,)
    entries = data[place + 2 : place + 2 + 12 * count]
    if not count or len(data) < place + 6 + 12 * count:
        raise OddExifError
    return order, entries


def _entries(order: str, data: bytes, entries: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield type, number and value of every orientation."""
    left = len(data)
    for tag, kind, number, offset in struct.iter_unpack(f"{order}HHLL", entries):
        size = BYTES.get(kind, 0) * number
        if size > 4:  # noqa: PLR2004 - more does not fit into the entry
            left -= size
        # Pillow stops reading at a value that lies outside
        if not size or left < 0 or (size > 4 and offset + size > len(data)):  # noqa: PLR2004 - as above
            raise OddExifError
        if tag == _ORIENTATION:
            yield kind, number, offset


def _value(order: str, entry: tuple[int, int, int]) -> int:
    kind, number, value = entry
    if kind != _SHORT or number != 1:
        raise OddExifError
    return value >> 16 if order == ">" else value & 0xFFFF
