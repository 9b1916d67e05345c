"""Lengths to plan for: of a dataset, or of a file that holds nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError
from packcli.pack.options import Samples
from packcli.pack.sources import open_sources
from packcli.shards.directory import DATA
from packcli.shards.manifest import NAME
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_COLUMN = "length"


def read_samples(path: Path, column: str | None = None) -> Samples:
    """Read what planning needs to know of each sample.

    Args:
        path: a packcli dataset, ``.npy``, ``.json`` (a list, or an object with ``lengths``),
            ``.parquet``, or text with one number a line.
        column: of a Parquet file; ``length`` when None.

    Raises:
        InputError: nothing of the kind.
    """
    if path.is_dir():
        return _dataset(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or folder")
    if _is_records(path):
        raise InputError(f"{path}: records, no encoded dataset; run `packcli encode` on it first")
    try:
        values = _values(path, column or _COLUMN)
    except (ValueError, OSError, EOFError, OverflowError, RecursionError) as error:
        raise InputError(f"{path}: no lengths can be read: {error}") from error
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        found = f"{values.dtype}" + (f" of shape {values.shape}" if values.ndim != 1 else "")
        raise InputError(f"{path}: expected one whole number a sample, found {found}")
    if values.size and int(values.min()) < 0:
        raise InputError(f"{path}: expected lengths of at least 0, found {int(values.min())}")
    if values.size and int(values.max()) >= 2**31:
        raise InputError(f"{path}: expected lengths below 2**31, found {int(values.max())}")
    return Samples(values)


def _is_records(path: Path) -> bool:
    """Whether a file is one of encode's, by its name."""
    return {".jsonl", ".ndjson"} & {*path.suffixes} != set()


def _values(path: Path, column: str) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if path.suffix == ".json":
        return np.asarray(_listed(json.loads(path.read_text(encoding="utf-8"))))
    if path.suffix == ".parquet":
        return _parquet(path, column)
    return _text(path.read_text(encoding="utf-8"))


def _text(text: str) -> NDArray[np.int64]:
    try:
        return np.array(text.split(), dtype=np.int64)
    except ValueError:
        for number, line in enumerate(text.splitlines(), start=1):
            if any(not word.lstrip("+-").isdecimal() for word in line.split()):
                told = f"line {number} is {line[:40]!r}, expected one whole number a line"
                raise ValueError(told) from None
        raise


def _listed(document: Any) -> list[int]:  # noqa: ANN401 - any JSON document
    if isinstance(document, dict):
        document = document.get("lengths")
    if not isinstance(document, list):
        raise ValueError("expected a list of lengths, or an object with one")  # noqa: TRY004 - read as a bad file
    return document


def _parquet(path: Path, column: str) -> NDArray[Any]:
    shard = Shard.open(path)
    if column not in shard.columns:
        raise InputError(f"{path}: no column {column!r}; there are {', '.join(shard.columns)}")
    parts = [rows.cells[column].values for rows in shard.groups(columns=[column])]
    return np.concatenate([np.zeros(0, np.int32), *parts])


def _dataset(path: Path) -> Samples:
    if not (path / NAME).exists():
        raise InputError(
            f"{path}: no {NAME}; name a file of lengths, or run `packcli encode` on records first"
        )
    (manifest,) = open_sources([path])
    media = manifest.model.has_media
    wanted = ["seq_lengths", "num_patches", "image_grid_thw"] if media else ["seq_lengths"]
    lengths, images, patches = [np.zeros(0, np.int32)], [np.zeros(0, int)], [np.zeros(0, int)]
    for entry in manifest.shards:
        for rows in Shard.open(path / DATA / entry.name).groups(columns=wanted):
            lengths.append(rows.cells["seq_lengths"].values)
            if media:
                images.append(rows.cells["image_grid_thw"].lengths)
                patches.append(rows.cells["num_patches"].values)
    every = np.concatenate(lengths)
    if media and sum(map(len, images)) == len(every):
        return Samples(every, np.concatenate(images), np.concatenate(patches))
    return Samples(every)
