"""Next fit, and best fit among a few open packs, in order of arrival."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan


def packs_of(plan, lengths):
    return [[int(lengths[i]) for i in plan.order[part]] for part in plan.members.slices()]


def next_fit(lengths, capacity):
    packs = []
    for length in lengths:
        if packs and sum(packs[-1]) + length <= capacity:
            packs[-1].append(length)
        else:
            packs.append([length])
    return packs


def sequential(capacity, **more):
    return PlanOptions(capacity=capacity, strategy="sequential", **more)


def test_exact_fits_keep_their_order():
    lengths = [6, 5, 4, 3, 2, 10]
    assert packs_of(make_plan(lengths, sequential(10)), lengths) == [[6], [5, 4], [3, 2], [10]]


@given(st.lists(st.integers(1, 20)))
@settings(max_examples=200, deadline=None)
def test_equals_next_fit_and_keeps_order(lengths):
    plan = make_plan(lengths, sequential(20))
    assert packs_of(plan, lengths) == next_fit(lengths, 20)
    assert plan.order.tolist() == list(range(len(lengths)))


def test_open_packs_take_the_sample_that_fills_them_best():
    # 6 | 7, then 3 closes the 7, then 4 the 6: next fit would need 4 packs
    lengths = [6, 7, 3, 4]
    assert packs_of(make_plan(lengths, sequential(10, open_packs=2)), lengths) == [[6, 4], [7, 3]]
    assert make_plan(lengths, sequential(10)).packs == 3


def test_the_fullest_pack_closes_when_too_many_are_open():
    # 8 and 6 are open; 7 fits nowhere and closes the 8, so the 2 goes to the 7 and the 4 to the 6
    lengths = [8, 6, 7, 2, 4]
    plan = make_plan(lengths, sequential(10, open_packs=2))
    assert packs_of(plan, lengths) == [[8], [6, 4], [7, 2]]


@given(st.lists(st.integers(1, 20)), st.integers(2, 6))
@settings(max_examples=100, deadline=None)
def test_open_packs_keep_arrival_inside_packs_and_among_first_members(lengths, count):
    plan = make_plan(lengths, sequential(20, open_packs=count))
    members = [plan.order[part].tolist() for part in plan.members.slices()]
    assert all(pack == sorted(pack) for pack in members)
    assert [pack[0] for pack in members] == sorted(pack[0] for pack in members)


def test_sixteen_open_packs_recover_the_fill():
    rng = np.random.default_rng(5)
    lengths = np.where(rng.random(20_000) < 0.3, rng.integers(4096, 8193, 20_000), 900)
    plain = make_plan(lengths, sequential(8192))
    sixteen = make_plan(lengths, sequential(8192, open_packs=16))
    assert plain.fill < 0.85
    assert sixteen.fill > plain.fill + 0.1


@pytest.mark.parametrize("open_packs", [1, 3])
def test_limits_hold_in_order_of_arrival(open_packs):
    rng = np.random.default_rng(1)
    lengths, images = rng.integers(1, 40, 500), rng.integers(0, 3, 500)
    options = sequential(100, open_packs=open_packs, max_samples=5, max_images=4)
    plan = make_plan(lengths, options, images=images)
    assert sorted(plan.order.tolist()) == list(range(500))
    for part in plan.members.slices():
        members = plan.order[part]
        assert lengths[members].sum() <= 100
        assert images[members].sum() <= 4
        assert members.size <= 5
