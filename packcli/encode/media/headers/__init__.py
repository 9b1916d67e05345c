"""Sizes of the plainest image files, read straight from their headers.

Only what is common is read here, and only when every byte is as it should be; for anything else
the answer is None, and Pillow reads the file. Each reader gives the answer that Pillow's would.
"""

from __future__ import annotations

import io
import os
from functools import partial
from typing import TYPE_CHECKING

from packcli.encode.media.headers import avif, bmp, gif, jpeg, png, tiff, webp
from packcli.encode.media.headers.still import HEAD, Contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from packcli.encode.media.headers.still import Still

_READERS: dict[bytes, Callable[[Contents], Still | None]] = {
    magic: module.read
    for module in (avif, bmp, gif, jpeg, png, tiff, webp)
    for magic in module.MAGICS
}
"""By the first four bytes, or two."""


def plain_size(stream: BinaryIO) -> Still | None:
    """Return what the header of a whole image says, None where Pillow has to look.

    Args:
        stream: the file, seekable.
    """
    contents = contents_of(stream)
    magic = contents.head[:4]
    read = _READERS.get(magic) or _READERS.get(magic[:2])
    return None if read is None else read(contents)


def contents_of(stream: BinaryIO) -> Contents:
    """Reach for bytes at a place; of a file without filling a buffer each time."""
    if isinstance(stream, io.BytesIO):
        data = stream.getvalue()
        return Contents(lambda count, place: data[place : place + count], len(data), data[:HEAD])
    number = stream.fileno()
    read = partial(os.pread, number)
    return Contents(read, os.fstat(number).st_size, read(HEAD, 0), number)
