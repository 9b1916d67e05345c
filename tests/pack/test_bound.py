"""The lower bound never exceeds the optimum, and proves what the token sum cannot."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.bound import bound_of, lower_bound
from packcli.pack.histogram import Histogram
from packcli.pack.options import PlanOptions, Samples


def bound(lengths, capacity):
    return lower_bound(Histogram.of(np.array(lengths, dtype=np.int64)), capacity)


def optimum(lengths, capacity):
    """The fewest packs, by trying everything."""

    @cache
    def fewest(rest, rooms):
        if not rest:
            return len(rooms)
        size, rest = rest[0], rest[1:]
        tries = [fewest(rest, tuple(sorted((*rooms, capacity - size))))]
        for room in set(rooms):
            if room >= size:
                left = list(rooms)
                left.remove(room)
                tries.append(fewest(rest, tuple(sorted((*left, room - size)))))
        return min(tries)

    return fewest(tuple(sorted(lengths, reverse=True)), ())


@given(
    st.integers(1, 24).flatmap(
        lambda capacity: st.tuples(
            st.just(capacity), st.lists(st.integers(1, capacity), max_size=8)
        )
    )
)
@settings(max_examples=200, deadline=None)
def test_never_above_the_optimum(case):
    capacity, lengths = case
    assert bound(lengths, capacity) <= optimum(tuple(lengths), capacity)


@pytest.mark.parametrize(
    ("lengths", "capacity", "packs"),
    [
        ([], 10, 0),
        ([10], 10, 1),
        ([5, 5, 5], 10, 2),
        ([6, 6, 6], 10, 3),  # three over half a pack: L2
        ([7, 7, 4, 4], 10, 3),  # the fours do not fit beside the sevens: L2
        ([4] * 6, 11, 3),  # two to a pack by u(2), two packs and a bit by the sum
        ([3] * 100, 11, 34),
    ],
)
def test_known_values(lengths, capacity, packs):
    assert bound(lengths, capacity) == packs


def test_capped_by_the_data():
    # 1369 image tokens and a caption of 1 to 15 at 4096: only two fit, which the sum cannot see
    lengths = 1369 + np.random.default_rng(0).integers(1, 16, 1001)
    assert bound(lengths, 4096) == 501


def optimum_of_two(samples, budgets):
    """The fewest packs under two budgets, by trying everything."""

    @cache
    def fewest(rest, rooms):
        if not rest:
            return len(rooms)
        (one, two), rest = rest[0], rest[1:]
        fresh = (budgets[0] - one, budgets[1] - two)
        tries = [fewest(rest, tuple(sorted((*rooms, fresh))))]
        for room in set(rooms):
            if room[0] >= one and room[1] >= two:
                left = list(rooms)
                left.remove(room)
                tries.append(fewest(rest, tuple(sorted((*left, (room[0] - one, room[1] - two))))))
        return min(tries)

    return fewest(tuple(sorted(samples, reverse=True)), ())


@given(
    st.integers(4, 16),
    st.integers(2, 8),
    st.lists(st.tuples(st.integers(1, 16), st.integers(0, 8)), min_size=1, max_size=7),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_two_budgets_are_never_bound_above_the_optimum(capacity, most, pairs, counted):
    samples = [(min(a, capacity), 1 if counted else min(b, most)) for a, b in pairs]
    lengths, second = np.array(samples, dtype=np.int64).T
    if counted:
        options = PlanOptions(capacity, max_samples=most)
        given_samples = Samples(lengths)
    else:
        options = PlanOptions(capacity, max_images=most)
        given_samples = Samples(lengths, images=second)
    assert bound_of(given_samples, options) <= optimum_of_two(samples, (capacity, most))
