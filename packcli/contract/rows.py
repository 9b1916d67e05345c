"""Rows: packs as they rest on disk, before anything in them is believed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.cells import Cells
from packcli.contract.columns import BY_NAME, Axis, Column
from packcli.contract.model import ModelFacts
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, carried_columns, held_axes, neutral
from packcli.contract.slot_runs import SlotRuns, slot_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

UNKNOWN_MODEL = ModelFacts(family="unknown", vocab_size=np.iinfo(np.int32).max)
"""Facts for foreign files checked without a model: no media, no mRoPE, any token id."""

_LONG = 48  # tokens of a row on average, from which slices are cheaper than single places


@dataclass(frozen=True, eq=False)
class Rows:
    """R rows of a shard; what many rules ask of them is found once.

    Attributes:
        count: R.
        cells: columns by name (struct fields as ``struct.field``); any names.
        facts: the model that they are read for.
    """

    count: int
    cells: Mapping[str, Cells]
    facts: ModelFacts = UNKNOWN_MODEL

    def take(self, keep: NDArray[np.int64]) -> Rows:
        """Keep some rows."""
        return Rows(len(keep), {n: c.take(keep) for n, c in self.cells.items()}, self.facts)

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """(R,) int64, tokens of each row, told by ``input_ids``."""
        return self.cells["input_ids"].lengths

    @cached_property
    def slots(self) -> Mapping[str, SlotRuns]:
        """Where the slots of images and of videos stand, by flat tokens of all rows."""
        return slot_runs(self.cells["input_ids"].values, self.facts)

    @cached_property
    def members(self) -> Offsets:
        """R segments over S samples, told by the boundaries."""
        return Offsets.from_lengths(np.diff(self.boundaries[0]) - 1)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(S,) int64, tokens of each sample of all rows, told by the boundaries."""
        counts, flat = self.boundaries
        inside = np.ones(len(flat), dtype=bool)
        inside[counts[:-1]] = False
        return np.diff(flat, prepend=0)[inside]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(S,) int64, the first token of each sample in its row, told by the boundaries."""
        counts, flat = self.boundaries
        inside = np.ones(len(flat), dtype=bool)
        inside[counts[1:] - 1] = False
        return flat[inside]

    @cached_property
    def boundaries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Read where samples start, from the best column that is there.

        ``cu_seqlens``, else ``seq_lengths``, else ``seq_start_id``, else the restarts of
        ``position_ids``, else one sample a row.

        Returns:
            Row offsets (R + 1,) and the boundaries of each row, 0 … T each, flat.
        """
        cells, tokens = self.cells, self.tokens
        if "cu_seqlens" in cells:
            cu = cells["cu_seqlens"]
            assert cu.rows is not None  # noqa: S101 - a list column, told by its type before
            return cu.rows, cu.values.astype(np.int64)
        if "seq_lengths" in cells:
            return _boundaries_from_lengths(cells["seq_lengths"])
        if "seq_start_id" in cells:
            return _closed(cells["seq_start_id"], tokens)
        if "position_ids" in cells:
            return _closed(_restarts(cells["position_ids"]), tokens)
        unit = Cells(np.zeros(self.count, np.int64), np.arange(self.count + 1), None, "list<int64>")
        return _closed(unit, tokens)

    def packs(self) -> Packs:
        """Believe the rows: build `Packs` from them.

        Only for rows in which every frame rule holds. Columns that are not there are filled
        with neutral values; rules that look at them do not run.
        """
        members = self.members
        axes = {Axis.TOKEN: Offsets.from_lengths(self.lengths)}
        for axis in held_axes(self.facts):
            if axis not in {Axis.TOKEN, Axis.MEDIUM}:
                axes[axis] = self._spread(axis, axes[Axis.TOKEN])
        if Axis.MEDIUM in held_axes(self.facts):
            media = axes[Axis.IMAGE].lengths + axes[Axis.VIDEO].lengths
            axes[Axis.MEDIUM] = Offsets.from_lengths(media)
        columns = {c.name: self._carried(c, members, axes) for c in carried_columns(self.facts)}
        return Packs(self.facts, members, axes, columns)

    def _spread(self, axis: Axis, tokens: Offsets) -> Offsets:
        """Tell how many grids of a kind each sample holds."""
        name = f"{axis}_grid_thw"
        if name not in self.cells or not self.slots[axis].total:
            return Offsets.from_lengths(np.zeros(len(tokens), dtype=np.int64))
        last = np.cumsum(self.facts.slots(self.cells[name].values)) - 1
        place = np.searchsorted(tokens.ends, self.slots[axis].places(last), side="right")
        return Offsets.from_lengths(np.bincount(place, minlength=len(tokens)))

    def _carried(
        self, column: Column, members: Offsets, axes: Mapping[Axis, Offsets]
    ) -> NDArray[Any]:
        count = members.total if column.axis is Axis.SAMPLE else axes[column.axis].total
        cells = self.cells.get(column.name)
        if cells is None:
            return neutral(column, count)
        values = cells.values.reshape(-1, column.width) if column.width > 1 else cells.values
        if column.shifts:
            first = axes[Axis.TOKEN].starts - np.repeat(
                members.through(axes[Axis.TOKEN]).starts, members.lengths
            )
            values = values - np.repeat(first, axes[column.axis].lengths)
        # columns.type has told of what another type would not hold
        return values if column.opaque else values.astype(column.element, copy=False)


def planes_from_rows(values: NDArray[Any], tokens: NDArray[np.int64], planes: int) -> NDArray[Any]:
    """Turn row-major planes (each row: plane 0, plane 1, …) into one array a plane.

    Args:
        values: (planes * N,) as rows hold them.
        tokens: (R,) tokens of each row, sum N.
        planes: how many planes each row holds.

    Returns:
        (planes, N).
    """
    if _long(tokens):
        runs = _plane_runs(tokens, planes)
        told = np.empty((planes, values.size // planes), dtype=values.dtype)
        for plane, pieces in zip(told, runs, strict=True):
            np.concatenate([values[run] for run in pieces], out=plane)
        return told
    return values[_plane_places(tokens, planes)]


def rows_from_planes(values: NDArray[Any], tokens: NDArray[np.integer]) -> NDArray[Any]:
    """Undo `planes_from_rows`.

    Args:
        values: (planes, N).
        tokens: (R,) tokens of each row, sum N.

    Returns:
        (planes * N,) as rows hold them.
    """
    if _long(tokens):
        ends = np.cumsum(tokens, dtype=np.int64).tolist()
        runs = [slice(*run) for run in itertools.pairwise([0, *ends])]
        planes = [*values]
        return np.concatenate([plane[run] for run in runs for plane in planes])
    flat = np.empty(values.size, dtype=values.dtype)
    flat[_plane_places(tokens, values.shape[0])] = values
    return flat


def _long(tokens: NDArray[np.integer]) -> bool:
    """Whether whole planes are moved with less trouble than single tokens."""
    return len(tokens) > 0 and int(tokens.sum(dtype=np.int64)) >= _LONG * len(tokens)


def _plane_runs(tokens: NDArray[np.integer], planes: int) -> list[list[slice]]:
    """Say where plane 0 of every row lies among all rows, then plane 1, …."""
    sizes = tokens.astype(np.int64)
    starts = (np.cumsum(sizes) - sizes) * planes
    firsts = [starts + sizes * plane for plane in range(planes)]
    return [
        [slice(*run) for run in zip(first.tolist(), (first + sizes).tolist(), strict=True)]
        for first in firsts
    ]


def _plane_places(tokens: NDArray[np.integer], planes: int) -> NDArray[np.int64]:
    sizes = tokens.astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    first = np.arange(int(sizes.sum()), dtype=np.int64) + np.repeat(starts * (planes - 1), sizes)
    return first + np.arange(planes, dtype=np.int64)[:, None] * np.repeat(sizes, sizes)


def _boundaries_from_lengths(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = cells.lengths + 1
    rows = np.concatenate([[0], np.cumsum(sizes)])
    steps = np.zeros(int(rows[-1]), dtype=np.int64)
    inside = np.ones(len(steps), dtype=bool)
    inside[rows[:-1]] = False
    steps[inside] = cells.values
    running = np.cumsum(steps)
    return rows, running - np.repeat(running[rows[:-1]], sizes)


def _closed(
    starts: Cells, tokens: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Close each row's sample starts with T."""
    rows = np.concatenate([[0], np.cumsum(starts.lengths + 1)])
    flat = np.empty(int(rows[-1]), dtype=np.int64)
    last = np.zeros(len(flat), dtype=bool)
    last[rows[1:] - 1] = True
    flat[last] = tokens
    flat[~last] = starts.values
    return rows, flat


def _restarts(positions: Cells) -> Cells:
    assert positions.rows is not None  # noqa: S101 - a list column, told by its type before
    # a row starts a sample whatever its first position is, else a damaged one reads as none
    starts = positions.values == 0
    starts[positions.rows[:-1]] = True
    places = np.flatnonzero(starts)
    row = np.searchsorted(positions.rows, places, side="right") - 1
    counts = np.bincount(row, minlength=len(positions.rows) - 1)
    rows = np.concatenate([[0], np.cumsum(counts)])
    return Cells(places - positions.rows[row], rows, None, positions.dtype)


def expected_dtype(column: Column) -> str:
    """Return the type that a declared column has on disk."""
    element = "string" if column.dtype == "digest" else column.dtype
    if column.axis is Axis.PACK:
        return element
    nested = column.planes > 1 or (column.width > 1 and column.dtype != "digest")
    return f"list<list<{element}>>" if nested else f"list<{element}>"


def declared(name: str) -> Column | None:
    """Return the declared column of that name, if any."""
    return BY_NAME.get(name)
