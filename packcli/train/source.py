"""An open dataset: its manifest, and any row group of it, with few files and groups kept."""

from __future__ import annotations

import os
from collections import OrderedDict
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
from packcli.train.row import READ, Pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts

_FILES = 64
_K = TypeVar("_K")
_V = TypeVar("_V")


class PackSource:
    """Rows of a packed or encoded dataset by their number.

    Files and decoded row groups belong to the process that opened them: a copy in a worker,
    forked or pickled, opens its own.

    Args:
        path: the folder that ``packcli pack`` or ``packcli encode`` wrote.
        kept_groups: row groups (about 64 k tokens each) that stay decoded.

    Attributes:
        facts: the model that the dataset was made for.
        manifest: how it was made.
        rows: one segment of rows a shard.

    Raises:
        InputError: no complete dataset, or a shard is missing or of another size.
    """

    def __init__(self, path: str | Path, kept_groups: int = 2) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        if not (self.path / SUCCESS).exists():
            raise InputError(f"{self.path}: not complete (no {SUCCESS}); run its command again")
        for entry in self.manifest.shards:
            shard = self.path / DATA / entry.name
            if not shard.is_file() or shard.stat().st_size != entry.bytes:
                raise InputError(f"{shard}: missing or of another size; run `packcli verify`")
        self.rows = Offsets.from_lengths([entry.rows for entry in self.manifest.shards])
        self.kept_groups = kept_groups
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        self._shards: OrderedDict[int, tuple[Shard, Offsets]] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], dict[str, pa.Array]] = OrderedDict()

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
        shard = int(np.searchsorted(self.rows.ends, row, side="right"))
        inside = row - int(self.rows.starts[shard])
        groups = self._shard(shard)[1]
        group = int(np.searchsorted(groups.ends, inside, side="right"))
        columns = _kept(self._groups, (shard, group), self.kept_groups, self._read)
        try:
            return Pack.from_columns(columns, inside - int(groups.starts[group]))
        except InputError as error:
            name = self.manifest.shards[shard].name
            raise InputError(f"{self.path / DATA / name}, row {inside}: {error}") from error

    def groups(self) -> Offsets:
        """Return one segment of rows for each row group of the dataset, from the footers."""
        sizes = [self._shard(number)[1].lengths for number in range(len(self.rows))]
        return Offsets.from_lengths(np.concatenate([np.zeros(0, np.int32), *sizes]))

    def scalars(self, name: str) -> NDArray[np.int64]:
        """Read a column that holds one number a row.

        Args:
            name: ``length``, ``sum_sq_len``, ``num_patches``, …

        Returns:
            (rows,) int64.
        """
        parts = [np.zeros(0, dtype=np.int64)]
        for number in range(len(self.rows)):
            shard = self._shard(number)[0]
            if name not in shard.columns:
                raise InputError(f"{shard.path}: no column {name!r}")
            parts += [
                rows.cells[name].values.astype(np.int64) for rows in shard.groups(None, [name])
            ]
        return np.concatenate(parts)

    def _shard(self, number: int) -> tuple[Shard, Offsets]:
        return _kept(self._shards, number, _FILES, self._open_shard)

    def _open_shard(self, number: int) -> tuple[Shard, Offsets]:
        shard = Shard.open(self.path / DATA / self.manifest.shards[number].name)
        footer = shard.file.metadata
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        return shard, Offsets.from_lengths(sizes)

    def _read(self, place: tuple[int, int]) -> dict[str, pa.Array]:
        number, group = place
        shard = self._shard(number)[0]
        declared = {column.name.split(".")[0] for column in columns_for(self.facts)}
        names = [name for name in READ if name in declared]
        if missing := set(names) - set(shard.columns):
            raise InputError(f"{shard.path}: no columns {sorted(missing)}; run `packcli verify`")
        try:
            table = shard.file.read_row_group(group, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise ShardUnreadableError(shard.path, str(error).partition("\n")[0]) from error
        return {name: _whole(table.column(name)) for name in names}


_OWNED = ("_shards", "_groups", "_process")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _kept(held: OrderedDict[_K, _V], key: _K, most: int, make: Callable[[_K], _V]) -> _V:
    """Take from the least recently used few, or make it."""
    if key not in held:
        while len(held) >= most:
            held.popitem(last=False)
        held[key] = make(key)
    held.move_to_end(key)
    return held[key]
