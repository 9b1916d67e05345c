"""Exchanges between packs of small plans."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.balance import step_imbalance
from packcli.pack.exchange import Load, exchanged
from packcli.pack.options import Arrangement, PlanOptions
from packcli.pack.plan import make_plan


def even(packs, most, step, *more):
    """Exchange between packs of samples' lengths, more budgets by sample and pack."""
    lengths = np.array([length for pack in packs for length in pack], np.int64)
    plan = Arrangement(np.arange(lengths.size), np.array([len(pack) for pack in packs], np.int64))
    needs, budgets = zip((lengths, most), *more, strict=True)
    load = Load(lengths**2, np.array(needs), np.array(budgets), step)
    found = exchanged(plan, load, partial(step_imbalance, ranks=step), 1.0)
    held = np.split(found.order, np.cumsum(found.counts)[:-1])
    return found, [sorted(lengths[one].tolist(), reverse=True) for one in held]


def test_a_long_sample_changes_places_with_short_ones_that_take_as_much():
    _, packs = even([[8, 8], [4, 4, 4, 4]], 16, 2)
    assert packs == [[8, 4, 4], [8, 4, 4]]


def test_two_samples_are_exchanged():
    _, packs = even([[9, 7], [8, 6]], 16, 2)
    assert sorted(packs) == [[8, 7], [9, 6]]


def test_what_cannot_be_more_even_stays():
    found, packs = even([[16], [8, 8], [3]], 16, 2)
    assert found.counts.tolist() == [1, 2, 1]
    assert packs == [[16], [8, 8], [3]]


def test_every_budget_is_kept():
    images = np.array([0, 1, 1, 1, 1, 0])
    lengths = [[8, 8], [4, 4, 4, 4]]
    _, packs = even(lengths, 16, 2, (np.array([1, 1, 0, 0, 0, 0]), 2), (images, 3))
    assert packs == [[8, 4, 4], [8, 4, 4]]
    _, packs = even(lengths, 16, 2, (np.ones(6, np.int64), 2))
    assert packs == lengths


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(2, 8), st.data())
@settings(max_examples=150, deadline=None)
def test_small_plans_wait_no_longer_than_packs_of_best_fit(lengths, ranks, data):
    most = data.draw(st.none() | st.integers(1, 9))
    options = PlanOptions(60, balance="attention", ranks=ranks, max_samples=most)
    plan = make_plan(lengths, options)
    packs = np.split(plan.order, np.cumsum(plan.members.lengths)[:-1])
    assert sorted(plan.order.tolist()) == list(range(len(lengths)))
    each = np.array(lengths)
    assert max(each[pack].sum() for pack in packs) <= 60
    assert most is None or max(pack.size for pack in packs) <= most
    plain = make_plan(lengths, PlanOptions(60, max_samples=most))
    assert plan.packs <= plain.packs
    costs = np.add.reduceat(each[plain.order] ** 2, plain.members.starts)
    waits = step_imbalance(np.sort(costs)[::-1], ranks)
    assert plan.imbalance <= waits + 1e-9
    assert plan.least_imbalance <= plan.imbalance + 1e-9


@pytest.mark.parametrize(("ranks", "most"), [(2, 1.03), (8, 1.16)])
def test_a_dozen_packs_come_near_each_other(ranks, most):
    rng = np.random.default_rng(5)
    lengths = np.clip(np.exp(rng.normal(np.log(600), 1, 400)), 8, 32768).astype(int)
    plan = make_plan(lengths, PlanOptions(32768, balance="attention", ranks=ranks))
    assert plan.packs == make_plan(lengths, PlanOptions(32768)).packs
    assert 1 <= plan.imbalance < most
