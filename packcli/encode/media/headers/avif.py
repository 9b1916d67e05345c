"""AVIF: one image, or a sequence of them; with alpha, EXIF and XMP."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from PIL import features

from packcli.encode.media.headers import exif
from packcli.encode.media.headers.boxes import (
    OddBoxError,
    Property,
    check,
    handler,
    must,
    orientation,
    parts,
    properties,
    sides,
    walk,
)
from packcli.encode.media.headers.still import Still
from packcli.encode.media.headers.tracks import frames

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

MAGICS = tuple(length.to_bytes(4, "big") for length in range(16, 68, 4))
"""A file starts with the length of its first box, which lists brands of four bytes."""

_STILL, _MOVING, _REDUCED = b"avif", b"avis", b"mif3"
_HEADER = 8
_LONGEST = 1 << 16
_PARTS = frozenset({b"hdlr", b"pitm", b"iloc", b"iinf", b"iprp", b"iref"})
_PLACES = {
    0x0_44_00: struct.Struct(">H0sxx0sHLL"),
    0x0_44_40: struct.Struct(">H0sxxLHLL"),
    0x1_44_00: struct.Struct(">HHxx0sHLL"),
    0x1_44_40: struct.Struct(">HHxxLHLL"),
}
"""An item's number, whether it is not in the file, a place to count from, pieces, place and length.

By version, and by how long places, lengths and the places to count from are.
"""

_XMP = b"application/rdf+xml\0"
_TURNING = frozenset({b"irot", b"imir"})
_REFERENCES = frozenset({b"auxl", b"cdsc", b"prem"})
_SHOWN, _ALPHA, _EXIF, _TEXT = b"av01", b"av01auxl", b"Exifcdsc", b"mimecdsc"
_ROLES = frozenset({_SHOWN, _ALPHA, _EXIF, _TEXT})
"""Type of an item, and how it refers to the image."""


@dataclass(slots=True)
class _Items:
    """What a file holds, by item number.

    Attributes:
        primary: number of the image.
        kinds: type, and what stands behind the name.
        places: place and length.
        properties: of each image.
        references: kind and to which item.
        roles: which item has it.
    """

    primary: int
    kinds: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    properties: dict[int, list[Property]] = field(default_factory=dict)
    references: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    roles: dict[bytes, int] = field(default_factory=dict)


@cache
def _by_pillow() -> bool:
    """Whether Pillow reads AVIF at all; where it does not, no such file is an image."""
    return "avif" in features.modules and features.check_module("avif")


def read(contents: Contents) -> Still | None:
    """Read the description in front of the data; the file ends with its last box."""
    head = contents.head
    length = int.from_bytes(head[:4], "big")
    if head[4:8] != b"ftyp" or len(head) < length or not _by_pillow():
        return None
    brands = {head[place : place + 4] for place in range(16, length, 4)}
    try:
        if head[8:12] == _STILL and not brands & {_MOVING, _REDUCED}:
            return _still(contents, length)
        if head[8:12] == _MOVING and _STILL in brands and _REDUCED not in brands:
            return _moving(contents, length)
    except (OddBoxError, exif.OddExifError, struct.error, LookupError):
        pass  # what is missing or too short is odd as well
    return None


def cut_short(contents: Contents) -> bool:
    """Tell whether an item ends behind the file; False where its place is not plain to see."""
    place = 0
    try:
        while place < contents.size:
            mark = contents.at(place, _HEADER)
            if mark[4:] == b"meta":
                meta, _ = _box(contents, place, b"meta")
                found = {kind: meta[start:stop] for kind, start, stop in walk(meta, 4, len(meta))}
                items = _Items(0)
                _kinds(items, found[b"iinf"])
                _places(items, found[b"iloc"])
                return any(sum(span) > contents.size for span in items.places.values())
            place += max(int.from_bytes(mark[:4], "big"), _HEADER)
    except (OddBoxError, struct.error, LookupError):
        pass  # Pillow's own affair
    return False


def _still(contents: Contents, place: int) -> Still:
    meta, place = _box(contents, place, b"meta")
    _only_data(contents, place)
    items = _items(meta)
    size = _check(items, contents.size)
    return Still(*size, sideways=_turned(contents, items) in exif.SIDEWAYS)


def _moving(contents: Contents, place: int) -> Still:
    meta, place = _box(contents, place, b"meta")
    moov, place = _box(contents, place, b"moov")
    _only_data(contents, place)
    _check(_items(meta), contents.size)
    size, turned, count = frames(moov, contents.size)
    return Still(*size, sideways=turned in exif.SIDEWAYS, animated=count > 1)


def _box(contents: Contents, place: int, kind: bytes) -> tuple[bytes, int]:
    """Return the body of a box, and the place behind it."""
    mark = contents.at(place, _HEADER)
    length = int.from_bytes(mark[:4], "big")
    must(mark[4:] == kind and _HEADER <= length <= _LONGEST)
    body = contents.at(place + _HEADER, length - _HEADER)
    must(len(body) == length - _HEADER)
    return body, place + length


def _only_data(contents: Contents, place: int) -> None:
    """Check that boxes of data fill the rest of the file."""
    while place < contents.size:
        mark = contents.at(place, _HEADER)
        length = int.from_bytes(mark[:4], "big")
        must(mark[4:] in {b"mdat", b"free"} and length >= _HEADER)
        place += length
    must(place == contents.size)


def _items(meta: bytes) -> _Items:
    found = parts(meta, _PARTS, 4)
    must(meta[:4] == bytes(4) and next(iter(found), b"") == b"hdlr")
    must(handler(found[b"hdlr"]) == b"pict")
    version, primary = struct.unpack(">LH", found[b"pitm"])
    must(version == 0)
    items = _Items(primary)
    _kinds(items, found[b"iinf"])
    _places(items, found[b"iloc"])
    _properties(items, found[b"iprp"])
    _references(items, found.get(b"iref", bytes(4)))
    return items


def _kinds(items: _Items, body: bytes) -> None:
    version, count = struct.unpack_from(">LH", body)
    entries = walk(body, 6, len(body))
    must(version == 0 and count == len(entries))
    for kind, start, stop in entries:
        version, number, protected, name = struct.unpack_from(">HxxHH4s", body, start)
        end = body.find(b"\0", start + 12, stop)
        must(kind == b"infe" and version == 2 << 8 and not protected and end >= 0)
        must(number > 0 and number not in items.kinds)
        items.kinds[number] = name, body[end + 1 : stop]


def _places(items: _Items, body: bytes) -> None:
    """Read where each item is: one piece of the file."""
    version, form, count = struct.unpack_from(">LHH", body)
    entry = _PLACES[version >> 8 | form]
    must(len(body) == 8 + count * entry.size)
    for number, elsewhere, start, pieces, place, length in entry.iter_unpack(body[8:]):
        must(number in items.kinds and number not in items.places)
        must(pieces == 1 and not elsewhere)
        items.places[number] = (start or 0) + place, length


def _properties(items: _Items, body: bytes) -> None:
    boxes = walk(body, 0, len(body))
    must([kind for kind, _, _ in boxes] == [b"ipco", b"ipma"])
    (_, start, stop), (_, place, end) = boxes
    known = properties(body, start, stop)
    version, count = struct.unpack_from(">LL", body, place)
    must(version == 0)
    place, last = place + 8, 0
    for _ in range(count):
        number, length = struct.unpack_from(">HB", body, place)
        # numbers from 1 on; the topmost bit says that a property may not be passed over
        marks = body[place + 3 : place + 3 + length]
        must(number > last and number in items.kinds and all(mark & 0x7F for mark in marks))
        chosen = [known[(mark & 0x7F) - 1] for mark in marks]
        must(
            all(
                mark & 0x80 or kind not in _TURNING
                for mark, (kind, _) in zip(marks, chosen, strict=True)
            )
        )
        items.properties[number] = chosen
        place, last = place + 3 + length, number
    must(place == end)


def _references(items: _Items, body: bytes) -> None:
    must(body[:4] == bytes(4))
    for kind, start, stop in walk(body, 4, len(body)):
        number, count, other = struct.unpack(">HHH", body[start:stop])
        must(kind in _REFERENCES and count == 1 and number not in items.references)
        must(number in items.kinds and other in items.kinds)
        items.references[number] = kind, other


def _check(items: _Items, size: int) -> tuple[int, int]:
    """Return height and width of the image, with which are only alpha, EXIF and XMP, all whole."""
    must(items.kinds.keys() == items.places.keys())
    must(all(length and place + length <= size for place, length in items.places.values()))
    seen: set[tuple[tuple[int, int], int]] = set()
    for number, (kind, more) in items.kinds.items():
        reference, other = items.references.get(number, (b"", 0))
        shown = number == items.primary
        role = kind if reference == b"prem" and shown else kind + reference
        must(role in _ROLES and role not in items.roles)
        must((role == _SHOWN) == shown and (shown or other == items.primary))
        must(more == (_XMP if role == _TEXT else b""))
        items.roles[role] = number
        if kind == b"av01":
            named = check(items.properties[number])
            must((b"auxC" in named) == (role == _ALPHA))
            seen.add((sides(named), orientation(named)))
    must(len(seen) == 1 and _SHOWN in items.roles)
    ((image, _),) = seen
    return image


def _turned(contents: Contents, items: _Items) -> int:
    """Return the orientation that counts: the image's own, whatever EXIF data say.

    Pillow writes it into them where they say something else.
    """
    turned = orientation(dict(items.properties[items.primary]))
    told = None
    if number := items.roles.get(_EXIF):
        data = contents.at(*items.places[number])
        start = 4 + int.from_bytes(data[:4], "big")
        must(data[4:start] in {b"", b"Exif\0\0"})
        told = exif.orientation(data[start:])
        must(turned == (1 if told is None else told) or exif.rewritable(data[start:]))
    if (number := items.roles.get(_TEXT)) and told is None and turned == 1:
        must(exif.XMP_ORIENTATION not in contents.at(*items.places[number]))
    return turned
