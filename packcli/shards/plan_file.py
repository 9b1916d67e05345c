"""A plan as a file: one row a sample in pack order (Parquet), or lists of samples (JSON)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packcli.contract.errors import IncompleteError, InputError
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_KEY = b"packcli_plan"
_ROWS = 1 << 20  # rows of the file that are put together at once
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class SampleTable:
    """What the rows of a plan are made from.

    Attributes:
        order: (n,) integers, sample numbers, pack after pack.
        counts: (packs,) int64, samples in each pack.
        lengths: (samples,) integers, tokens, by sample number.
        shards: dataset, first sample number and path of each shard, by first number.
    """

    order: NDArray[np.integer]
    counts: NDArray[np.int64]
    lengths: NDArray[np.integer]
    shards: list[tuple[int, int, Path]]


def write_plan(path: Path, table: SampleTable, about: dict[str, Any]) -> None:
    """Write a plan; the file appears when it is whole.

    Columns: pack, position, sample (its number over all inputs), length, and for datasets
    sample_id, dataset (number of the input), shard, row (of the sample in its shard).

    Raises:
        IncompleteError: the file cannot be written.
    """
    staged = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.suffix == ".json":
            staged.write_text(json.dumps(about | {"packs": _lists(table)}) + "\n", encoding="utf-8")
        else:
            _write_rows(staged, table, about)
        staged.replace(path)
    except OSError as error:
        raise IncompleteError(f"{path}: {error}; name another file") from error
    finally:
        staged.unlink(missing_ok=True)


def _lists(table: SampleTable) -> list[list[int]]:
    ends = np.cumsum(table.counts).tolist()
    order = table.order.tolist()
    return [order[end - size : end] for end, size in zip(ends, table.counts.tolist(), strict=True)]


def _write_rows(staged: Path, table: SampleTable, about: dict[str, Any]) -> None:
    ids = _sample_ids(table)
    ends = np.cumsum(table.counts)
    metadata = {_KEY: json.dumps(about).encode()}
    with pq.ParquetWriter(
        staged, _schema(table).with_metadata(metadata), compression="zstd", write_page_checksum=True
    ) as writer:
        # at least once: a plan without packs is a file too
        for start in range(0, max(1, table.order.size), _ROWS):
            rows = np.arange(start, min(start + _ROWS, table.order.size))
            numbers = table.order[rows].astype(np.int64)
            packs = np.searchsorted(ends, rows, side="right")
            columns: dict[str, Any] = {
                "pack": packs,
                "position": rows - (ends - table.counts)[packs] if rows.size else rows,
                "sample": numbers,
                "length": table.lengths[numbers],
            }
            if ids is not None:
                columns |= _places(table, numbers) | {"sample_id": ids.take(pa.array(numbers))}
            arrays = [
                columns[field.name].combine_chunks()
                if isinstance(columns[field.name], pa.ChunkedArray)
                else pa.array(columns[field.name], field.type)
                for field in _schema(table)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=_schema(table)))


def _schema(table: SampleTable) -> pa.Schema:
    kinds = {"pack": pa.int64(), "position": pa.int32(), "sample": pa.int64(), "length": pa.int32()}
    if table.shards:
        place = {"dataset": pa.int32(), "shard": pa.string(), "row": pa.int64()}
        kinds |= {"sample_id": pa.string()} | place
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def _places(table: SampleTable, numbers: NDArray[np.int64]) -> dict[str, Any]:
    firsts = np.array([first for _, first, _ in table.shards])
    shard = np.searchsorted(firsts, numbers, side="right") - 1
    names = pa.array([path.name for _, _, path in table.shards], pa.string())
    return {
        "dataset": np.array([dataset for dataset, _, _ in table.shards])[shard],
        "shard": names.take(pa.array(shard)),
        "row": numbers - firsts[shard],
    }


def _sample_ids(table: SampleTable) -> pa.ChunkedArray | None:
    """Read the ids of all samples, as Arrow text."""
    if not table.shards:
        return None
    parts = [Shard.open(path).ids() for _, _, path in table.shards]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())


def read_plan(path: Path) -> tuple[dict[str, Any], NDArray[np.integer], NDArray[np.int64]]:
    """Read a plan back.

    Returns:
        What it is about; (n,) int64, sample numbers, pack after pack; (packs,) int64, samples in
        each pack.

    Raises:
        InputError: it is none, or its packs are not in order.
    """
    try:
        if path.suffix == ".json":
            about, order, counts = _read_lists(path)
        else:
            about, order, counts = _read_rows(path)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: no plan can be read: {error}; plan again") from error
    if counts.size and (int(counts.min()) < 1 or int(order.min()) < 0):
        raise InputError(f"{path}: packs or samples are missing from the plan; plan again")
    return about, order, counts


def _read_lists(path: Path) -> tuple[dict[str, Any], NDArray[np.int64], NDArray[np.int64]]:
    about = json.loads(path.read_text(encoding="utf-8"))
    packs = about.pop("packs", None) if isinstance(about, dict) else None
    if not isinstance(packs, list) or not all(isinstance(pack, list) for pack in packs):
        raise ValueError("it has no list of packs, which are lists of sample numbers")
    numbers = [number for pack in packs for number in pack]
    # numpy would cut a fraction off, and takes true for 1
    strange = (n for n in numbers if type(n) is not int or abs(n) > _INT64_MAX)
    if (wrong := next(strange, None)) is not None or None in numbers:
        raise ValueError(f"{json.dumps(wrong):.40} is no sample number")
    return about, np.array(numbers, np.int64), np.array([len(pack) for pack in packs], np.int64)


def _read_rows(path: Path) -> tuple[dict[str, Any], NDArray[np.int64], NDArray[np.int64]]:
    shard = Shard.open(path)
    about = json.loads((shard.file.schema_arrow.metadata or {})[_KEY])
    cells = shard.whole(["pack", "sample"]).cells
    pack = cells["pack"].values
    if np.any(np.diff(pack) < 0):
        raise ValueError("its rows are not in pack order")
    if pack.size and not 0 <= pack[0] <= pack[-1] < pack.size:
        raise ValueError("it has numbers of packs that no row names")
    return about, cells["sample"].values, np.bincount(pack).astype(np.int64)
