"""Grids whose slots do not all stand side by side: tiles and rows, with text between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packcli.contract.model import ModelFacts, Rope, Runs
from packcli.contract.rules import check
from packcli.encode.sample import Medium, Sample, packs_of_one
from packcli.shards.arrow import to_batch, to_rows

PAD, BREAK = 90, 91
TILES = ModelFacts("tiles", 100, image_token_id=PAD, merge_size=2, runs=Runs.TILE)
ROWS = replace(TILES, runs=Runs.ROW)
WHOLE = replace(TILES, runs=Runs.GRID)
GRIDS = [(3, 4, 6), (1, 2, 2)]


def sample(facts, runs, grids):
    """Text, each run of slots behind a break, an answer."""
    ids = [1]
    for run in runs:
        ids += [BREAK, *[PAD] * run]
    ids = np.array([*ids, 5, 6], np.int32)
    labels = np.full(ids.size, -100, np.int32)
    labels[-2:] = ids[-2:]
    media = tuple(Medium("image", f"{n}.png", 9, 9, grid) for n, grid in enumerate(grids))
    return Sample("s", "f:1", ids, labels, media)


def codes(packs):
    rows = to_rows(to_batch(packs), packs.facts)
    return [rule.code for rule, _ in check(rows).hits]


@pytest.mark.parametrize(
    ("facts", "parts"),
    [
        (WHOLE, [(3, 4, 6), (1, 2, 2)]),
        (TILES, [(1, 4, 6)] * 3 + [(1, 2, 2)]),
        (ROWS, [(1, 2, 6)] * 6 + [(1, 2, 2)]),
    ],
)
def test_parts_of_grids(facts, parts):
    found = facts.unbroken(GRIDS)
    assert [tuple(part) for part in found.tolist()] == parts
    assert facts.slots(found).sum() == facts.slots(GRIDS).sum() == 19
    assert facts.unbroken([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("facts", "runs"),
    [(WHOLE, (18, 1)), (TILES, (6, 6, 6, 1)), (TILES, (18, 1)), (ROWS, (3,) * 6 + (1,))],
)
def test_sound_packs_break_no_rule(facts, runs):
    packs = packs_of_one([sample(facts, runs, GRIDS), sample(facts, (), [])], facts)
    assert packs.columns["media.token_count"].tolist() == [18, 1]
    assert packs.columns["media.token_start"][0] == 2
    assert codes(packs) == []
    assert codes(packs.joined()) == []


@pytest.mark.parametrize(
    ("facts", "runs", "code"),
    [
        (WHOLE, (6, 12, 1), "slot.grid_order"),
        (TILES, (5, 7, 6, 1), "slot.grid_order"),
        (ROWS, (3, 3, 2, 4, 3, 3, 1), "slot.grid_order"),
    ],
)
def test_runs_that_fit_no_grid_are_seen(facts, runs, code):
    assert codes(packs_of_one([sample(facts, runs, GRIDS)], facts)) == [code]


def test_a_tile_that_lost_a_slot_is_seen():
    packs = packs_of_one([sample(TILES, (6, 6, 6, 1), GRIDS)], TILES)
    packs.columns["input_ids"][-3] = 7
    assert "slot.count" in codes(packs)


def test_grids_that_swap_places_are_seen():
    packs = packs_of_one([sample(TILES, (6, 6, 6, 1), GRIDS)], TILES)
    packs.columns["image_grid_thw"][:] = GRIDS[::-1]
    assert "slot.grid_order" in codes(packs)


def test_wrong_token_types_are_seen():
    facts = replace(WHOLE, token_type_ids=True)
    packs = packs_of_one([sample(facts, (18, 1), GRIDS)], facts)
    batch = to_batch(packs)
    assert batch.column("token_type_ids").equals(batch.column("mm_token_type_ids"))
    rows = to_rows(batch, facts)
    assert not check(rows).hits
    damaged = rows.cells["token_type_ids"].values.copy()
    damaged[3] = 0
    cells = dict(rows.cells)
    cells["token_type_ids"] = replace(cells["token_type_ids"], values=damaged)
    ((rule, hit),) = check(replace(rows, cells=cells)).hits
    assert (rule.code, hit.token) == ("mm_type.value", 3)


def test_facts_of_runs_survive_the_manifest():
    facts = ModelFacts("x", 9, Rope.TEXT, image_token_id=3, runs=Runs.ROW, token_type_ids=True)
    assert ModelFacts.from_json(facts.to_json()) == facts
    old = {k: v for k, v in facts.to_json().items() if k not in ("runs", "vit_windows")}
    assert ModelFacts.from_json(old).runs is Runs.GRID
    with pytest.raises(ValueError, match="diagonal"):
        ModelFacts.from_json(facts.to_json() | {"runs": "diagonal"})
