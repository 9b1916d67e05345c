"""Where samples come from: encoded (or packed) datasets, and what planning asks of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.errors import InputError
from packcli.contract.packs import Packs, carried_columns
from packcli.contract.padding import SAMPLE_NAMES, named_padding, without_padding
from packcli.pack.likeness import check_alike
from packcli.pack.names import told_apart
from packcli.pack.options import Samples
from packcli.shards.directory import DATA, SUCCESS
from packcli.shards.manifest import NAME, Manifest, read_manifest
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.rows import Rows

_LENGTHS = "seq_lengths"
_CHECK = "run `packcli verify` on it, then encode again"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A portion of a shard that is read at once.

    Attributes:
        dataset: number of the input.
        path: the shard.
        number: which row group of it.
        first: number of its first sample, over all inputs.
        count: its samples.
        names: new names of the inputs that its samples are from, by old ones.
    """

    dataset: int
    path: Path
    number: int
    first: int
    count: int
    names: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """All samples of all inputs, numbered through; no token is held.

    Attributes:
        manifests: of each input.
        groups: row groups, in the order of the samples' numbers.
        samples: what each sample takes of a pack's budgets.
        names: for each input new names of what it was made from, by old ones.
    """

    manifests: list[Manifest]
    groups: list[RowGroup]
    samples: Samples
    names: list[dict[str, str]]

    def groups_of(self, dataset: int) -> list[RowGroup]:
        """List the row groups of one input."""
        return [group for group in self.groups if group.dataset == dataset]

    def counts(self) -> list[int]:
        """Count the samples of each input."""
        return [
            sum(group.count for group in self.groups_of(number))
            for number in range(len(self.manifests))
        ]


def open_sources(paths: Sequence[Path]) -> list[Manifest]:
    """Read the manifests of datasets that are to be packed together.

    Raises:
        InputError: a dataset is incomplete or a mixture, or they are not alike, naming the fields.
    """
    manifests: list[Manifest] = []
    for path in paths:
        if not (path / NAME).is_file():
            raise InputError(f"{path}: no encoded dataset; run `packcli encode` on records first")
        manifest = read_manifest(path)
        if not (path / SUCCESS).exists():
            raise InputError(f"{path}: not complete (no {SUCCESS}); run encode again to resume")
        if manifest.options.get("epochs"):
            told = "a mixture, which repeats samples or leaves some out"
            raise InputError(f"{path}: {told}; pack the encoded datasets that it was made from")
        manifests.append(manifest)
    check_alike(paths, manifests)
    return manifests


def index(paths: Sequence[Path], manifests: list[Manifest], *, media: bool) -> Index:
    """Number all samples and read their lengths; no token is read.

    Args:
        paths: datasets.
        manifests: theirs.
        media: read images and patches of each sample too.

    Raises:
        InputError: a shard is not the one that the manifest names, or lacks a column; or no
            folder tells inputs of one name apart.
    """
    media = media and manifests[0].model.has_media
    names = told_apart(paths, manifests)
    groups: list[RowGroup] = []
    parts = [Samples(*(np.zeros(0, np.int32),) * (3 if media else 1))]
    for dataset, (path, manifest) in enumerate(zip(paths, manifests, strict=True)):
        for entry in manifest.shards:
            shard = Shard.open(path / DATA / entry.name)
            if shard.rows != entry.rows or shard.path.stat().st_size != entry.bytes:
                raise InputError(f"{shard.path}: not the shard that the manifest names; {_CHECK}")
            found, ends = _shard_samples(shard, manifest, media=media)
            before = groups[-1].first + groups[-1].count if groups else 0
            groups += [
                RowGroup(dataset, shard.path, number, before + start, stop - start, names[dataset])
                for number, (start, stop) in enumerate(itertools.pairwise(ends.tolist()))
            ]
            parts.append(found)
    return Index(manifests, groups, _joined(parts), names)


def _shard_samples(
    shard: Shard, manifest: Manifest, *, media: bool
) -> tuple[Samples, NDArray[np.int64]]:
    """Return what a shard's samples take, and where each row group's samples start."""
    names = [_LENGTHS, *(["num_patches", "image_grid_thw"] if media else [])]
    names += SAMPLE_NAMES if manifest.model.padding is not None else ()
    rows = shard.whole(names, manifest.model)
    if lacking := [name for name in names if name not in rows.cells]:
        raise InputError(f"{shard.path}: no column {', '.join(lacking)}; {_CHECK}")
    cells = rows.cells[_LENGTHS]
    if cells.rows is None:
        raise InputError(f"{shard.path}: {_LENGTHS} is {cells.dtype}; {_CHECK}")
    ends = cells.rows[np.concatenate([[0], np.cumsum(shard.group_rows, dtype=np.int64)])]
    if manifest.model.padding is not None:
        kept = ~named_padding(*(rows.cells[name].values for name in SAMPLE_NAMES))
        ends = np.concatenate([[0], np.cumsum(kept)])[ends]
        cells = replace(cells, values=cells.values[kept])
    if not media:
        return Samples(cells.values), ends
    if len(cells.values) == rows.count:
        images = rows.cells["image_grid_thw"].lengths
        return Samples(cells.values, images, rows.cells["num_patches"].values), ends
    numbers = range(len(shard.group_rows))
    return _joined([demands(read_groups(shard, (n,), manifest)) for n in numbers]), ends


def _joined(parts: list[Samples]) -> Samples:
    columns = [(part.lengths, part.images, part.patches) for part in parts]
    joined = [
        None if each[0] is None else np.concatenate([one for one in each if one is not None])
        for each in zip(*columns, strict=True)
    ]
    assert joined[0] is not None  # noqa: S101 - every part has lengths
    return Samples(joined[0], joined[1], joined[2])


def read_groups(shard: Shard, numbers: Sequence[int], manifest: Manifest) -> Packs:
    """Read the samples of row groups; derived columns are left on disk, padding is left out.

    Raises:
        InputError: what is stored are no packs.
    """
    wanted = [column.name for column in carried_columns(manifest.model)]
    fields, there = {name.split(".")[0] for name in [*wanted, "cu_seqlens"]}, shard.columns
    rows = shard.together(numbers, manifest.model, [name for name in there if name in fields])
    if missing := [name for name in wanted if name not in rows.cells]:
        raise InputError(f"{shard.path}: no column {', '.join(missing)}; {_CHECK}")
    packs = _believed(shard, rows)
    return packs if manifest.model.padding is None else without_padding(packs)


def _believed(shard: Shard, rows: Rows) -> Packs:
    try:
        packs = rows.packs()
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{shard.path}: these are no packs: {error}; {_CHECK}") from error
    return packs.apart()


def demands(packs: Packs) -> Samples:
    """Lengths, images and patches of each sample."""
    if not packs.facts.has_media:
        return Samples(packs.tokens.lengths)
    patches = np.zeros(packs.members.total, dtype=np.int64)
    for axis, name in ((Axis.IMAGE, "image_grid_thw"), (Axis.VIDEO, "video_grid_thw")):
        each = packs.columns[name].astype(np.int64).prod(axis=1)
        owner = packs.axes[axis].segment_ids()
        patches += np.bincount(owner, weights=each, minlength=len(patches)).astype(np.int64)
    return Samples(packs.tokens.lengths, packs.axes[Axis.IMAGE].lengths, patches)
