"""Sizes of the plainest JPEG, PNG and WebP files, read straight from their headers.

Only what is common is read here, and only when every byte is as it should be; for anything else
the answer is None, and Pillow reads the file.
"""

from __future__ import annotations

import io
import os
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

Size = tuple[int, int]
"""Pixels: height, width."""

_HEAD = 1 << 12
_MOST_CHUNKS = 64
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""PNG: bits a sample, by colour type."""

_PLAIN_CHUNKS = frozenset({b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"pHYs", b"sBIT", b"bKGD"})
_SKIPPED_SEGMENTS = frozenset({0xDD, 0xE0, 0xEE, 0xFE})
"""JPEG: restart interval, JFIF, Adobe, comment."""

_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_TABLES, _CODES, _SCAN = 0xDB, 0xC4, 0xDA
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
    pixels = _first_pixels(head)
    if not (known and width and height and pixels and _only_pixels(stream, pixels)):
        return None
    return height, width


def _first_pixels(head: bytes) -> int | None:
    """Walk from behind IHDR to the pixels; None where there is anything but plain chunks."""
    place = 33
    while (kind := head[place + 4 : place + 8]) != b"IDAT":
        body = _chunk(head, place, kind)
        if kind not in _PLAIN_CHUNKS or body is None:
            return None
        place += len(body) + 12
    return place


def _only_pixels(stream: BinaryIO, place: int) -> bool:
    """Whether pixels and the end follow; asked chunk by chunk, while there are few of them."""
    read = _reader(stream)
    for _ in range(_MOST_CHUNKS):
        head = read(8, place)
        if head[4:] == b"IEND":
            return read(13, place) == _PNG_END
        if head[4:] != b"IDAT":
            return False
        place += int.from_bytes(head[:4], "big") + 12
    return False


def _reader(stream: BinaryIO) -> Callable[[int, int], bytes]:
    """Return what reads some bytes at a place; of a file without filling a buffer each time."""
    if isinstance(stream, io.BytesIO):
        data = stream.getbuffer()
        return lambda count, place: bytes(data[place : place + count])
    return partial(os.pread, stream.fileno())


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
            return size if body and length == 6 + 2 * body[0] and _ends(stream) else None
        if kind in _FRAMES and size is None:
            size = _frame(body)
            if size is None:
                return None
        elif kind not in _SKIPPED_SEGMENTS and not _whole(kind, body):
            return None
        place += 2 + length
    return None


def _frame(body: bytes) -> Size | None:
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
    if head[12:16] == b"VP8 " and _shown(head[20:26], length):
        width, height = (int.from_bytes(head[p : p + 2], "little") & 0x3FFF for p in (26, 28))
    elif head[12:16] == b"VP8L" and head[20] == 0x2F and not head[24] & 0xE0:  # noqa: PLR2004 - signature, version 0
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        return None
    return (height, width) if height and width else None


def _shown(frame: bytes, length: int) -> bool:
    """Whether a VP8 frame is a key frame that is shown, of a known version and not too long."""
    tag = int.from_bytes(frame[:3], "little")
    key, version, show, first = tag & 1 == 0, tag >> 1 & 7, tag >> 4 & 1, tag >> 5
    return frame[3:] == b"\x9d\x01\x2a" and key and version <= 3 and show == 1 and first < length  # noqa: PLR2004 - four versions


_READERS: dict[bytes, Callable[[bytes, BinaryIO], Size | None]] = {
    _PNG[:4]: _png,
    b"RIFF": _webp,
    **{b"\xff\xd8\xff" + bytes([kind]): _jpeg for kind in (_TABLES, _CODES, *_SKIPPED_SEGMENTS)},
}
