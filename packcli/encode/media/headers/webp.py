"""WebP, in its short and in its extended form, still or animated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.encode.media.headers.exif import XMP_ORIENTATION, OddExifError, sideways
from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

MAGICS = (b"RIFF",)

_SHORTEST = 30
_HEADER = 12
_MOST_CHUNKS = 256
_CORNERS = (0, 24, 48, 72)
_START = 34
"""Bytes that tell the size of a frame, also inside an animation."""

_ALPHA = 0x10
_FLAGS = {b"ICCP": 0x20, b"EXIF": 0x08, b"XMP ": 0x04, b"ANIM": 0x02}
_KNOWN = {b"VP8X", b"ICCP", b"ALPH", b"VP8 ", b"VP8L", b"EXIF", b"XMP ", b"ANIM", b"ANMF"}
_EXIF = b"Exif\0\0"


def read(contents: Contents) -> Still | None:
    """Read the canvas and the frame in it; the container ends with the file."""
    head, size = contents.head, contents.size
    declared = int.from_bytes(head[4:8], "little") + 8
    if head[8:12] != b"WEBP" or declared != size or size < _SHORTEST:
        return None
    if head[12:16] == b"VP8X":
        return _extended(contents)
    length = int.from_bytes(head[16:20], "little")
    found = _frame(head[12:16], head[20:30], length)
    return Still(*found) if found and 20 + length + length % 2 == size else None


def _extended(contents: Contents) -> Still | None:
    head = contents.head
    canvas = (int.from_bytes(head[27:30], "little") + 1, int.from_bytes(head[24:27], "little") + 1)
    chunks = _chunks(contents)
    if chunks is None or head[16:20] != b"\x0a\0\0\0":
        return None
    # what the flags do not announce is not looked at
    kinds = {kind for kind, *_ in chunks}
    announced = sum(flag for kind, flag in _FLAGS.items() if kind in kinds)
    if head[20] & ~_ALPHA != announced:
        return None
    moving = [(place, length, start) for kind, place, length, start in chunks if kind == b"ANMF"]
    frames = [
        _frame(kind, start[:10], length)
        for kind, _, length, start in chunks
        if kind in {b"VP8 ", b"VP8L"}
    ]
    if moving and not frames and b"ALPH" not in kinds and _all_fit(contents, moving, canvas):
        frames = [canvas]
    try:
        turned = _turned(contents, chunks)
    except OddExifError:
        return None
    animated = len(moving) > 1
    return Still(*canvas, sideways=turned, animated=animated) if frames == [canvas] else None


def _all_fit(
    contents: Contents, frames: list[tuple[int, int, bytes]], canvas: tuple[int, int]
) -> bool:
    """Whether every frame of an animation is whole, and inside the canvas.

    Args:
        contents: the file.
        frames: place, length and first bytes of each.
        canvas: height and width.
    """
    for place, length, start in frames:
        head, corner = start, int.from_bytes(start[:12], "little")
        left, top, width, height = (corner >> bits & 0xFFFFFF for bits in _CORNERS)
        kind, size = head[16:20], int.from_bytes(head[20:24], "little")
        body, used = head[24:34], 24 + size + size % 2
        if kind == b"ALPH":
            head = contents.at(place + used, 18)
            kind, size = head[:4], int.from_bytes(head[4:8], "little")
            body, used = head[8:], used + 8 + size + size % 2
            if kind != b"VP8 ":
                return False
        inside = 2 * top + height < canvas[0] and 2 * left + width < canvas[1]
        whole = used == length and len(body) == 10  # noqa: PLR2004 - what tells the size of a frame
        if not (whole and inside and _frame(kind, body, size) == (height + 1, width + 1)):
            return False
    return True


def _chunks(contents: Contents) -> list[tuple[bytes, int, int, bytes]] | None:
    """List kind, place, length and first bytes; None where they do not fill the file.

    Nor where one is unknown.
    """
    found: list[tuple[bytes, int, int, bytes]] = []
    place = _HEADER
    while place < contents.size and len(found) < _MOST_CHUNKS:
        mark = contents.at(place, 8 + _START)
        length = int.from_bytes(mark[4:8], "little")
        found.append((mark[:4], place + 8, length, mark[8:]))
        place += 8 + length + length % 2
    kinds = [kind for kind, *_ in found]
    once = [kind for kind in kinds if kind != b"ANMF"]
    whole = place == contents.size and len({*once}) == len(once) and _KNOWN.issuperset(kinds)
    if b"ANMF" in kinds or b"ANIM" in kinds:
        # the background and the number of rounds stand in front of all frames
        start = kinds.index(b"ANIM") if b"ANIM" in kinds else len(kinds)
        whole = whole and kinds.index(b"ANMF") > start and found[start][2] == 6  # noqa: PLR2004 - its bytes
    return found if whole else None


def _turned(contents: Contents, chunks: list[tuple[bytes, int, int, bytes]]) -> bool:
    body = {kind: contents.at(p, n) for kind, p, n, _ in chunks if kind in {b"EXIF", b"XMP "}}
    turned = None
    if body.get(b"EXIF"):
        turned = sideways(body[b"EXIF"].removeprefix(_EXIF))
    if turned is None and XMP_ORIENTATION in body.get(b"XMP ", b""):
        raise OddExifError
    return bool(turned)


def _frame(kind: bytes, body: bytes, length: int) -> tuple[int, int] | None:
    """Return height and width of a lossy or a lossless frame."""
    if kind == b"VP8 " and _shown(body[:6], length):
        width, height = (int.from_bytes(body[p : p + 2], "little") & 0x3FFF for p in (6, 8))
    elif kind == b"VP8L" and body[0] == 0x2F and not body[4] & 0xE0:  # noqa: PLR2004 - signature, version 0
        bits = int.from_bytes(body[1:5], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        return None
    return (height, width) if height and width else None


def _shown(frame: bytes, length: int) -> bool:
    """Whether a VP8 frame is a key frame that is shown, of a known version and not too long."""
    tag = int.from_bytes(frame[:3], "little")
    key, version, show, first = tag & 1 == 0, tag >> 1 & 7, tag >> 4 & 1, tag >> 5
    return frame[3:] == b"\x9d\x01\x2a" and key and version <= 3 and show == 1 and first < length  # noqa: PLR2004 - four versions
