"""Reading: the samples of one chunk after the other, each row group once a chunk at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import BY_NAME, Axis
from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, taken
from packcli.pack.names import renamed
from packcli.pack.sources import read_groups
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.pack.sources import RowGroup
    from packcli.shards.manifest import Manifest

_TOGETHER = 8
"""Row groups that are read at once: asking for one costs as much as some thousand tokens."""


def distinct(numbers: NDArray[np.integer]) -> NDArray[np.int64]:
    """Sort numbers and drop repeats; `np.unique` hashes, which takes ten times as long here."""
    ordered = np.sort(numbers.astype(np.int64))
    return ordered[np.diff(ordered, prepend=-1) > 0]


def without(numbers: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave some out of distinct numbers; both increase, or the others do after a sort."""
    ordered = np.sort(others)
    places = np.minimum(np.searchsorted(ordered, numbers), ordered.size - 1)
    return numbers[ordered[places] != numbers]


class Loaded:
    """Samples in memory, found by their numbers; tokens stay in the parts that were read."""

    def __init__(self, numbers: NDArray[np.int64], parts: list[Packs]) -> None:
        self._sorter = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._sorter]
        self._facts = parts[0].facts
        lengths = {axis: [part.axes[axis].lengths for part in parts] for axis in parts[0].axes}
        self._axes = {
            axis: Offsets.from_lengths(np.concatenate(each)) for axis, each in lengths.items()
        }
        self._firsts = np.cumsum([0, *(part.tokens.total for part in parts[:-1])])
        apart = self._axes[Axis.TOKEN].long
        columns = {name: [part.columns[name] for part in parts] for name in parts[0].columns}
        self._columns = {
            name: each if apart and BY_NAME[name].axis is Axis.TOKEN else [np.concatenate(each)]
            for name, each in columns.items()
        }

    def lengths(self, numbers: NDArray[np.integer]) -> NDArray[np.int32]:
        """(n,) int32, tokens of samples."""
        return self._axes[Axis.TOKEN].lengths[self._places(numbers)]

    def take(self, numbers: NDArray[np.integer]) -> Packs:
        """Take samples by their numbers, as packs of one."""
        places = self._places(numbers)
        axes = {axis: offsets.take(places) for axis, offsets in self._axes.items()}
        runs = self._runs(places) if len(places) and self._axes[Axis.TOKEN].long else None
        flat = {
            axis: offsets.gather(places)
            for axis, offsets in self._axes.items()
            if runs is None or axis is not Axis.TOKEN
        }
        flat[Axis.SAMPLE] = places
        columns: dict[str, NDArray[Any]] = {}
        for name, parts in self._columns.items():
            if runs is not None and BY_NAME[name].axis is Axis.TOKEN:
                columns[name] = np.concatenate([parts[p][run] for p, run in runs])
            else:
                columns[name] = taken(parts[0], flat[BY_NAME[name].axis])
        return Packs(self._facts, Offsets.unit(len(places)), axes, columns)

    def _places(self, numbers: NDArray[np.integer]) -> NDArray[np.int64]:
        return self._sorter[np.searchsorted(self._numbers, numbers)]

    def _runs(self, places: NDArray[np.int64]) -> list[tuple[int, slice]]:
        """Say where samples' tokens lie: in which part, from where to where.

        Runs cost as much as some dozens of tokens each, but no index as large as the tokens.
        """
        tokens = self._axes[Axis.TOKEN]
        starts, ends = tokens.starts[places], tokens.ends[places]
        part = np.searchsorted(self._firsts, starts, side="right") - 1
        first = self._firsts[part]
        bounds = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
        return list(zip(part.tolist(), (slice(*run) for run in bounds), strict=True))


class SampleReader:
    """Read samples by their numbers; what a later chunk needs of a row group is kept."""

    def __init__(self, manifest: Manifest, groups: list[RowGroup]) -> None:
        self._manifest = manifest
        self._groups = groups
        self._firsts = np.array([group.first for group in groups], dtype=np.int64)
        self._end = groups[-1].first + groups[-1].count if groups else 0
        self._kept: list[tuple[NDArray[np.int64], Packs]] = []
        self._open: tuple[Path, Shard] | None = None

    def load(self, wanted: NDArray[np.int64], later: NDArray[np.int64]) -> Loaded:
        """Read some samples, and keep others that lie beside them.

        Args:
            wanted: (n,) int64, numbers, increasing.
            later: (m,) int64, numbers that the next call will want, increasing.

        Raises:
            InputError: a row group is not what it was when it was indexed.
        """
        found: list[NDArray[np.int64]] = []
        parts = list(self._parts(wanted, later, found))
        return Loaded(np.concatenate(found), parts)

    def _parts(
        self,
        wanted: NDArray[np.int64],
        later: NDArray[np.int64],
        found: list[NDArray[np.int64]],
    ) -> Iterator[Packs]:
        kept, self._kept = self._kept, []
        for numbers, packs in kept:
            found.append(numbers)
            yield packs
        missing = without(wanted, np.concatenate(found)) if found else wanted
        bounds = np.searchsorted(missing, [*self._firsts, self._end])
        for run in self._runs(np.flatnonzero(np.diff(bounds)).tolist()):
            inside = missing[bounds[run[0]] : bounds[run[-1] + 1]]
            groups = [self._groups[place] for place in run]
            first, packs = groups[0].first, self._read(groups)
            self._keep(first, packs, later)
            found.append(inside)
            yield packs if inside.size == packs.members.total else packs.take(inside - first)

    def _runs(self, places: list[int]) -> Iterator[list[int]]:
        """Put row groups together that follow each other in a shard."""
        run: list[int] = []
        for place in places:
            if run and (len(run) == _TOGETHER or not self._follows(run[-1], place)):
                yield run
                run = []
            run.append(place)
        if run:
            yield run

    def _follows(self, one: int, other: int) -> bool:
        here, there = self._groups[one], self._groups[other]
        return here.path == there.path and here.number + 1 == there.number

    def _keep(self, first: int, packs: Packs, later: NDArray[np.int64]) -> None:
        bounds = np.searchsorted(later, [first, first + packs.members.total])
        beside = later[bounds[0] : bounds[1]]
        if beside.size:
            self._kept.append((beside, packs.take(beside - first)))

    def _read(self, groups: Sequence[RowGroup]) -> Packs:
        """Read row groups of one shard."""
        path, names = groups[0].path, groups[0].names
        if self._open is None or self._open[0] != path:
            self._open = (path, Shard.open(path))
        packs = read_groups(self._open[1], [group.number for group in groups], self._manifest)
        if packs.members.total != sum(group.count for group in groups):
            raise InputError(f"{path}: changed since it was indexed; pack again")
        return renamed(packs, names)
