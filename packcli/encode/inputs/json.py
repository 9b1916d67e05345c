"""One JSON array in a file, pretty-printed or not: streamed element by element.

Only strings, brackets and commas are looked at to find where an element ends, so memory is
bounded by the largest element, and a broken element seldom spoils the next. A `.json` file that
does not start with `[` is read as JSON Lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson

from packcli.contract.errors import InputError
from packcli.encode.inputs import jsonl
from packcli.encode.records.raw import RECORD_LIMIT, ByteRange, RawRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

SUFFIXES = (".json",)

_CHUNK = 2**20
_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},"]', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_WHITE = b" \t\r\n"
_CUT = "the file ends inside the array: it was cut; copy it again"
_DEPTH = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def ranges(path: Path, target_bytes: int) -> list[ByteRange]:
    """Cut an array before elements; one scan of the brackets of the whole file."""
    if not _is_array(path):
        return jsonl.ranges(path, target_bytes)
    size = path.stat().st_size
    cuts = [(0, 0)]
    for record in _elements(path, ByteRange(0, size)):
        if record.offset - cuts[-1][0] >= target_bytes:
            cuts.append((record.offset, record.line - 1))
    cuts.append((size, 0))
    return [ByteRange(start, stop, lines) for (start, lines), (stop, _) in pairwise(cuts)]


def records(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the elements whose first byte lies in `part`, which `ranges` cut before one."""
    return _elements(path, part) if _is_array(path) else jsonl.records(path, part)


def in_disguise(path: Path) -> bool:
    """Tell whether a file that should hold lines holds one array instead."""
    if not _is_array(path):
        return False
    with path.open("rb") as file:
        first = file.readline(_CHUNK)
        alone = not file.read(_CHUNK).strip()
    if len(first) == _CHUNK or alone:
        return True
    try:
        orjson.loads(first.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        # an array over several lines, unless the line is merely broken
        return (
            first.removeprefix(_BOM).strip(_WHITE) in {b"[", b"[{"} or first.rstrip()[-1:] == b","
        )
    return False


def _is_array(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_CHUNK)
    return head.removeprefix(_BOM).lstrip(_WHITE).startswith(b"[")


@dataclass(slots=True)
class _Window:
    """The bytes in memory: `data[place:]` is not yet handed out.

    Attributes:
        offset: bytes, where `data` starts in the file.
        line: the physical line of `data[place]`.
    """

    file: BufferedReader
    offset: int
    line: int
    data: bytes = b""
    place: int = 0

    def grow(self) -> bool:
        """Forget what was handed out and read on; tell whether there was more."""
        left = self.data[self.place :]
        if len(left) > RECORD_LIMIT:
            where = f"{self.file.name}: the element at line {self.line}"
            raise InputError(f"{where} exceeds {RECORD_LIMIT} bytes; use JSON Lines, or split it")
        more = self.file.read(max(_CHUNK, len(left)))
        self.offset += self.place
        self.data, self.place = left + more, 0
        return bool(more)

    def move(self, place: int) -> None:
        self.line += self.data.count(b"\n", self.place, place)
        self.place = place

    def element_end(self) -> int | None:
        """Find the comma or bracket that ends the element at `place`; None: not in memory."""
        depth = 0
        for match in _MARK.finditer(self.data, self.place):
            mark = match[0]
            if mark == b'"':
                return None
            if depth == 0 and mark in b",]}":
                return match.start()
            depth += _DEPTH.get(mark, 0)
        return None

    def take(self, end: int, fault: str | None = None) -> RawRecord:
        """Hand out the bytes up to `end`, without the white space around them."""
        text = self.data[self.place : end]
        self.move(self.place + len(text) - len(text.lstrip(_WHITE)))
        record = RawRecord(self.line, self.offset + self.place, text.strip(_WHITE), fault)
        self.move(end)
        return record


def _elements(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    with path.open("rb") as file:
        window = _opened(file, part)
        empty = part.start == 0
        while True:
            end = window.element_end()
            if end is None:
                if window.grow():
                    continue
                yield window.take(len(window.data), _CUT)
                return
            closing = window.data[end] != ord(",")
            record = window.take(end)
            if record.offset >= part.stop:
                return
            if record.raw or not (closing and empty):
                yield _told(record)
            empty = False
            if closing:
                yield from _after(window, end + 1)
                return
            window.move(end + 1)


def _opened(file: BufferedReader, part: ByteRange) -> _Window:
    """Read the start of a part, and step over the bracket that opens the array."""
    file.seek(part.start)
    window = _Window(file, part.start, part.newlines + 1)
    window.grow()
    if part.start == 0:
        window.move(window.data.index(b"[") + 1)
    return window


def _told(record: RawRecord) -> RawRecord:
    """Give a place between two commas, or behind the last, its fault."""
    fault = "a comma without an element behind or before it; drop the comma"
    return record if record.raw else replace(record, fault=fault)


def _after(window: _Window, place: int) -> Iterator[RawRecord]:
    """Report anything but white space behind the end of the array."""
    window.move(place)
    window.grow()
    if window.data.strip(_WHITE):
        yield window.take(len(window.data), "there is text after the end of the array; drop it")
