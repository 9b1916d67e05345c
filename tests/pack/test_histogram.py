"""Lengths counted and ranked."""

from __future__ import annotations

import numpy as np
import pytest

from packcli.pack.histogram import Histogram, ranked, stable_argsort


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("seed", range(5))
def test_ties_keep_their_positions(dtype, seed):
    rng = np.random.default_rng(seed)
    top = min(np.iinfo(dtype).max, int(rng.choice([3, 300, 2**31 - 1])))
    keys = rng.integers(0, top, 1000, endpoint=True).astype(dtype)
    assert stable_argsort(keys).tolist() == sorted(range(1000), key=keys.__getitem__)
    assert ranked(keys, None).tolist() == sorted(range(1000), key=lambda at: -int(keys[at]))


@pytest.mark.parametrize(
    "keys", [[], [7], [-5, 3, -5], [2**31, 0, 1], [2**62, -(2**62), 2**62, 0], [2**40, 2**40 - 1]]
)
def test_keys_of_any_range_are_sorted(keys):
    found = stable_argsort(np.array(keys, dtype=np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


def test_a_seed_permutes_samples_of_one_length():
    lengths = np.array([2, 1, 2, 2, 1, 2] * 9)
    orders = {tuple(ranked(lengths, seed).tolist()) for seed in (None, 0, 1)}
    assert len(orders) == 3
    assert {tuple(lengths[list(order)].tolist()) for order in orders} == {(2,) * 36 + (1,) * 18}


def test_more_lengths_than_are_counted_at_once():
    lengths = np.random.default_rng(0).integers(0, 50, 600_000)
    histogram = Histogram.of(lengths)
    sizes, counts = np.unique(lengths, return_counts=True)
    assert histogram.sizes.tolist() == sizes.tolist()
    assert histogram.counts.tolist() == counts.tolist()
