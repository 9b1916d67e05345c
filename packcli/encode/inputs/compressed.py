"""JSON Lines under gzip or Zstandard, read as a stream; places count in what it unfolds to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from packcli.contract.errors import InputError
from packcli.encode.inputs import jsonl
from packcli.encode.records.raw import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.encode.records.raw import RawRecord

_CODECS = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES = tuple(lines + packed for lines in jsonl.SUFFIXES for packed in _CODECS)

_CHUNK = 2**20
_MOST_PARTS = 16
"""Each part is reached from the start of the file: more of them cost more than they win."""

_UNJUDGED = 2**28
_MOST_TIMES = 300
"""Times its size that a file may unfold to, beyond 256 MiB: text reaches a tenth of it."""


def ranges(path: Path, target_bytes: int) -> list[ByteRange]:
    """Cut the content at fixed places, into few parts; one pass over all of it.

    Raises:
        InputError: the file is damaged, cut short, or unfolds to absurdly much.
    """
    with _open(path) as stream:
        pieces = jsonl.cut(stream, target_bytes)
    step = -(-len(pieces) // _MOST_PARTS) or 1
    groups = [pieces[first : first + step] for first in range(0, len(pieces), step)]
    return [ByteRange(some[0].start, some[-1].stop, some[0].newlines) for some in groups]


def records(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the lines whose first byte lies in `part`, blank ones included."""
    with _open(path) as stream:
        left = max(0, part.start - 1)
        while left:
            left -= len(stream.read(min(_CHUNK, left)))
        yield from jsonl.lines(stream, part)


def _open(path: Path) -> io.BufferedReader:
    return io.BufferedReader(_Unfolded(path), _CHUNK)


class _Unfolded(io.RawIOBase):
    """The content of a file, watched for damage and bombs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._most = max(_UNJUDGED, _MOST_TIMES * path.stat().st_size)
        self._passed = 0
        self._stream = pa.input_stream(str(path), compression=_CODECS[path.suffix.lower()])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        try:
            data: bytes = self._stream.read(len(view))
        except (OSError, ValueError) as error:
            message = f"{self._path} is damaged or cut short: {error!s:.120}; copy it again"
            raise InputError(message) from None
        self._passed += len(data)
        if self._passed > self._most:
            times = f"more than {_MOST_TIMES} times its size"
            raise InputError(f"{self._path} unfolds to {times}; if it should, unpack it yourself")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
