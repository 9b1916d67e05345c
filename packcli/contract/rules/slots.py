"""Slot rules: token slots, grids and positions of media agree, sample by sample."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.derived import DERIVED, mm_token_types, mrope_of, window_rows
from packcli.contract.model import Rope
from packcli.contract.rows import planes_from_rows
from packcli.contract.rules.rule import (
    SECONDS,
    WINDOWS,
    Hit,
    Rule,
    first_per_row,
    hits_at,
    place_of,
    token_hits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows
    from packcli.contract.slot_runs import SlotRuns


def _count(rows: Rows) -> Iterator[Hit]:
    for kind in ("image", "video"):
        column = f"{kind}_grid_thw"
        if kind not in rows.facts.slot_tokens:
            if column in rows.cells:
                for row in np.flatnonzero(rows.cells[column].lengths).tolist():
                    yield Hit(row, f"{column} holds grids, and the model has no {kind} slots")
        elif column in rows.cells:
            yield from _count_kind(rows, kind)
        elif rows.slots[kind].total:
            yield Hit(None, f"there are {kind} slots and no column {column}")


def _count_kind(rows: Rows, kind: str) -> Iterator[Hit]:
    """Compare slots and grids, per pack, then where the samples of a pack meet."""
    cells = rows.cells[f"{kind}_grid_thw"]
    assert cells.rows is not None  # noqa: S101 - list columns only, told by grid.dtype before
    ends = np.concatenate([[0], np.cumsum(rows.facts.slots(cells.values))])
    per_row = np.diff(rows.slots[kind].before(np.cumsum(rows.tokens)), prepend=0)
    told = ends[cells.rows[1:]] - ends[cells.rows[:-1]]
    wrong = per_row != told
    for row in np.flatnonzero(wrong).tolist():
        edges = ends[cells.rows[row] : cells.rows[row + 1] + 1] - ends[cells.rows[row]]
        message = f"{per_row[row]} {kind} slots, grids make {told[row]}"
        yield Hit(row, message, _first_off(rows, row, rows.slots[kind], edges))
    if not cells.rows[-1]:
        return
    right = np.flatnonzero(~wrong)
    for hit in _straddling(rows.take(right) if wrong.any() else rows, kind):
        assert hit.row is not None  # noqa: S101 - straddling is told of rows only
        yield replace(hit, row=int(right[hit.row]))


def _first_off(rows: Rows, row: int, slots: SlotRuns, edges: NDArray[np.int64]) -> int | None:
    """Return the first sample of a pack at whose end no grid ends; None where all do."""
    counts, flat = rows.boundaries
    start = int(rows.tokens[:row].sum())
    bounds = start + flat[counts[row] + 1 : counts[row + 1]]
    filled = slots.before(bounds) - slots.before(np.array(start))
    off = np.flatnonzero(~_among(filled, edges))
    return int(off[0]) if off.size else None


def _among(numbers: NDArray[np.integer], edges: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell which numbers are in a sorted list of edges, at least one."""
    place = np.searchsorted(edges, numbers)
    return edges[np.minimum(place, edges.size - 1)] == numbers


def _straddling(rows: Rows, kind: str) -> Iterator[Hit]:
    """Find samples whose slots are not a whole number of grids, in packs that add up."""
    grids = rows.cells[f"{kind}_grid_thw"].values
    ends = np.concatenate([[0], np.cumsum(rows.facts.slots(grids))])
    slots = rows.slots[kind].before(np.cumsum(rows.lengths))
    wrong = np.flatnonzero(~_among(slots, ends))
    first = rows.members.starts
    row = np.searchsorted(first, wrong, side="right") - 1
    for index in first_per_row(row):
        sample, number = int(wrong[index]), int(row[index])
        has = int(slots[sample] - (slots[sample - 1] if sample else 0))
        message = f"{has} {kind} slots in the sample are not a whole number of grids"
        yield Hit(number, message, sample - int(first[number]))


def _grid_order(packs: Packs, rows: Rows) -> Iterator[Hit]:
    """Every run of slots starts where a grid (or a frame of one) starts."""
    for kind, slots in rows.slots.items():
        grids = packs.columns[f"{kind}_grid_thw"]
        if not len(grids):
            continue
        parts = _frames(grids.astype(np.int64), kind, packs.facts)
        edges = np.concatenate([[0], np.cumsum(packs.facts.slots(parts))])
        wrong = slots.starts[~_among(slots.counts[:-1], edges)]
        yield from hits_at(
            packs, wrong, lambda _, k=kind: f"{k} slots start here, but no {k} grid does"
        )


def _frames(grids: NDArray[np.int64], kind: str, facts: ModelFacts) -> NDArray[np.int64]:
    """Split grids into parts whose slots stand side by side."""
    if kind == "image" or facts.rope is not Rope.FRAMES:
        return facts.unbroken(grids)
    split = np.repeat(grids, grids[:, 0], axis=0)
    split[:, 0] = 1
    return split


def _mm_type(packs: Packs, rows: Rows) -> Iterator[Hit]:
    expected, stored = mm_token_types(packs), rows.cells["mm_token_type_ids"].values
    if packs.facts.token_type_ids and "token_type_ids" in rows.cells:
        again = rows.cells["token_type_ids"].values
        # one hit a sample: where the first column is right, the second one is looked at
        stored = np.where(stored == expected, again, stored)
    yield from token_hits(
        packs,
        stored != expected,
        lambda token: f"the type of the token is {stored[token]}, expected {expected[token]}",
    )


def _mrope(packs: Packs, rows: Rows) -> Iterator[Hit]:
    expected = mrope_of(packs, rows.slots)
    stored = planes_from_rows(rows.cells["mrope_position_ids"].values, rows.tokens, len(expected))
    yield from token_hits(
        packs,
        (stored != expected).any(axis=0),
        lambda token: (
            f"mRoPE [t, h, w] is {stored[:, token].tolist()}, "
            f"grids and ids say {expected[:, token].tolist()}"
        ),
    )


def _span(packs: Packs, rows: Rows) -> Iterator[Hit]:
    """Each medium's place, size and kind are those of its grid's slots."""
    start, count = media_spans(packs, rows.slots)
    first = np.repeat(packs.tokens.starts, packs.axes[Axis.MEDIUM].lengths)
    stored_start = packs.columns["media.token_start"] + first
    stored_count = packs.columns["media.token_count"]
    image = packs.columns["input_ids"][start] == packs.facts.image_token_id
    kind = np.where(image, "image", "video").astype(object)
    stored_kind = packs.columns["media.kind"] if "media.kind" in rows.cells else kind
    wrong = (stored_start != start) | (stored_count != count) | (stored_kind != kind)
    for medium in np.flatnonzero(wrong).tolist():
        place = place_of(packs, int(start[medium]))
        message = (
            f"{stored_kind[medium]} at {stored_start[medium] - first[medium]} with "
            f"{stored_count[medium]} slots; the slots say {kind[medium]} at "
            f"{start[medium] - first[medium]} with {count[medium]} (counted in the sample)"
        )
        yield Hit(place.row, message, place.sample, place.token)


def media_spans(
    packs: Packs, slots: Mapping[str, SlotRuns]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First slot (flat token number) and slot count of every medium, in token order."""
    starts: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []
    for kind, runs in slots.items():
        sizes = packs.facts.slots(packs.columns[f"{kind}_grid_thw"])
        starts.append(runs.places(np.cumsum(sizes) - sizes))
        counts.append(sizes)
    start, count = np.concatenate(starts), np.concatenate(counts)
    order = np.argsort(start, kind="stable")
    return start[order], count[order]


def _windows(packs: Packs, rows: Rows) -> Iterator[Hit]:
    """Windows of the vision tower are cut from the grids, by the reading of the manifest."""
    if packs.facts.vit_windows is None:
        return
    cells = rows.cells["vit_cu_seqlens"]
    assert cells.rows is not None  # noqa: S101 - a list column, told by columns.type before
    told, places = DERIVED["vit_cu_seqlens"](packs), window_rows(packs).astype(np.int64)
    if np.array_equal(cells.rows, places) and np.array_equal(cells.values, told):
        return
    for row in range(len(packs)):
        found = cells.values[cells.rows[row] : cells.rows[row + 1]]
        expected = told[places[row] : places[row + 1]]
        if not np.array_equal(found, expected):
            yield Hit(row, _first_difference(found.tolist(), expected.tolist(), packs.facts))


def _first_difference(found: list[int], expected: list[int], facts: ModelFacts) -> str:
    pairs = enumerate(zip(found, expected, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(found), len(expected)))
    return (
        f"vit_cu_seqlens of {len(found)} boundaries goes on with {found[at : at + 3]} at index "
        f"{at}; the windows of the grids, by {facts.vit_windows}, are {len(expected)} boundaries "
        f"and go on with {expected[at : at + 3]}"
    )


SLOT_COUNT = Rule(
    "slot.count",
    8,
    "slots of a sample are the sum of prod(grid) // merge_size² over its grids",
    "re-encode the sample: the model will refuse it, hours into training",
    ("model with media",),
    frame=_count,
)

SLOTS = (
    Rule(
        "slot.grid_order",
        10,
        "grids stand in the order of their slots",
        "keep image_grid_thw and video_grid_thw in the order of the placeholders",
        ("model with media",),
        check=_grid_order,
    ),
    Rule(
        "mm_type.value",
        10,
        "token types are 1 at image slots, 2 at video slots, else 0",
        "derive it from input_ids",
        ("model with media", "mm_token_type_ids"),
        check=_mm_type,
    ),
    Rule(
        "media.span",
        11,
        "every medium names its own kind, first slot and slot count",
        "re-encode the sample",
        ("model with media", "media.token_start", "media.token_count"),
        check=_span,
    ),
    Rule(
        "mrope.sample",
        11,
        "mRoPE planes are computed per sample, from 0, from its ids and grids",
        "call get_rope_index per sample, before packing",
        ("model with mRoPE", "mrope_position_ids", SECONDS),
        check=_mrope,
    ),
    Rule(
        "vit.windows",
        11,
        "vit_cu_seqlens is cut from the grids, by the reading that the manifest records",
        "derive it from image_grid_thw, by the vit_windows of the manifest's model",
        (WINDOWS,),
        check=_windows,
    ),
)
