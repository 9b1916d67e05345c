"""Plans of more samples than a window holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.balance import step_imbalance
from packcli.pack.options import PlanOptions, Samples
from packcli.pack.plan import make_plan
from packcli.pack.windows import Chunk, cut_packs, in_order, plan_windows


def lognormal(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(np.log(600), 1, count)).clip(8, 8192).astype(np.int32)


def windows_of(lengths, options, window, group=50):
    samples = Samples(np.asarray(lengths, dtype=np.int32))
    groups = [min(group, len(samples) - start) for start in range(0, len(samples), group)]
    return plan_windows(samples, in_order(samples, groups), options, window)[0]


def totals_of(chunks, values):
    return np.concatenate(
        [
            np.add.reduceat(values[chunk.order], np.cumsum(chunk.counts) - chunk.counts)
            for chunk in chunks
            if chunk.counts.size
        ]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 120), max_size=60),
    st.integers(1, 400),
    st.sampled_from(["binpack", "sequential"]),
    st.sampled_from([(1, "none"), (3, "attention")]),
)
def test_every_sample_is_in_one_pack_or_left_out(lengths, window, strategy, blocks):
    options = PlanOptions(100, strategy, ranks=blocks[0], balance=blocks[1])
    chunks = windows_of(lengths, options, window, group=7)
    placed = [number for chunk in chunks for number in chunk.order.tolist()]
    left = [number for chunk in chunks for number in chunk.left.tolist()]
    assert sorted(placed + left) == list(range(len(lengths)))
    assert all(not 0 < lengths[number] <= 100 for number in left)
    if placed:
        assert totals_of(chunks, np.array(lengths)).max() <= 100


def test_windows_lose_almost_no_fill():
    lengths = lognormal(40_000)
    whole = make_plan(lengths, PlanOptions(8192)).packs
    chunks = windows_of(lengths, PlanOptions(8192), 2**21)
    assert len(chunks) > 15
    assert sum(chunk.counts.size for chunk in chunks) - whole <= 5


def test_in_order_means_in_order_over_windows():
    lengths = lognormal(3000)
    options = PlanOptions(8192, "sequential")
    chunks = windows_of(lengths, options, 100_000)
    assert len(chunks) > 10
    assert np.concatenate([chunk.order for chunk in chunks]).tolist() == list(range(3000))
    whole = make_plan(lengths, options)
    counts = np.concatenate([chunk.counts for chunk in chunks])
    assert counts.tolist() == whole.members.lengths.tolist()


def test_blocks_of_equal_cost_do_not_shift_behind_a_window():
    lengths = lognormal(40_000)
    options = PlanOptions(8192, balance="attention", ranks=8)
    chunks = windows_of(lengths, options, 2**22)
    assert len(chunks) > 5
    assert all(chunk.counts.size % 8 == 0 for chunk in chunks[:-1])
    costs = totals_of(chunks, lengths.astype(np.int64) ** 2)
    assert step_imbalance(costs, 8) < 1.05
    assert step_imbalance(costs[1:], 8) > 1.2  # the test has teeth: shifted by one it is bad


def test_a_window_without_a_whole_block_waits_for_more():
    chunks = windows_of([60] * 10, PlanOptions(100, balance="attention", ranks=4), 1, group=1)
    assert [chunk.counts.size for chunk in chunks] == [4, 4, 2]


def test_a_window_without_anything_to_place_leaves_no_trace():
    assert windows_of([], PlanOptions(10), 5) == []
    (chunk,) = windows_of([0, 11], PlanOptions(10), 100)
    assert (chunk.counts.size, chunk.left.tolist()) == (0, [0, 1])


@pytest.mark.parametrize(
    ("most", "expected"), [(10, [[0, 1], [2]]), (1, [[0], [1], [2]]), (100, [[0, 1, 2]])]
)
def test_finished_plans_are_cut_between_packs(most, expected):
    order, counts = np.array([0, 1, 2, 3]), np.array([1, 2, 1])
    chunks = cut_packs(order, counts, np.array([5, 5, 5]), most)
    members = np.split(order, np.cumsum(counts)[:-1])
    cut = [np.concatenate([members[pack] for pack in packs]).tolist() for packs in expected]
    assert [chunk.order.tolist() for chunk in chunks] == cut
    assert [chunk.counts.size for chunk in chunks] == [len(packs) for packs in expected]
    assert all(isinstance(chunk, Chunk) for chunk in chunks)
