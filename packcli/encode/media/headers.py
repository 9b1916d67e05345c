"""Sizes of the plainest JPEG, PNG and WebP files, read straight from their headers.

Only what is common is read here, and only when every byte is as it should be; for anything else
the answer is None, and Pillow reads the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

Size = tuple[int, int]
"""Pixels: height, width."""

_HEAD, _TAIL = 1 << 12, 1 << 16
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""PNG: bits a sample, by colour type."""

_PLAIN_CHUNKS = frozenset({b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"sBIT", b"bKGD"})
_PICTURE_DATA = (b"eXIf", b"XML:com.adobe.xmp", b"Raw profile type", b"acTL")
_SKIPPED_SEGMENTS = frozenset({0xC4, 0xDD, 0xE0, 0xEE, 0xFE})
"""JPEG: Huffman tables, restart interval, JFIF, Adobe, comment."""

_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_TABLES, _SCAN = 0xDB, 0xDA
_COMPONENTS = {1, 3}


def plain_size(stream: BinaryIO) -> Size | None:
    """Return the size of a whole, still, upright image, None where Pillow has to look.

    Args:
        stream: the file, seekable.
    """
    head = stream.read(_HEAD)
    read = _READERS.get(head[:4])
    return None if read is None else read(head, stream)


def _png(head: bytes, stream: BinaryIO) -> Size | None:
    header = _chunk(head, 8, b"IHDR")
    if head[:8] != _PNG or header is None or len(header) != 13:  # noqa: PLR2004 - bytes of IHDR
        return None
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    known = header[8] in _DEPTHS.get(header[9], ()) and header[10:] in {b"\0\0\0", b"\0\0\1"}
    if not (known and width and height and _only_plain_chunks(head)):
        return None
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL))
    tail = stream.read()
    whole = tail.endswith(_PNG_END) and not any(name in tail for name in _PICTURE_DATA)
    return (height, width) if whole else None


def _only_plain_chunks(head: bytes) -> bool:
    """Walk from behind IHDR to the pixels."""
    place = 33
    while (kind := head[place + 4 : place + 8]) != b"IDAT":
        body = _chunk(head, place, kind)
        if kind not in _PLAIN_CHUNKS or body is None:
            return False
        place += len(body) + 12
    return True


def _chunk(head: bytes, place: int, kind: bytes) -> bytes | None:
    """Return the body of a chunk whose checksum is right."""
    length = int.from_bytes(head[place : place + 4], "big")
    body = head[place + 4 : place + 8 + length]
    check = head[place + 8 + length : place + 12 + length]
    right = body[:4] == kind and crc32(body).to_bytes(4, "big") == check
    return body[4:] if right else None


def _jpeg(head: bytes, stream: BinaryIO) -> Size | None:
    place, size = 2, None
    while place + 4 <= len(head) and head[place] == 0xFF:  # noqa: PLR2004 - a marker's first byte
        kind, length = head[place + 1], int.from_bytes(head[place + 2 : place + 4], "big")
        body = head[place + 4 : place + 2 + length]
        if kind == _SCAN:
            return size if _ends(stream) else None
        if kind in _FRAMES and size is None:
            size = _frame(body)
            if size is None:
                return None
        elif not (kind in _SKIPPED_SEGMENTS or (kind == _TABLES and _tables(body))):
            return None
        place += 2 + length
    return None


def _frame(body: bytes) -> Size | None:
    """Read the frame header: 8 bits a sample, one or three components."""
    if len(body) < 6 or body[0] != 8 or body[5] not in _COMPONENTS or len(body) != 6 + 3 * body[5]:  # noqa: PLR2004 - bits, components and their three bytes each
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    return (height, width) if height and width else None


def _tables(body: bytes) -> bool:
    """Whether these are whole quantization tables of 8 bits."""
    return bool(body) and len(body) % 65 == 0 and all(b < 4 for b in body[::65])  # noqa: PLR2004 - 64 numbers behind one of four names


def _ends(stream: BinaryIO) -> bool:
    stream.seek(-2, os.SEEK_END)
    return stream.read(2) == b"\xff\xd9"


def _webp(head: bytes, stream: BinaryIO) -> Size | None:
    size = stream.seek(0, os.SEEK_END)
    declared = int.from_bytes(head[4:8], "little") + 8
    if head[8:12] != b"WEBP" or declared != size or size < 30:  # noqa: PLR2004 - the shortest header
        return None
    length = int.from_bytes(head[16:20], "little")
    if 20 + length + length % 2 != size:
        return None
    if head[12:16] == b"VP8 " and not head[20] & 1 and head[23:26] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(head[p : p + 2], "little") & 0x3FFF for p in (26, 28))
    elif head[12:16] == b"VP8L" and head[20] == 0x2F and not head[24] & 0xE0:  # noqa: PLR2004 - signature, version 0
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        return None
    return (height, width) if height and width else None


_READERS: dict[bytes, Callable[[bytes, BinaryIO], Size | None]] = {
    _PNG[:4]: _png,
    b"RIFF": _webp,
    **{b"\xff\xd8\xff" + bytes([kind]): _jpeg for kind in (_TABLES, *_SKIPPED_SEGMENTS, *_FRAMES)},
}
