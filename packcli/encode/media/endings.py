"""Find files that were cut short, by their end: a header alone cannot tell."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

_TAIL = 1 << 16
_BLOCK = 1 << 20
_START_OF_SCAN = 0xDA
_ISO_KINDS = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"styp"})


def cut_short(kind: str, stream: BinaryIO, size: int) -> bool:
    """Tell whether an image file lacks its end; False for kinds without a known end.

    Args:
        kind: Pillow's format name.
        stream: the file, seekable.
        size: bytes.
    """
    test = {"JPEG": _jpeg, "MPO": _jpeg, "PNG": _png, "GIF": _gif, "WEBP": _webp}.get(kind)
    return test is not None and test(stream, size)


def _tail(stream: BinaryIO, size: int) -> bytes:
    stream.seek(max(0, size - _TAIL))
    return stream.read(_TAIL)


def _png(stream: BinaryIO, size: int) -> bool:
    return b"IEND\xaeB`\x82" not in _tail(stream, size)


def _gif(stream: BinaryIO, size: int) -> bool:
    return not _tail(stream, size).rstrip(b"\0").endswith(b";")


def _webp(stream: BinaryIO, size: int) -> bool:
    stream.seek(4)
    return int.from_bytes(stream.read(4), "little") + 8 > size


def _jpeg(stream: BinaryIO, size: int) -> bool:
    """Look for the end marker behind the start of the scan.

    Inside the scan 0xFF is always followed by 0x00 or a restart number, so an end marker there
    is one; before it, an embedded thumbnail has an end marker of its own.
    """
    scan = _start_of_scan(stream)
    if scan is None:
        return True
    tail = _tail(stream, size)
    if tail.rfind(b"\xff\xd9") + size - len(tail) > scan:
        return False
    stream.seek(scan)
    last = b""
    while block := stream.read(_BLOCK):
        if b"\xff\xd9" in last + block:
            return False
        last = block[-1:]
    return True


def _start_of_scan(stream: BinaryIO) -> int | None:
    position = 2
    while True:
        stream.seek(position)
        head = stream.read(4)
        if len(head) < 4 or head[0] != 0xFF:  # noqa: PLR2004 - marker and length; every marker starts so
            return None
        if head[1] == 0xFF:  # noqa: PLR2004 - fill byte before a marker
            position += 1
            continue
        if head[1] == _START_OF_SCAN:
            return position
        position += 2 + struct.unpack(">H", head[2:])[0]


def boxes_cut_short(stream: BinaryIO) -> bool:
    """Tell whether an MP4 / MOV file ends inside one of its top-level boxes.

    Files of other kinds are not judged.
    """
    size = stream.seek(0, os.SEEK_END)
    position, first = 0, True
    while position < size:
        stream.seek(position)
        head = stream.read(16)
        if first and head[4:8] not in _ISO_KINDS:
            return False
        first = False
        if len(head) < 8:  # noqa: PLR2004 - a box starts with length and kind
            return True
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length == 0:
            return False
        if length < 8 or position + length > size:  # noqa: PLR2004 - as above
            return True
        position += length
    return False
