"""Reading: the samples of one chunk after the other, each row group once a chunk at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import InputError
from packcli.contract.packs import Packs
from packcli.pack.sources import read_group
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.pack.sources import RowGroup
    from packcli.shards.manifest import Manifest


class Loaded:
    """Samples in memory, found by their numbers.

    Attributes:
        packs: the samples, as packs of one.
    """

    def __init__(self, numbers: NDArray[np.int64], packs: Packs) -> None:
        self._sorter = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._sorter]
        self.packs = packs

    def places(self, numbers: NDArray[np.integer]) -> NDArray[np.intp]:
        """(n,) int64, where samples lie in `packs`."""
        return self._sorter[np.searchsorted(self._numbers, numbers)]

    def take(self, numbers: NDArray[np.integer]) -> Packs:
        """Take samples by their numbers."""
        return self.packs.take(self.places(numbers))


class SampleReader:
    """Read samples by their numbers; what a later chunk needs of a row group is kept."""

    def __init__(self, manifest: Manifest, groups: list[RowGroup]) -> None:
        self._manifest = manifest
        self._groups = groups
        self._firsts = np.array([group.first for group in groups], dtype=np.int64)
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
        packs = Packs.concatenated(self._parts(wanted, later, found))
        return Loaded(np.concatenate(found), packs)

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
        missing = np.setdiff1d(wanted, np.concatenate(found)) if found else wanted
        places = np.searchsorted(self._firsts, missing, side="right") - 1
        for place in np.unique(places).tolist():
            group = self._groups[place]
            packs = self._read(group)
            inside = missing[places == place]
            self._keep(group, packs, later)
            found.append(inside)
            yield packs if inside.size == group.count else packs.take(inside - group.first)

    def _keep(self, group: RowGroup, packs: Packs, later: NDArray[np.int64]) -> None:
        bounds = np.searchsorted(later, [group.first, group.first + group.count])
        beside = later[bounds[0] : bounds[1]]
        if beside.size:
            self._kept.append((beside, packs.take(beside - group.first)))

    def _read(self, group: RowGroup) -> Packs:
        if self._open is None or self._open[0] != group.path:
            self._open = (group.path, Shard.open(group.path))
        packs = read_group(self._open[1], group.number, self._manifest)
        if packs.members.total != group.count:
            raise InputError(f"{group.path}: changed since it was indexed; pack again")
        return packs
