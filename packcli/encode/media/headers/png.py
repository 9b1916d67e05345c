"""PNG, still or animated."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from packcli.encode.media.headers.exif import XMP_ORIENTATION, OddExifError, sideways
from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

MAGICS = (b"\x89PNG",)

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_END = b"\0\0\0\0IEND\xaeB`\x82"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Bits a sample, by colour type."""

_PLAIN = frozenset(
    {b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"sBIT", b"bKGD", b"tIME"}
)
_TURNING = (b"exif", b"Raw profile type exif", b"XML:com.adobe.xmp", b"xmp")
"""Keys of text that may turn an image."""

LATE = (b"eXIf", b"XML:com.adobe.xmp", b"Raw profile type exif")
"""What turns an image from behind its pixels, searched for in the last 64 KiB."""

_FRAMES = frozenset({b"acTL", b"fcTL"})
_MOST_FRAMES = 1 << 31
_TAIL = 1 << 16
_FEW = 16
_LONGEST_CHUNK = 1 << 16
_LARGEST_PROFILE = 1 << 20


def read(contents: Contents) -> Still | None:
    """Read the chunks in front of the pixels; the file ends with its last chunk."""
    header = _chunk(contents, 8, b"IHDR")
    if contents.head[:8] != _SIGNATURE or header is None or len(header) != 13:  # noqa: PLR2004 - bytes of IHDR
        return None
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    known = header[8] in _DEPTHS.get(header[9], ()) and header[10:] in {b"\0\0\0", b"\0\0\1"}
    if not (known and width and height):
        return None
    try:
        pixels, turned, animated = _in_front(contents, (width, height))
    except OddExifError:
        return None
    if not (_only_pixels(contents, pixels) or _nothing_late(contents)):
        return None
    return Still(height, width, sideways=turned, animated=animated)


def _in_front(contents: Contents, size: tuple[int, int]) -> tuple[int, bool, bool]:
    """Walk from behind IHDR to the pixels.

    Returns:
        Where they start, whether EXIF turns them, and whether they are one frame of several.

    Raises:
        OddExifError: there is anything but plain chunks, EXIF, profiles, text and animation.
    """
    frames: dict[bytes, bytes] = {}
    place, turned, said = 33, None, False
    while (kind := contents.at(place + 4, 4)) != b"IDAT":
        body = _chunk(contents, place, kind)
        if body is None:
            raise OddExifError
        if kind == b"eXIf" and not said:
            turned, said = sideways(body), True
        elif kind in _FRAMES and kind not in frames:
            frames[kind] = body
        elif kind not in _PLAIN and not _passes(kind, body):
            raise OddExifError
        place += len(body) + 12
    return place, bool(turned), bool(frames) and _animated(frames, size)


def _animated(frames: dict[bytes, bytes], size: tuple[int, int]) -> bool:
    """Tell whether there are frames; an image in front of the first one counts.

    Raises:
        OddExifError: their number or the first one is not as it should be.
    """
    told, first = frames.get(b"acTL", b""), frames.get(b"fcTL")
    count = int.from_bytes(told[:4], "big")
    if len(told) != 8 or not 0 < count < _MOST_FRAMES:  # noqa: PLR2004 - frames and repetitions
        raise OddExifError
    if first is not None:
        number, *sides = (int.from_bytes(first[n : n + 4], "big") for n in range(0, 20, 4))
        if len(first) != 26 or number or sides != [*size, 0, 0]:  # noqa: PLR2004 - bytes of fcTL
            raise OddExifError
    return count > 1 or first is None


def _passes(kind: bytes, body: bytes) -> bool:
    if kind == b"iCCP":
        return _profile(body.partition(b"\0")[2])
    key, zero, rest = body.partition(b"\0")
    if not zero or not key or (key in _TURNING and kind != b"iTXt"):
        return False
    if kind == b"tEXt":
        return True
    # text that is not compressed; a language, a key in it and the text itself
    plain = kind == b"iTXt" and rest[:1] == b"\0"
    return plain and (key not in _TURNING or XMP_ORIENTATION not in rest)


def _profile(packed: bytes) -> bool:
    """Whether Pillow would unpack a profile: beyond a mebibyte it refuses the file."""
    if packed[:1] != b"\0":
        return False
    unpacking = zlib.decompressobj()
    try:
        unpacking.decompress(packed[1:], _LARGEST_PROFILE)
    except zlib.error:
        return False
    return not unpacking.unconsumed_tail


def _only_pixels(contents: Contents, place: int) -> bool:
    """Whether pixels and the end follow; asked chunk by chunk, while there are few of them."""
    jumped = False
    for _ in range(_FEW):
        head = contents.read(8, place)
        if head[4:] == b"IEND":
            return contents.read(13, place) == _END
        if head[4:] != b"IDAT":
            return False
        step = int.from_bytes(head[:4], "big") + 12
        # encoders fill chunks of one length: the last full one is at a multiple of it
        times = 1 if jumped else max(1, (contents.size - len(_END) - place) // step - 1)
        place, jumped = place + times * step, True
    return False


def _nothing_late(contents: Contents) -> bool:
    """Whether the file ends with its end, and nothing near it turns the image."""
    start = max(0, contents.size - _TAIL)
    tail = contents.read(_TAIL, start)
    return tail.endswith(_END) and all(tail.rfind(name) < 0 for name in LATE)


def _chunk(contents: Contents, place: int, kind: bytes) -> bytes | None:
    """Return the body of a chunk whose checksum is right."""
    length = int.from_bytes(contents.at(place, 4), "big")
    if length > _LONGEST_CHUNK:
        return None
    body = contents.at(place + 4, length + 4)
    check = contents.at(place + 8 + length, 4)
    right = body[:4] == kind and zlib.crc32(body).to_bytes(4, "big") == check
    return body[4:] if right else None
