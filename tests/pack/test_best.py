"""Fewer packs for clustered lengths: minimum slack, column generation, the best of all kept."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import EnvironmentLacksError
from packcli.pack.columns import priced, size_classes
from packcli.pack.histogram import Histogram, ranked
from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan
from packcli.pack.slack import minimum_slack


def captions(tokens, n=20_000, seed=0):
    """Constant image tokens and a lognormal caption."""
    text = np.exp(np.random.default_rng(seed).normal(np.log(90), 0.7, n))
    return (tokens + text).astype(np.int32)


def triplets(n, capacity, seed=0):
    """Falkenauer's triplets: the optimum is n packs of three, all full."""
    rng = np.random.default_rng(seed)
    one = rng.integers(int(capacity * 0.38), int(capacity * 0.49) + 1, n)
    low = np.maximum(capacity // 4 + 1, capacity - one - capacity // 2 + 1)
    two = rng.integers(np.minimum(low, (capacity - one) // 2), (capacity - one) // 2 + 1)
    return rng.permutation(np.concatenate([one, two, capacity - one - two]))


def both(lengths, capacity):
    fast, best = (
        make_plan(lengths, PlanOptions(capacity, quality=quality)) for quality in ("fast", "best")
    )
    sums = [int(lengths[best.order[part]].sum()) for part in best.members.slices()]
    assert max(sums) <= capacity
    assert sorted(best.order.tolist()) == list(range(len(lengths)))
    return fast, best


@pytest.mark.parametrize(("tokens", "gain"), [(576, 0.055), (1024, 0.002)])
def test_clustered_captions(tokens, gain):
    pytest.importorskip("scipy")
    fast, best = both(captions(tokens), 4096)
    assert best.packs <= (1 - gain) * fast.packs
    assert best.excess <= 0.008 * best.lower_bound


def test_triplets():
    pytest.importorskip("scipy")
    fast, best = both(triplets(2_000, 1024), 1024)
    assert fast.packs > 2_200
    assert best.packs <= 2_020


def test_the_eleven_ninths_family_is_solved():
    base = [4128] * 6 + [2112] * 6 + [2080] * 6 + [1984] * 12
    fast, best = both(np.tile(base, 20), 8192)
    assert (fast.packs, best.packs, best.excess) == (220, 180, 0)


def test_best_is_deterministic_and_knows_seeds():
    pytest.importorskip("scipy")
    lengths = 576 + 10 * np.random.default_rng(0).integers(0, 25, 8_000)
    one, again, other = (
        make_plan(lengths, PlanOptions(4096, quality="best", seed=seed)) for seed in (1, 1, 2)
    )
    assert one.order.tolist() == again.order.tolist() != other.order.tolist()
    assert one.members == again.members == other.members


def test_best_without_scipy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(EnvironmentLacksError, match="pip install scipy"):
        make_plan(captions(576), PlanOptions(4096, quality="best"))
    easy = np.random.default_rng(0).integers(1, 500, 1_000)
    assert make_plan(easy, PlanOptions(4096, quality="best")).excess == 0


@given(
    st.integers(1, 60).flatmap(
        lambda capacity: st.tuples(st.just(capacity), st.lists(st.integers(1, capacity)))
    )
)
@settings(max_examples=200, deadline=None)
def test_minimum_slack_places_every_sample_once(case):
    capacity, lengths = case
    sizes = np.array(lengths, dtype=np.int64)
    arrangement = minimum_slack(Histogram.of(sizes), capacity).expand(ranked(sizes, None))
    assert sorted(arrangement.order.tolist()) == list(range(len(lengths)))
    assert arrangement.keeps(sizes, capacity)
    assert arrangement.counts.min(initial=1) == 1 or (arrangement.counts > 0).all()


@given(
    st.integers(2, 30).flatmap(
        lambda capacity: st.tuples(
            st.just(capacity), st.lists(st.integers(1, capacity), min_size=1, max_size=25)
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_best_never_needs_more_packs(case):
    pytest.importorskip("scipy")
    capacity, lengths = case
    fast, best = both(np.array(lengths), capacity)
    assert best.lower_bound <= best.packs <= fast.packs


def test_classes_are_narrow_where_samples_are_many():
    sizes = np.arange(1, 101)
    counts = np.where(sizes <= 10, 10_000, 1)
    number, classes = size_classes(Histogram(sizes, counts), 20)
    assert classes.counts.sum() == counts.sum()
    assert len(set(number[:10].tolist())) == 10
    assert classes.sizes[number[-1]] == 100
    assert np.all(classes.sizes[number] >= sizes)


def test_pricing_finds_the_best_knapsack():
    sizes, prices = np.array([3, 5, 7]), np.array([0.30, 0.55, 0.70])
    worth, patterns = priced(sizes, prices, 16)
    assert worth == pytest.approx(1.70)  # 5 + 5 + 3 + 3
    assert patterns[1].tolist() == [2, 2, 0]
    assert patterns[2].tolist() == [3, 0, 1]  # 7, then the best of 9
    assert (patterns @ sizes).max() <= 16
