"""Dealing to a fixed number of packs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.deal import deal, dealt


def falling(sizes):
    return np.sort(np.array(sizes, dtype=np.int64))[::-1]


def test_what_is_dealt_by_hand():
    # 6 and 5 open the packs; beside 6 is room for one of the threes, beside 5 for two
    found = deal(falling([6, 5, 3, 3, 2]), 2, (10, 3))
    assert found is not None
    assert found.pack.tolist() == [0, 1, 0, 1, 1]
    assert found.room.tolist() == [1, 0]
    assert found.slots.tolist() == [1, 0]


def test_too_few_packs_for_the_samples_are_no_deal():
    assert deal(falling([1] * 9), 2, (100, 4)) is None
    assert deal(falling([1] * 8), 2, (100, 4)) is not None


@pytest.mark.parametrize("most", [12, 13, 100])
def test_pictures_of_one_size_fill_their_packs(most):
    rng = np.random.default_rng(0)
    lengths = 576 + np.exp(rng.normal(np.log(90), 0.7, 20_000)).astype(np.int64)
    bound = -(-int(lengths.sum()) // 8192)
    ranks = np.argsort(-lengths, kind="stable")
    plan = dealt(ranks, lengths[ranks], (8192, most), bound)
    assert plan is not None
    assert plan.totals(lengths).max() <= 8192
    assert plan.counts.max() <= most
    assert plan.counts.size <= 1.003 * bound  # best fit decreasing needs 3 % more


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(50, 80), st.integers(1, 8)
)
@settings(max_examples=200, deadline=None)
def test_every_sample_is_dealt_once_within_both_budgets(lengths, capacity, most):
    sizes = np.array(lengths, dtype=np.int64)
    ranks = np.argsort(-sizes, kind="stable")
    bound = max(-(-int(sizes.sum()) // capacity), -(-sizes.size // most))
    plan = dealt(ranks, sizes[ranks], (capacity, most), bound)
    if plan is not None:
        assert sorted(plan.order.tolist()) == list(range(sizes.size))
        assert plan.counts.min() > 0
        assert plan.counts.max() <= most
        assert plan.totals(sizes).max() <= capacity
