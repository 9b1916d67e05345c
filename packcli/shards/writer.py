"""Write one shard: row groups of bounded size, page checksums, nothing visible before its end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packcli.contract.columns import Axis, Column, columns_for
from packcli.contract.errors import InputError
from packcli.contract.packs import Packs
from packcli.contract.padding import padding_of
from packcli.shards.arrow import schema, to_batch

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from packcli.contract.model import ModelFacts

GROUP_TOKENS = 57_344
"""Tokens that close a row group: eight packs of 8192 that are nearly full are one.

A random pack stays cheap to read, and pages compress well.
"""

_MANY = (Axis.TOKEN, Axis.WINDOW)


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """What a shard holds."""

    rows: int
    samples: int
    tokens: int


class ShardWriter:
    """Append packs to one Parquet file.

    Row groups depend on the packs alone, not on the portions in which they arrive, so equal
    packs give equal bytes.
    """

    def __init__(self, path: Path, facts: ModelFacts) -> None:
        self._facts = facts
        self._waiting: list[Packs] = []
        self._waiting_tokens = 0
        self._rows = self._samples = self._tokens = 0
        self._file = pq.ParquetWriter(path, schema(facts), **layout(facts))

    def __enter__(self) -> Self:
        """Open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; a shard that ends by an error is not flushed, its file is left to be swept."""
        try:
            if kind is None:
                self._flush(last=True)
        finally:
            self._file.close()

    @property
    def counts(self) -> ShardCounts:
        """What was written so far."""
        return ShardCounts(self._rows, self._samples, self._tokens)

    def write(self, packs: Packs) -> None:
        """Append packs."""
        self._rows += len(packs)
        self._samples += int(np.count_nonzero(~padding_of(packs)))
        self._tokens += packs.tokens.total
        self._waiting.append(packs)
        self._waiting_tokens += packs.tokens.total
        if self._waiting_tokens >= GROUP_TOKENS:
            self._flush(last=False)

    def _flush(self, *, last: bool) -> None:
        if not self._waiting:
            return
        packs = Packs.concatenated(self._waiting)
        bounds = _group_bounds(packs.pack_tokens.lengths, last=last)
        batch = _laid_out(packs.span(0, bounds[-1])) if bounds[-1] else None
        for start, stop in pairwise(bounds):
            assert batch is not None  # noqa: S101 - there are bounds only when there are rows
            self._file.write_table(
                pa.Table.from_batches([batch.slice(start, stop - start)]),
                row_group_size=stop - start,
            )
        rest = np.arange(bounds[-1], len(packs))
        self._waiting = [packs.rows(rest)] if len(rest) else []
        self._waiting_tokens = sum(part.tokens.total for part in self._waiting)


def _laid_out(packs: Packs) -> pa.RecordBatch:
    """Lay packs out as rows; positions are computed here, from ids and grids.

    Raises:
        InputError: slots and grids do not match.
    """
    try:
        return to_batch(packs)
    except ValueError as error:
        first, last = (packs.columns["sample_sources"][place] for place in (0, -1))
        raise InputError(
            f"samples {first} to {last}: {error}; run `packcli verify` on the input, then "
            "encode again"
        ) from error


def _group_bounds(lengths: np.ndarray, *, last: bool) -> list[int]:
    """Cut rows into groups that close as soon as they hold `GROUP_TOKENS`."""
    ends = np.cumsum(lengths.astype(np.int64))
    bounds, taken = [0], 0
    while (cut := int(np.searchsorted(ends, taken + GROUP_TOKENS)) + 1) <= len(ends):
        bounds.append(cut)
        taken = int(ends[cut - 1])
    if last and bounds[-1] < len(ends):
        bounds.append(len(ends))
    return bounds


def layout(facts: ModelFacts) -> dict[str, Any]:
    """How a model's shards are written, for `pyarrow.parquet.ParquetWriter`.

    Encodings measured on packed tokens: split bytes + zstd 1 is smallest and fast.

    What is small in a row group costs more to set zstd up for than it saves. Values are handed
    to the encoder a whole group at a time: the library's 1024 cost 3 % more for the same bytes.
    """
    columns = columns_for(facts)
    paths = {column.name: _leaf(column) for column in columns}
    split = {
        paths[c.name]: "BYTE_STREAM_SPLIT"
        for c in columns
        if c.axis is not Axis.PACK and not c.opaque and c.dtype not in {"digest", "int8"}
    }
    codecs = {
        paths[c.name]: "zstd" if c.axis in _MANY or c.dtype == "digest" else "snappy"
        for c in columns
    }
    return {
        "compression": codecs,
        "compression_level": {path: 1 for path, codec in codecs.items() if codec == "zstd"},
        "use_dictionary": False,
        "column_encoding": split,
        "write_statistics": [column.name for column in columns if column.axis is Axis.PACK],
        "write_page_checksum": True,
        "write_batch_size": GROUP_TOKENS,
        "store_schema": True,
    }


def _leaf(column: Column) -> str:
    """Return the path of a column's values in Parquet."""
    if column.axis is Axis.PACK:
        return column.name
    struct, _, field = column.name.partition(".")
    path = f"{struct}.list.element" + (f".{field}" if field else "")
    inner = column.dtype.startswith("list") or column.planes > 1
    nested = inner or (column.width > 1 and column.dtype != "digest")
    return f"{path}.list.element" if nested else path
