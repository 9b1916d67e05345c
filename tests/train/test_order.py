from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.offsets import Offsets
from packcli.train.order import epoch_order, even_batches, rank_share, sums, token_batches

GROUPS = st.lists(st.integers(1, 9), min_size=1, max_size=30)


@settings(max_examples=100)
@given(GROUPS, st.integers(1, 7), st.integers(0, 40), st.integers(0, 5))
def test_ranks_share_every_row_once(sizes, ranks, seed, shuffled):
    groups = Offsets.from_lengths(sizes)
    shares = [rank_share(groups.total, rank, ranks) for rank in range(ranks)]
    orders = [epoch_order(groups, share, (seed, 0), shuffled) for share in shares]
    assert sorted(np.concatenate(orders).tolist()) == list(range(groups.total))
    assert max(map(len, orders)) - min(map(len, orders)) <= 1


@settings(max_examples=100)
@given(GROUPS, st.integers(0, 40), st.integers(1, 5))
def test_rows_stay_in_their_run_of_groups(sizes, seed, shuffled):
    groups = Offsets.from_lengths(sizes)
    order = epoch_order(groups, slice(0, groups.total), (seed, 1), shuffled)
    group = groups.segment_ids()[order]
    turn = np.random.default_rng((seed, 1)).permutation(len(groups))
    place = np.argsort(turn)[group] // shuffled
    assert np.all(np.diff(place) >= 0)


def test_equal_shares_drop_less_than_one_a_rank():
    shares = [rank_share(10, rank, 4, equal=True) for rank in range(4)]
    assert [share.stop - share.start for share in shares] == [2, 2, 2, 2]
    assert shares[3].stop == 8


def test_epochs_and_seeds_differ_and_repeat():
    groups = Offsets.from_lengths([4] * 10)
    whole = slice(0, 40)
    first = epoch_order(groups, whole, (0, 0), 4).tolist()
    assert first == epoch_order(groups, whole, (0, 0), 4).tolist()
    assert first != epoch_order(groups, whole, (0, 1), 4).tolist()
    assert first != epoch_order(groups, whole, (1, 0), 4).tolist()
    assert epoch_order(groups, whole, (0, 0), 0).tolist() == list(range(40))


@settings(max_examples=100)
@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 60))
def test_token_batches_keep_the_budget(lengths, most):
    bounds = token_batches(np.array(lengths, dtype=np.int64), most)
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    for start, stop in pairwise(bounds):
        assert stop == start + 1 or sum(lengths[start:stop]) <= most
        assert stop == len(lengths) or sum(lengths[start : stop + 1]) > most


def test_even_batches_and_sums():
    assert even_batches(5, 2) == [0, 2, 4, 5]
    assert even_batches(4, 2) == [0, 2, 4]
    assert even_batches(0, 2) == [0]
    assert sums(np.array([1, 2, 3, 4, 5]), [0, 2, 4, 5]).tolist() == [3, 7, 5]
