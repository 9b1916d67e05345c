"""Parquet: a row is a record, row groups are parts; images may be ``{bytes, path}`` structs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from packcli.contract.errors import InputError
from packcli.encode.records.raw import ByteRange, RawRecord, rows_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

SUFFIXES = (".parquet",)

_MOST_ROWS = 256
_BATCH_BYTES = 2**23


def ranges(path: Path, target_bytes: int) -> list[ByteRange]:
    """Cut between row groups; a part is as many of them as reach `target_bytes` unpacked.

    Raises:
        InputError: the file is no Parquet file.
    """
    parts: list[ByteRange] = []
    start = stop = size = 0
    with _opened(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    for place, group in enumerate(groups):
        stop, size = stop + group.num_rows, size + group.total_byte_size
        if (size >= target_bytes or place == len(groups) - 1) and stop > start:
            parts.append(ByteRange(start, stop, start))
            start, size = stop, 0
    return parts


def records(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the rows of a part.

    Raises:
        InputError: a page is damaged.
    """
    first = 0
    with _opened(path) as file:
        for place in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(place)
            if part.start <= first < part.stop:
                records = _rows(file, place, first)
                yield from (record for record in records if record.offset < part.stop)
            first += group.num_rows


def _rows(file: pq.ParquetFile, place: int, first: int) -> Iterator[RawRecord]:
    group = file.metadata.row_group(place)
    each = group.total_byte_size // max(1, group.num_rows)
    size = max(1, min(_MOST_ROWS, _BATCH_BYTES // max(1, each)))
    for batch in file.iter_batches(size, row_groups=[place]):
        yield from rows_of(batch, first)
        first += batch.num_rows


@contextmanager
def _opened(path: Path) -> Generator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        line = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read: {line:.160}; copy it again") from error
