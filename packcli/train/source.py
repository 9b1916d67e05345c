"""An open dataset: its manifest, and any row group of it, with few files and groups kept."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from packcli.contract.columns import columns_for
from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets
from packcli.shards.directory import DATA, SUCCESS
from packcli.shards.manifest import read_manifest
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.train.groups import OF_MEDIA, Group
from packcli.train.row import READ, Pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.shards.manifest import Manifest

_FILES = 64
_PATCHES = "num_patches"
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _Open:
    """An open shard.

    Attributes:
        shard: it.
        starts: (G + 1,) rows, where its row groups start.
        patches: place of the column of patches among Parquet's; None where there is none.
    """

    shard: Shard
    starts: list[int]
    patches: int | None

    def without_media(self, group: int) -> bool:
        """Tell from the footer whether no sample of a row group holds a medium."""
        if self.patches is None:
            return True
        told = self.shard.file.metadata.row_group(group).column(self.patches).statistics
        return told is not None and told.has_min_max and told.max == 0


class PackSource:
    """Rows of a packed or encoded dataset by their number.

    Files and decoded row groups belong to the process that opened them: a copy in a worker,
    forked or pickled, opens its own.

    Args:
        path: the folder that ``packcli pack`` or ``packcli encode`` wrote.
        kept_groups: row groups that stay decoded.
        columns: what to read of a row, of those that the dataset has.

    Attributes:
        facts: the model that the dataset was made for.
        manifest: how it was made.
        rows: one segment of rows a shard.

    Raises:
        InputError: no complete dataset, or a shard is missing or of another size.
    """

    def __init__(
        self, path: str | Path, kept_groups: int = 2, columns: Sequence[str] = READ
    ) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        if not (self.path / SUCCESS).exists():
            raise InputError(f"{self.path}: not complete (no {SUCCESS}); run its command again")
        for entry in self.manifest.shards:
            shard = self.path / DATA / entry.name
            if not shard.is_file() or shard.stat().st_size != entry.bytes:
                raise InputError(f"{shard}: missing or of another size; run `packcli verify`")
        self.rows = Offsets.from_lengths([entry.rows for entry in self.manifest.shards])
        # lists, as a search in a short one is a tenth of NumPy's
        self._starts: list[int] = self.rows.values.tolist()
        self.kept_groups = kept_groups
        declared = {column.name.split(".")[0] for column in columns_for(self.facts)}
        self._names = [name for name in columns if name in declared]
        self._bare = [name for name in self._names if name not in OF_MEDIA]
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        self._shards: OrderedDict[int, _Open] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], Group] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        """Leave open files and decoded groups behind."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWNED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open nothing yet."""
        self.__dict__.update(state)
        self._open()

    @property
    def facts(self) -> ModelFacts:
        """The model that the dataset was made for."""
        return self.manifest.model

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.rows.total

    def pack(self, row: int) -> Pack:
        """Read one row.

        Raises:
            ShardUnreadableError: its bytes are damaged.
        """
        if self._process != os.getpid():
            self._open()
        shard = bisect_right(self._starts, row) - 1
        inside = row - self._starts[shard]
        starts = self._shard(shard).starts
        group = bisect_right(starts, inside) - 1
        columns = _kept(self._groups, (shard, group), self.kept_groups, self._read)
        try:
            return Pack.from_row(columns.row(inside - starts[group]))
        except InputError as error:
            name = self.manifest.shards[shard].name
            raise InputError(f"{self.path / DATA / name}, row {inside}: {error}") from error

    def groups(self) -> Offsets:
        """Return one segment of rows for each row group of the dataset, from the footers."""
        sizes = [np.diff(self._shard(number).starts) for number in range(len(self.rows))]
        return Offsets.from_lengths(np.concatenate([np.zeros(0, np.int64), *sizes]))

    def scalars(self, name: str) -> NDArray[np.int64]:
        """Read a column that holds one number a row.

        Args:
            name: ``length``, ``sum_sq_len``, ``num_patches``, …

        Returns:
            (rows,) int64.
        """
        parts = [np.zeros(0, dtype=np.int64)]
        for number in range(len(self.rows)):
            shard = self._shard(number).shard
            if name not in shard.columns:
                raise InputError(f"{shard.path}: no column {name!r}")
            parts += [
                rows.cells[name].values.astype(np.int64) for rows in shard.groups(None, [name])
            ]
        return np.concatenate(parts)

    def _shard(self, number: int) -> _Open:
        return _kept(self._shards, number, _FILES, self._open_shard)

    def _open_shard(self, number: int) -> _Open:
        shard = Shard.open(self.path / DATA / self.manifest.shards[number].name)
        if missing := set(self._names) - set(shard.columns):
            raise InputError(f"{shard.path}: no columns {sorted(missing)}; run `packcli verify`")
        footer = shard.file.metadata
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        leaves = shard.file.schema.names
        patches = leaves.index(_PATCHES) if _PATCHES in leaves else None
        return _Open(shard, [0, *accumulate(sizes)], patches)

    def _read(self, place: tuple[int, int]) -> Group:
        number, group = place
        opened = self._shard(number)
        shard = opened.shard
        names = self._bare if opened.without_media(group) else self._names
        try:
            table = shard.file.read_row_group(group, columns=names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise ShardUnreadableError(shard.path, str(error).partition("\n")[0]) from error
        return Group.of(table, mrope="mrope_position_ids" in self._names)


class Sourced:
    """What a dataset of packs says of itself.

    Attributes:
        source: reads its packs.
    """

    source: PackSource

    @property
    def facts(self) -> ModelFacts:
        """The model that the dataset was made for."""
        return self.source.facts

    @property
    def path(self) -> Path:
        """The dataset's folder."""
        return self.source.path

    @property
    def manifest(self) -> Manifest:
        """How the dataset was made."""
        return self.source.manifest


_OWNED = ("_shards", "_groups", "_process")


def _kept(held: OrderedDict[_K, _V], key: _K, most: int, make: Callable[[_K], _V]) -> _V:
    """Take from the least recently used few, or make it."""
    if key not in held:
        while len(held) >= most:
            held.popitem(last=False)
        held[key] = make(key)
    held.move_to_end(key)
    return held[key]
