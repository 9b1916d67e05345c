"""TIFF: grey, RGB or YCbCr with 8 bits a sample, in strips."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from packcli.encode.media.headers.exif import BYTES, ORDERS, SIDEWAYS
from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

MAGICS = tuple(ORDERS)

_SHORT, _LONG, _RATIONAL = 3, 4, 5
_WIDTH, _HEIGHT, _BITS, _PACKED, _MEANING = 256, 257, 258, 259, 262
_STRIPS, _TURNED, _SAMPLES, _ROWS, _COUNTS = 273, 274, 277, 278, 279
_ACROSS, _DOWN, _PLANES, _UNIT, _PREDICTOR, _FORMAT = 282, 283, 284, 296, 317, 339
_WHOLE = frozenset({_SHORT, _LONG})
_KINDS: dict[int, frozenset[int]] = {
    **dict.fromkeys((_WIDTH, _HEIGHT, _STRIPS, _COUNTS, _ROWS), _WHOLE),
    **dict.fromkeys((_BITS, _PACKED, _MEANING, _TURNED, _SAMPLES, _PLANES), frozenset({_SHORT})),
    **dict.fromkeys((_UNIT, _PREDICTOR, _FORMAT, 266), frozenset({_SHORT})),
    **dict.fromkeys((_ACROSS, _DOWN), frozenset({_RATIONAL})),
    34665: _WHOLE,
    34675: frozenset({1, 7}),
    **dict.fromkeys((254, 255), _WHOLE),
    **dict.fromkeys((269, 270, 271, 272, 285, 305, 306, 315, 316, 33432), frozenset({2})),
    700: frozenset({1, 7}),
    347: frozenset({7}),
    530: frozenset({_SHORT}),
    532: frozenset({_RATIONAL}),
}
"""Types of the tags that are known here: those above, EXIF, a profile, kinds, texts, XMP, JPEG."""

_COMPRESSIONS = frozenset({1, 5, 7, 8, 32773, 32946})
_LAYOUTS = {
    *(((8,), (0,), (1,)), ((8,), (1,), (1,))),
    *(((8, 8, 8), (2,), (3,)), ((8, 8, 8), (6,), (3,))),
}
"""Bits, meaning and number of samples."""

_MOST_TAGS = 64
_MOST_VALUES = 1 << 16


def read(contents: Contents) -> Still | None:
    """Read the first directory; every strip ends inside the file.

    Pillow turns the size of a TIFF itself, whatever is asked for.
    """
    order = ORDERS[contents.head[:4]]
    place = int.from_bytes(contents.head[4:8], "little" if order == "<" else "big")
    entries = _entries(contents, order, place)
    if entries is None:
        return None
    tags, after = entries
    if after == place or not _plain(tags):
        return None
    ends = map(int.__add__, tags[_STRIPS], tags[_COUNTS])
    if (
        len(tags[_STRIPS]) != len(tags[_COUNTS])
        or max(ends, default=contents.size + 1) > contents.size
    ):
        return None
    (height,), (width,) = tags[_HEIGHT], tags[_WIDTH]
    if tags.get(_TURNED, (1,))[0] in SIDEWAYS:
        height, width = width, height
    return Still(height, width, animated=after != 0) if height and width else None


def _plain(tags: dict[int, tuple[int, ...]]) -> bool:
    needed = {_WIDTH, _HEIGHT, _BITS, _MEANING, _STRIPS, _COUNTS}
    if not needed <= tags.keys() or any(len(tags[tag]) != 1 for tag in (_WIDTH, _HEIGHT)):
        return False
    samples = tags.get(_SAMPLES, (1,))
    return (
        (tags[_BITS], tags[_MEANING], samples) in _LAYOUTS
        and tags.get(_PACKED, (1,)) in {(one,) for one in _COMPRESSIONS}
        and {*tags.get(_FORMAT, (1,))} == {1}
        and all(tags.get(tag, (1,)) == (1,) for tag in (_PLANES, 266))
        and all(len(tags.get(tag, (1,))) == 1 for tag in (_TURNED, _ROWS, _UNIT))
    )


def _entries(
    contents: Contents, order: str, place: int
) -> tuple[dict[int, tuple[int, ...]], int] | None:
    """Return the whole numbers of a directory by tag, and the place of the next directory.

    None where a tag is not known, comes twice, or reaches out of the file.
    """
    (count,) = struct.unpack(f"{order}H", contents.at(place, 2).ljust(2, b"\0"))
    table = contents.at(place + 2, 12 * count + 4)
    if not 0 < count <= _MOST_TAGS or len(table) != 12 * count + 4:
        return None
    tags: dict[int, tuple[int, ...]] = {}
    for tag, kind, number, value in struct.iter_unpack(f"{order}HHL4s", table[:-4]):
        size = BYTES.get(kind, 0) * number
        known = kind in _KINDS.get(tag, ()) and tag not in tags and number <= _MOST_VALUES
        start = int.from_bytes(value, "little" if order == "<" else "big")
        if not known or not size or (size > 4 and start + size > contents.size):  # noqa: PLR2004 - more does not fit into the entry
            return None
        tags[tag] = ()
        if kind in _WHOLE:
            data = value[:size] if size <= 4 else contents.at(start, size)  # noqa: PLR2004 - as above
            tags[tag] = struct.unpack(f"{order}{number}{'H' if kind == _SHORT else 'L'}", data)
    return tags, struct.unpack(f"{order}L", table[-4:])[0]
