"""MosaicML streaming: MDS shards and their index, with the columns of a pack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import BY_NAME, Axis, columns_for
from packcli.contract.derived import DERIVED

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.columns import Column
    from packcli.contract.model import ModelFacts
    from packcli.contract.packs import Packs
    from packcli.export.refusals import Refused
    from packcli.export.target import Job

WHAT = "MosaicML streaming, MDS: one sample of its format for each pack"
CARRIED = (
    "tokens, labels, boundaries, positions, grids, weights, ids",
    "grouping and order",
    "paths of media",
)
LOST = (
    "what packcli derives for other trainers (loss_mask, seq_start_id, …)",
    "sample_digests: verify reads packs, not this format",
    "embedded media are named by their absolute paths, and stay in the dataset",
)

_VERSION = 2
_POSITIONS = ("position_ids", "mrope_position_ids", "mm_token_type_ids")
_JSON = "json"
_WIDTHS = ((8, "uint8"), (16, "uint16"), (32, "uint32"))


def _encodings(facts: ModelFacts) -> dict[str, str]:
    """Name the encoding of each column, sorted as the format wants it."""
    kinds = {"cu_seqlens": "ndarray:int32"}
    for column in columns_for(facts):
        if column.name == "sample_digests" or (column.derived and column.name not in _POSITIONS):
            continue
        array = column.axis is Axis.TOKEN
        # arrays must not be empty, and a pack may hold no images
        kinds[column.name] = f"ndarray:{column.dtype}" if array else _JSON
    return dict(sorted(kinds.items()))


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._folder = folder
        self._limit = job.options.shard_bytes
        self._encodings = _encodings(job.manifest.model)
        self._config = {
            "column_encodings": [*self._encodings.values()],
            "column_names": [*self._encodings],
            "column_sizes": [None] * len(self._encodings),
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": self._limit,
            "version": _VERSION,
        }
        self._shards: list[dict[str, Any]] = []
        self._waiting: list[bytes] = []
        self._bytes = 0

    def write(self, packs: Packs) -> Refused:
        for row in range(len(packs)):
            sample = _sample(packs.span(row, row + 1), self._encodings)
            if self._waiting and self._bytes + len(sample) > self._limit:
                self._close_shard()
            self._waiting.append(sample)
            self._bytes += len(sample)
        return {}

    def _close_shard(self) -> None:
        """Matches `MDSWriter.encode_joint_shard` (streaming/base/format/mds/writer)."""
        config = json.dumps(self._config, sort_keys=True).encode()
        count = len(self._waiting)
        sizes = [4 * (count + 2) + len(config), *map(len, self._waiting)]
        head = np.array([count, *np.cumsum(sizes)], np.uint32).tobytes()
        name = f"shard.{len(self._shards):05d}.mds"
        with (self._folder / name).open("wb") as file:
            file.writelines([head, config, *self._waiting])
            size = file.tell()
        raw = {"basename": name, "bytes": size, "hashes": {}}
        about = {"raw_data": raw, "samples": count, "zip_data": None}
        self._shards.append(self._config | about)
        self._waiting, self._bytes = [], 0

    def finish(self) -> dict[str, Any]:
        if self._waiting:
            self._close_shard()
        index = {"shards": self._shards, "version": _VERSION}
        text = json.dumps(index, sort_keys=True)
        (self._folder / "index.json").write_text(text, encoding="utf-8")
        return {"StreamingDataset": {"local": ".", "batch_size": 1}}


def _sample(pack: Packs, encodings: dict[str, str]) -> bytes:
    """Encode one pack: sizes of all columns, then their bytes."""
    parts: list[bytes] = []
    for name, encoding in encodings.items():
        values = _values(pack, name)
        if encoding == _JSON:
            parts.append(json.dumps(values.tolist()).encode())
        else:
            parts.append(_array(values))
    sizes = np.array([len(part) for part in parts], np.uint32)
    return b"".join([sizes.tobytes(), *parts])


def _values(pack: Packs, name: str) -> NDArray[Any]:
    if name == "cu_seqlens":
        return pack.tokens.values
    if name in _POSITIONS:
        return DERIVED[name](pack)
    column: Column = BY_NAME[name]
    values = pack.columns[name]
    if not column.shifts:
        return values
    return values + np.repeat(pack.tokens.starts, pack.axes[column.axis].lengths)


def _array(values: NDArray[Any]) -> bytes:
    """Matches `NDArray.encode` (streaming/base/format/mds/encodings): shape, then values."""
    shape = np.array(values.shape)
    code, kind = next(
        (code, kind) for code, (bits, kind) in enumerate(_WIDTHS) if shape.max() < 1 << bits
    )
    head = bytes([len(shape) << 2 | code]) + shape.astype(kind).tobytes()
    return head + np.ascontiguousarray(values).tobytes()


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
