"""BMP without compression: 8, 24 and 32 bits a pixel."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from packcli.encode.media.headers.still import Still

if TYPE_CHECKING:
    from packcli.encode.media.headers.still import Contents

MAGICS = (b"BM",)

_HEADERS = {40, 108, 124}
_FIELDS = struct.Struct("<IIiiHHI")
_PALETTE, _DEPTHS = 8, {8, 24, 32}


def read(contents: Contents) -> Still | None:
    """Compute where the rows end; a height below zero means that the first row is on top."""
    head = contents.head
    if len(head) < 54:  # noqa: PLR2004 - bytes of the shortest header
        return None
    offset, header, width, height, _, bits, packed = _FIELDS.unpack_from(head, 10)
    colours = int.from_bytes(head[46:50], "little") or 1 << _PALETTE
    start = 14 + header + (4 * colours if bits == _PALETTE else 0)
    known = header in _HEADERS and bits in _DEPTHS and not packed and colours <= 1 << _PALETTE
    if not known or offset < start or width <= 0 or height == 0 or -height >= 1 << 24:
        return None
    rows = abs(height) * ((width * bits + 31) // 32 * 4)
    return Still(abs(height), width) if offset + rows <= contents.size else None
