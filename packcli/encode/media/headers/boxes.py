"""Boxes of the ISO base media format, as AVIF has them; anything but plain ones is odd."""

from __future__ import annotations

import re
import struct

_BOX = struct.Struct(">L4s")
_HEADER = 8

LONGEST_SIDE = 1 << 15

_SOUND = {
    kind: re.compile(form, re.DOTALL).fullmatch
    for kind, form in {
        b"ispe": rb"\0{4}.{8}",
        b"pixi": rb"\0{4}(?:\x01.|\x02(.)\1|\x03(.)\2{2}|\x04(.)\3{3})",
        b"av1C": rb"\x81.{3}.*",
        b"colr": rb"nclx.{6}[\0\x80]|(?:prof|rICC).+",
        b"auxC": rb"\0{4}urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0",
        b"auxi": rb"\0{4}urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0",
        b"irot": rb"[\0-\3]",
        b"imir": rb"[\0\1]",
        b"pasp": rb".{8}",
        b"clli": rb".{4}",
    }.items()
}
"""Bodies of the properties, by kind; none other is known."""

_ORIENTATIONS = ((4, 2, 1), (5, 7, 8), (2, 4, 3), (7, 5, 6))
"""By quarters of a turn to the left; then by what is swapped: top and bottom, sides, nothing."""

Box = tuple[bytes, int, int]
"""Kind, start of the body, end of it."""

Property = tuple[bytes, bytes]
"""Kind and body, known to be sound."""


class OddBoxError(Exception):
    """Pillow has to say what this means."""


def must(sound: bool) -> None:  # noqa: FBT001 - reads as a sentence
    """Go on only where everything is as it should be.

    Raises:
        OddBoxError: it is not.
    """
    if not sound:
        raise OddBoxError


def walk(data: bytes, place: int, end: int) -> list[Box]:
    """List the boxes that fill the bytes from a place to an end.

    Raises:
        OddBoxError: they do not fill them, or one has a length of 64 bits or none.
        struct.error: the last one is less than a box.
    """
    found: list[Box] = []
    while place < end:
        length, kind = _BOX.unpack_from(data, place)
        stop = place + length
        if length < _HEADER or stop > end:
            raise OddBoxError
        found.append((kind, place + _HEADER, stop))
        place = stop
    return found


def parts(body: bytes, known: frozenset[bytes], place: int = 0) -> dict[bytes, bytes]:
    """Return the boxes that fill a body from a place on, by kind.

    Raises:
        OddBoxError: they do not fill it, or one is not known or there twice.
        struct.error: the last one is less than a box.
    """
    boxes = walk(body, place, len(body))
    found = {kind: body[start:stop] for kind, start, stop in boxes}
    must(len(found) == len(boxes) and known.issuperset(found))
    return found


def properties(
    data: bytes, place: int, end: int, passed: frozenset[bytes] = frozenset()
) -> list[Property]:
    """Read what images are described by.

    Args:
        data: the boxes lie in it.
        place: of the first one.
        end: of the last one.
        passed: kinds that are of no importance.

    Raises:
        OddBoxError: one is not as it should be.
        KeyError: one is unknown.
    """
    found = [(kind, data[start:stop]) for kind, start, stop in walk(data, place, end)]
    must(all(kind in passed or _SOUND[kind](body) for kind, body in found))
    return found


def handler(body: bytes) -> bytes:
    """Return what a handler is for.

    Raises:
        OddBoxError: it is not as it should be.
    """
    must(body[:8] == bytes(8) and 0 in body[24:])
    return body[8:12]


def check(found: list[Property]) -> dict[bytes, bytes]:
    """Return what describes one image, by kind.

    Raises:
        OddBoxError: it contradicts itself, or the decoder's configuration is missing.
    """
    named = dict(found)
    # one profile and one set of numbers may describe the colours
    apart = {body[:4] if kind == b"colr" else kind for kind, body in found}
    must(len(apart) == len(found) and b"av1C" in named)
    pixels = named.get(b"pixi")
    must(pixels is None or pixels[5] == _depth(named[b"av1C"]))
    return named


def sides(named: dict[bytes, bytes]) -> tuple[int, int]:
    """Return height and width of an image as stored, out of what describes it."""
    width, height = struct.unpack(">4xLL", named[b"ispe"])
    must(0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE)
    return height, width


def orientation(named: dict[bytes, bytes]) -> int:
    """Return EXIF's number for how an image is turned and mirrored, as Pillow translates it."""
    angle, axis = named.get(b"irot", b"\0"), named.get(b"imir", b"\2")
    return _ORIENTATIONS[angle[0]][axis[0]]


def _depth(config: bytes) -> int:
    """Return bits a sample."""
    if config[2] & 0x20:
        return 12
    return 10 if config[2] & 0x40 else 8
