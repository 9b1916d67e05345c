"""Boundary rules: where samples start and end, told by every column that tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.cells import Cells
from packcli.contract.offsets import Offsets
from packcli.contract.rules.rule import Hit, Rule, first_per_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.rows import Rows


def _start(rows: Rows) -> Iterator[Hit]:
    counts, flat = rows.boundaries
    sizes = np.diff(counts)
    empty = sizes < 2  # noqa: PLR2004 - one sample needs two boundaries
    for row in np.flatnonzero(empty).tolist():
        yield Hit(row, f"there are {sizes[row]} boundaries; one sample needs two")
    full = np.flatnonzero(~empty)
    first = flat[counts[:-1][full]]
    for row, value in zip(full[first != 0].tolist(), first[first != 0].tolist(), strict=True):
        yield Hit(row, f"the first boundary is {value}, expected 0", token=0)


def _end(rows: Rows) -> Iterator[Hit]:
    counts, flat = rows.boundaries
    last = flat[counts[1:] - 1]
    for row in np.flatnonzero(last != rows.tokens).tolist():
        yield Hit(row, f"the last boundary is {last[row]}, the pack has {rows.tokens[row]} tokens")


def _increasing(rows: Rows) -> Iterator[Hit]:
    counts, flat = rows.boundaries
    steps = np.diff(flat)
    steps[counts[1:-1] - 1] = 1
    places = np.flatnonzero(steps <= 0)
    row = np.searchsorted(counts, places, side="right") - 1
    for index in first_per_row(row):
        at, number = int(places[index]), int(row[index])
        sample = at - int(counts[number])
        message = f"boundaries {flat[at]}, {flat[at + 1]}: a sample has at least one token"
        yield Hit(number, message, sample)


def _lengths(rows: Rows) -> Iterator[Hit]:
    for name, expected in {"seq_lengths": rows.lengths, "seq_start_id": rows.starts}.items():
        if name in rows.cells:
            yield from _disagreement(rows, name, expected)


def _disagreement(rows: Rows, name: str, expected: NDArray[np.int64]) -> Iterator[Hit]:
    cells, samples = rows.cells[name], rows.members.lengths
    if np.array_equal(cells.lengths, samples) and np.array_equal(cells.values, expected):
        return
    for row in np.flatnonzero(cells.lengths != samples).tolist():
        yield Hit(row, f"{name} names {cells.lengths[row]} samples, cu_seqlens {samples[row]}")
    same = np.flatnonzero(cells.lengths == samples)
    members = rows.members.values.astype(np.int64)
    told = Cells(expected, members, None, cells.dtype).take(same)
    stored = cells.take(same).values
    assert told.rows is not None  # noqa: S101 - given two lines above
    places = np.flatnonzero(stored != told.values)
    row = np.searchsorted(told.rows, places, side="right") - 1
    for index in first_per_row(row):
        at, number = int(places[index]), int(row[index])
        message = f"{name} says {stored[at]}, cu_seqlens {told.values[at]}"
        yield Hit(int(same[number]), message, at - int(told.rows[number]))


def _max_seqlen(rows: Rows) -> Iterator[Hit]:
    if "max_seqlen" not in rows.cells:
        yield Hit(None, "cu_seqlens without max_seqlen: transformers falls back to dense attention")
        return
    longest = np.maximum.reduceat(rows.lengths, rows.members.starts)
    stored = rows.cells["max_seqlen"].values
    for row in np.flatnonzero(stored != longest).tolist():
        why = "tail rows are never computed" if stored[row] < longest[row] else "launch is wasted"
        message = f"max_seqlen {stored[row]}, longest sample {longest[row]}: {why}"
        yield Hit(row, message)


def _reset(rows: Rows) -> Iterator[Hit]:
    stored, samples = rows.cells["position_ids"].values, Offsets.from_lengths(rows.lengths)
    steps = np.diff(stored.astype(np.int32, copy=False))
    steps[samples.starts[1:] - 1] = 1
    if (steps == 1).all() and not stored[samples.starts].any():
        return
    first, run = samples.starts, samples.restarting()
    row_start = np.cumsum(rows.tokens) - rows.tokens
    places = np.flatnonzero(stored != run)
    row = np.searchsorted(row_start, places, side="right") - 1
    for index in first_per_row(row):
        at, number = int(places[index]), int(row[index])
        token = at - int(row_start[number])
        sample = int(np.searchsorted(first, at, side="right")) - 1
        sample -= int(np.searchsorted(first, row_start[number]))
        message = f"position_ids is {stored[at]} at token {token}, the boundaries say {run[at]}"
        yield Hit(number, message, sample, token)


BOUNDARIES = (
    Rule(
        "boundary.start",
        2,
        "the first boundary is 0",
        "write 0, then the running sum of sample lengths",
        frame=_start,
    ),
    Rule(
        "boundary.end",
        3,
        "the last boundary is T",
        "count the last sample in, and compute boundaries from one plane only",
        frame=_end,
    ),
    Rule(
        "boundary.increasing",
        4,
        "boundaries grow strictly: every sample has a token",
        "drop samples without tokens, and sort nothing after packing",
        frame=_increasing,
    ),
    Rule(
        "boundary.lengths",
        5,
        "seq_lengths and seq_start_id say the same as cu_seqlens",
        "derive all three from the sample lengths",
        ("cu_seqlens",),
        frame=_lengths,
    ),
    Rule(
        "boundary.max_seqlen",
        6,
        "max_seqlen is the longest sample, and is there wherever cu_seqlens is",
        "store max(seq_lengths)",
        ("cu_seqlens",),
        frame=_max_seqlen,
    ),
    Rule(
        "position.reset",
        6,
        "position_ids counts 0, 1, 2, … from every boundary and restarts nowhere else",
        "compute position ids per sample before packing; a lost boundary shows up here",
        ("position_ids",),
        frame=_reset,
    ),
)
