"""JSON Lines: one record a line, read as bytes, so that no line can spoil another."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from packcli.encode.records.raw import RECORD_LIMIT, ByteRange, RawRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

SUFFIXES = (".jsonl", ".ndjson")

_BOM = b"\xef\xbb\xbf"
_CHUNK = 2**20
_BUFFER = 2**16


def ranges(path: Path, target_bytes: int) -> list[ByteRange]:
    """Cut a file at fixed byte positions and count the newlines before each.

    One pass over the bytes, about a gigabyte a second; nothing is parsed. The cuts fall inside
    lines: a line belongs to the range that holds its first byte.
    """
    with path.open("rb") as file:
        return cut(file, target_bytes)


def cut(file: BufferedReader, target_bytes: int) -> list[ByteRange]:
    """Cut what a stream gives, as `ranges`."""
    parts: list[ByteRange] = []
    start = newlines = 0
    # the first line starts behind a byte order mark and still belongs to the first range
    target_bytes = max(target_bytes, len(_BOM) + 1)
    while True:
        stop, inside = start, 0
        while stop - start < target_bytes:
            chunk = file.read(min(_CHUNK, target_bytes - (stop - start)))
            if not chunk:
                break
            stop += len(chunk)
            inside += chunk.count(b"\n")
        if stop == start:
            return parts
        parts.append(ByteRange(start, stop, newlines))
        start, newlines = stop, newlines + inside


def records(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the lines whose first byte lies in `part`, blank ones included."""
    with cast("BufferedReader", path.open("rb", _BUFFER)) as file:
        file.seek(max(0, part.start - 1))
        yield from lines(file, part)


def lines(file: BufferedReader, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the lines of a part from a stream that stands one byte before it."""
    line = part.newlines + 1
    offset = part.start
    if offset:
        skipped = _skip_line(file)
        # the byte before the range is a newline: then a line starts exactly here
        line += skipped > 1
        offset += skipped - 1
    elif file.peek(3).startswith(_BOM):
        offset = len(file.read(3))
    yield from _lines(file, part.stop, offset, line)


def _lines(file: BufferedReader, stop: int, offset: int, line: int) -> Iterator[RawRecord]:
    while offset < stop:
        raw = file.readline(RECORD_LIMIT)
        if not raw:
            return
        size, fault = len(raw), None
        if size == RECORD_LIMIT and not raw.endswith(b"\n"):
            size += _skip_line(file)
            fault = f"the line has {size} bytes, more than {RECORD_LIMIT}; split the record"
            raw = raw[:_CHUNK]
        yield RawRecord(line, offset, raw.rstrip(b"\r\n"), fault)
        offset += size
        line += 1


def _skip_line(file: BufferedReader) -> int:
    """Read to the end of the line, holding little; return the bytes passed."""
    passed = 0
    while chunk := file.readline(_CHUNK):
        passed += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return passed
