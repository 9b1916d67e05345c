"""Blocks of equal cost."""

from __future__ import annotations

import numpy as np
import pytest

from packcli.pack.balance import in_blocks, step_imbalance
from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan


def costs_of(plan, values):
    return np.array([values[plan.order[part]].sum() for part in plan.members.slices()])


def test_blocks_hold_neighbours_in_cost():
    costs = np.array([5, 1, 9, 4, 8, 2, 6])
    order = in_blocks(costs, 2, seed=0)
    assert sorted(order.tolist()) == list(range(7))
    blocks = {tuple(sorted(costs[order[at : at + 2]].tolist())) for at in range(0, 6, 2)}
    assert blocks == {(8, 9), (5, 6), (2, 4)}
    assert costs[order[6]] == 1  # what does not fill a block is the cheapest and stays last


def test_the_dearest_packs_are_in_full_steps():
    costs = np.array([4, 4, 400, 4, 5, 4, 4, 4, 3])
    order = in_blocks(costs, 4, seed=0)
    assert order[8] == 8
    assert step_imbalance(costs[order], 4) == (400 + 4 + 3) / ((413 + 16) / 4 + 3)


def test_the_seed_shuffles_blocks():
    costs = np.arange(64)
    orders = {tuple(in_blocks(costs, 4, seed).tolist()) for seed in range(5)}
    assert len(orders) == 5
    assert in_blocks(costs, 4, 1).tolist() == in_blocks(costs, 4, 1).tolist()


def test_step_imbalance_is_dearest_over_mean():
    assert step_imbalance(np.array([4, 2, 3, 3]), 2) == (4 + 3) / 6
    # the last, incomplete step counts as its own packs do
    assert step_imbalance(np.array([4, 2, 3, 3, 90]), 2) == (4 + 3 + 90) / (3 + 3 + 90)
    assert step_imbalance(np.array([4, 2, 3, 3, 90]), 3) == (4 + 90) / (3 + 93 / 2)
    assert step_imbalance(np.array([2.0, 2.0]), 2) == 1.0
    assert step_imbalance(np.array([]), 2) == 1.0


@pytest.mark.parametrize(("ranks", "most"), [(8, 1.02), (64, 1.08)])
def test_attention_is_balanced_without_an_extra_pack(ranks, most):
    draw = np.exp(np.random.default_rng(2).normal(np.log(600), 1.0, 100_000))
    lengths = np.clip(draw, 8, 8192).astype(np.int64)
    plain = make_plan(lengths, PlanOptions(capacity=8192))
    plan = make_plan(lengths, PlanOptions(capacity=8192, balance="attention", ranks=ranks, seed=7))
    assert plan.packs == plain.packs
    squares = costs_of(plan, lengths**2)
    assert step_imbalance(squares, ranks) <= most
    shuffled = np.random.default_rng(0).permutation(squares)
    assert step_imbalance(shuffled, ranks) > 1.5


@pytest.mark.parametrize("capacity", [8192, 32_768])
def test_packs_of_one_step_are_alike_where_lengths_are_not(capacity):
    rng = np.random.default_rng(3)
    lengths = rng.choice([256, 576, 1024, 2304], 20_000) + rng.integers(1, 300, 20_000)
    plain = make_plan(lengths, PlanOptions(capacity))
    plan = make_plan(lengths, PlanOptions(capacity, balance="attention", ranks=64))
    assert plan.packs <= plain.packs
    before = np.sort(costs_of(plain, lengths**2))[::-1]
    assert step_imbalance(costs_of(plan, lengths**2), 64) <= min(1.02, step_imbalance(before, 64))


def test_vision_is_balanced_by_patches():
    rng = np.random.default_rng(4)
    patches = rng.choice([0, 256, 4096], 5_000)
    lengths = patches // 4 + rng.integers(10, 400, 5_000)
    options = PlanOptions(capacity=4096, balance="vision", ranks=8)
    plan = make_plan(lengths, options, patches=patches)
    assert step_imbalance(costs_of(plan, patches), 8) < 1.02
