"""Blocks of equal cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.balance import in_blocks, least_imbalance, step_imbalance
from packcli.pack.histogram import Histogram
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


def partitions(lengths, packs, capacity):
    """Every way to group lengths into so many packs, as the lists of the packs' lengths."""
    if not lengths:
        yield from [[]] if packs == 0 else []
        return
    first, rest = lengths[0], lengths[1:]
    for plan in partitions(rest, packs, capacity):
        for at, pack in enumerate(plan):
            if first + sum(pack) <= capacity:
                yield [*plan[:at], [first, *pack], *plan[at + 1 :]]
    if packs:
        for plan in partitions(rest, packs - 1, capacity):
            yield [[first], *plan]


@given(st.lists(st.integers(1, 12), min_size=2, max_size=7), st.integers(2, 4), st.integers(2, 3))
@settings(max_examples=200, deadline=None)
def test_no_plan_is_more_even_than_the_least_imbalance(lengths, packs, ranks):
    least = least_imbalance(Histogram.of(np.array(lengths)), 12, packs, ranks)
    for plan in partitions(lengths, packs, 12):
        costs = np.array(sorted((sum(size**2 for size in pack) for pack in plan), reverse=True))
        assert step_imbalance(costs, ranks) >= least * (1 - 1e-12)


def test_the_least_imbalance_of_one_long_sample():
    # 10 is alone; the pack beside it holds 4 and 4 and 2 at most, and all the others are alike
    histogram = Histogram.of(np.array([10, *[4] * 10, *[2] * 5]))
    share = (100 + 160 + 20) / 2
    assert least_imbalance(histogram, 10, 6, 2) == 1 + (100 - (100 + 2.5 * 16) / 2) / share


@pytest.mark.parametrize(("capacity", "ranks"), [(32_768, 8), (32_768, 64), (131_072, 8)])
def test_a_few_long_samples_cost_little_more_than_they_must(capacity, ranks):
    draw = np.exp(np.random.default_rng(2).normal(np.log(600), 1.0, 30_000))
    lengths = np.clip(draw, 8, capacity).astype(np.int64)
    plain = make_plan(lengths, PlanOptions(capacity))
    plan = make_plan(lengths, PlanOptions(capacity, balance="attention", ranks=ranks))
    assert plan.packs == plain.packs
    assert plan.least_imbalance <= plan.imbalance <= plan.least_imbalance + 0.025
    before = np.sort(costs_of(plain, lengths**2))[::-1]
    assert step_imbalance(before, ranks) > plan.imbalance + 0.02
