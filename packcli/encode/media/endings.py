"""Find files that were cut short, by their end: a header alone cannot tell."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from packcli.encode.media.headers import avif, contents_of
from packcli.encode.media.headers.gif import TAIL, behind_blocks, colour_table, ends_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

_TAIL = 1 << 16
_BLOCK = 1 << 20
_ISO_KINDS = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"styp"})
_MORE_BOXES = frozenset({b"meta", b"mfra", b"sidx", b"udta", b"uuid", b"emsg", b"prft"})
_EBML, _SEGMENT = b"\x1aE\xdf\xa3", b"\x18S\x80g"


def image_cut_short(kind: str, stream: BinaryIO) -> bool:
    """Tell whether an image file lacks its end; False for kinds without a known end.

    Args:
        kind: Pillow's format name.
        stream: the file, seekable.
    """
    test = _IMAGES.get(kind)
    return test is not None and test(stream, _size(stream))


def video_cut_short(stream: BinaryIO) -> bool:
    """Tell whether an MP4, MOV, WebM, Matroska or AVI file lacks its end; others are not judged."""
    size = _size(stream)
    stream.seek(0)
    head = stream.read(12)
    if head[4:8] in _ISO_KINDS:
        return _boxes(stream, size)
    if head[:4] == _EBML:
        return _matroska(stream, size)
    return head[:4] == b"RIFF" and _riff(stream, size)


def read_tail(stream: BinaryIO) -> bytes:
    """Return the last 64 KiB of a file."""
    stream.seek(max(0, _size(stream) - _TAIL))
    return stream.read()


def _size(stream: BinaryIO) -> int:
    return stream.seek(0, os.SEEK_END)


def _lacks(mark: bytes, stream: BinaryIO, start: int = 0) -> bool:
    """Search near the end first: whatever stands behind the mark is somebody else's affair."""
    stream.seek(max(start, _size(stream) - _TAIL))
    if mark in stream.read():
        return False
    stream.seek(start)
    last = b""
    while block := stream.read(_BLOCK):
        if mark in last + block:
            return False
        last = block[1 - len(mark) :]
    return True


def _png(stream: BinaryIO, size: int) -> bool:
    del size
    return _lacks(b"IEND\xaeB`\x82", stream)


def _jpeg(stream: BinaryIO, size: int) -> bool:
    """Look for the end marker behind the start of the scan.

    Inside the scan 0xFF is always followed by 0x00 or a restart number, so an end marker there
    is one; before it, an embedded thumbnail has an end marker of its own.
    """
    scan = _start_of_scan(stream, size)
    return scan is None or _lacks(b"\xff\xd9", stream, scan)


def _start_of_scan(stream: BinaryIO, size: int) -> int | None:
    position = 2
    while position < size:
        stream.seek(position)
        head = stream.read(4)
        if head[:2] == b"\xff\xda":
            return position
        # as Pillow does, step over fill bytes, junk between segments and markers without length
        if head[:1] != b"\xff" or head[1:2] == b"\xff":
            position += 1
        elif head[1:2] in {b"\x00", b"\x01", b"\xd8"}:
            position += 2
        else:
            position += 2 + int.from_bytes(head[2:], "big")
    return None


def _gif(stream: BinaryIO, size: int) -> bool:
    """Walk through the blocks: the trailer's one byte is found anywhere by chance."""
    stream.seek(max(0, size - TAIL))
    if ends_whole(stream.read()):
        return False
    stream.seek(0)
    data = stream.read()
    position = 13 + colour_table(data[10:11])
    while position < size:
        block = data[position]
        if block == ord(";"):
            return False
        if block == ord(","):
            position += 11 + colour_table(data[position + 9 : position + 10])
        elif block == ord("!"):
            position += 2
        else:  # Pillow steps over what it does not know
            position += 1
            continue
        position = behind_blocks(data, position)
    return True


def _riff(stream: BinaryIO, size: int) -> bool:
    stream.seek(4)
    return int.from_bytes(stream.read(4), "little") + 8 > size


def _avif(stream: BinaryIO, size: int) -> bool:
    """Look at the items as well: the box of their bytes may be missing, or open at its end."""
    return _boxes(stream, size) or avif.cut_short(contents_of(stream))


def _bmp(stream: BinaryIO, size: int) -> bool:
    """Compute where rows without compression end; compressed ones are not judged."""
    stream.seek(10)
    head = stream.read(24)
    if len(head) < 24 or head[4] < 40 or head[20:24] not in {bytes(4), b"\3\0\0\0"}:  # noqa: PLR2004 - the fields end at byte 34; 40 is the header that has them
        return False
    offset, _, width, height, _, bits = struct.unpack("<IIiiHH", head[:20])
    return offset + (abs(width) * bits + 31) // 32 * 4 * abs(height) > size


def _boxes(stream: BinaryIO, size: int) -> bool:
    """Tell whether the file ends inside one of its top-level boxes."""
    position = 0
    seen: set[bytes] = set()
    while position < size:
        stream.seek(position)
        head = stream.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length == 0:
            return False
        if length < 8 or position + length > size:  # noqa: PLR2004 - a box starts with length and kind
            known = length >= 8 and kind in _ISO_KINDS | _MORE_BOXES  # noqa: PLR2004 - as above
            # what is no box is junk, and junk behind a whole file does no harm
            return known or not (b"mdat" in seen and seen & {b"moov", b"meta"})
        seen.add(kind)
        position += length
    return False


def _matroska(stream: BinaryIO, size: int) -> bool:
    """Compare the length that the one segment declares; a live recording declares none."""
    stream.seek(4)
    header = _ebml_length(stream)
    if header is None:
        return False
    stream.seek(header, os.SEEK_CUR)
    if stream.read(4) != _SEGMENT:
        return False
    length = _ebml_length(stream)
    return length is not None and stream.tell() + length > size


def _ebml_length(stream: BinaryIO) -> int | None:
    """Read a length of 1 to 8 bytes, as many as the first has leading zeros; None if all ones."""
    first = stream.read(1)
    if first in {b"", b"\0"}:
        return None
    more = 8 - first[0].bit_length()
    bits = 7 * (more + 1)
    value = int.from_bytes(first + stream.read(more), "big") & ((1 << bits) - 1)
    return None if value == (1 << bits) - 1 else value


_IMAGES: dict[str, Callable[[BinaryIO, int], bool]] = {
    "AVIF": _avif,
    "BMP": _bmp,
    "GIF": _gif,
    "JPEG": _jpeg,
    "MPO": _jpeg,
    "PNG": _png,
    "WEBP": _riff,
}
