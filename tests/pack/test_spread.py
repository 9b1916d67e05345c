"""Samples dealt by cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.histogram import ranked
from packcli.pack.options import PlanOptions
from packcli.pack.spread import spread_to


def spread(lengths, capacity, packs, how, step):
    lengths = np.array(lengths, dtype=np.int64)
    ranks = ranked(lengths, None)
    options = PlanOptions(capacity, balance="attention", ranks=step)
    return spread_to(packs, how, ranks, lengths[ranks], options)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=60),
    st.integers(50, 90),
    st.floats(0, 1),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_every_sample_is_placed_once_and_no_pack_is_too_full(lengths, capacity, share, data):
    packs = data.draw(st.integers(1, len(lengths)))
    step = data.draw(st.integers(2, 5))
    heavy = data.draw(st.integers(0, packs // (2 * step))) * step
    plan = spread(lengths, capacity, packs, (heavy, share), step)
    assert sorted(plan.order.tolist()) == list(range(len(lengths)))
    assert plan.counts.min() > 0
    assert plan.counts.sum() == len(lengths)
    assert plan.keeps(np.array(lengths), capacity)


def test_long_samples_share_a_step_and_the_others_are_alike():
    lengths = [90, 60, 50] + [20] * 12 + [1] * 60
    plan = spread(lengths, 110, 8, (2, 0.9), 2)
    costs = plan.squares(np.array(lengths))
    assert plan.counts.size == 8
    assert costs[0] >= 90**2
    assert costs[1] >= 60**2 + 50**2
    assert all(2 * 20**2 <= cost < 3 * 20**2 for cost in costs[2:])


@pytest.mark.parametrize("heavy", [0, 2])
def test_samples_that_do_not_fit_get_packs_of_their_own(heavy):
    plan = spread([9, 8, 7, 6], 10, 2, (heavy, 0.5), 2)
    assert plan.counts.tolist() == [1] * 4
