"""Laws that every strategy keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import UsageError
from packcli.pack import strategies
from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan

STRATEGIES = strategies.names()
KEYS = (
    "capacity strategy samples rejected packs tokens lower_bound excess fill sum_sq_len_cv "
    "ranks imbalance least_imbalance seconds"
)


def test_the_shelf():
    assert STRATEGIES == ["binpack", "sequential"]
    with pytest.raises(UsageError, match="no strategy is called 'magic'"):
        make_plan([1], PlanOptions(strategy="magic"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    lengths=st.lists(st.integers(0, 30)),
    capacity=st.integers(1, 25),
    seed=st.none() | st.integers(0, 3),
    blocks=st.sampled_from([("none", 1), ("attention", 2), ("attention", 4)]),
)
@settings(max_examples=150, deadline=None)
def test_every_sample_is_placed_once_or_counted(strategy, lengths, capacity, seed, blocks):
    options = PlanOptions(capacity, strategy, seed=seed, balance=blocks[0], ranks=blocks[1])
    plan = make_plan(lengths, options)
    sizes = np.array(lengths, dtype=np.int64)
    everyone = np.concatenate([plan.order, plan.rejected, plan.zero])
    assert sorted(everyone.tolist()) == list(range(len(lengths)))
    assert np.all(sizes[plan.rejected] > capacity)
    assert np.all(sizes[plan.zero] == 0)
    assert plan.members.strict
    assert plan.members.total == plan.samples
    sums = [int(sizes[plan.order[part]].sum()) for part in plan.members.slices()]
    assert all(0 < total <= capacity for total in sums)
    assert sum(sums) == plan.tokens
    assert plan.lower_bound <= plan.packs
    again = make_plan(lengths, options)
    assert plan.order.tolist() == again.order.tolist()
    assert plan.members == again.members


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_sample_at_all(strategy):
    plan = make_plan([], PlanOptions(strategy=strategy, balance="attention", ranks=4))
    assert (plan.packs, plan.samples, plan.fill, plan.excess) == (0, 0, 0.0, 0)
    assert plan.sum_sq_len_cv == 0.0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("length", "capacity"), [(1, 1), (7, 7), (1, 8192), (70_000, 70_001)])
def test_one_sample(strategy, length, capacity):
    plan = make_plan([length], PlanOptions(capacity, strategy))
    assert plan.order.tolist() == [0]
    assert plan.members.values.tolist() == [0, 1]
    assert plan.fill == length / capacity


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_capacity_one(strategy):
    plan = make_plan([1, 0, 1, 2], PlanOptions(1, strategy))
    assert plan.order.tolist() == [0, 2]
    assert plan.members.values.tolist() == [0, 1, 2]
    assert (plan.zero.tolist(), plan.rejected.tolist()) == ([1], [3])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_over_long_is_rejected_never_cut(strategy):
    plan = make_plan([12, 4, 6], PlanOptions(10, strategy))
    assert plan.rejected.tolist() == [0]
    assert (plan.packs, plan.tokens) == (1, 10)
    assert plan.to_json()["rejected"] == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_partly_filled_last_pack_stays(strategy):
    plan = make_plan([9, 9, 9, 3], PlanOptions(10, strategy))
    assert (plan.packs, plan.tokens, plan.samples) == (4, 30, 4)


def test_summary():
    plan = make_plan([6, 5, 4, 3, 2, 10, 0, 11], PlanOptions(capacity=10))
    summary = json.loads(json.dumps(plan.to_json()))
    assert list(summary) == KEYS.split()
    assert summary.pop("seconds") > 0
    costs = np.array([100, 52, 38])
    assert summary.pop("sum_sq_len_cv") == pytest.approx(costs.std() / costs.mean(), rel=1e-12)
    assert list(summary.values()) == [10, "binpack", 6, 2, 3, 30, 3, 0, 1.0, 1, 1.0, 1.0]


def test_lengths_may_be_of_any_whole_type():
    lengths = [6, 5, 4, 3, 2, 10]
    plans = [
        make_plan(np.array(lengths, dtype=dtype), PlanOptions(capacity=10))
        for dtype in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
    ]
    assert {tuple(plan.order.tolist()) for plan in plans} == {(5, 0, 2, 1, 3, 4)}
    assert {plan.sum_sq_len_cv for plan in plans} == {plans[0].sum_sq_len_cv}


@pytest.mark.parametrize(
    ("lengths", "more", "error"),
    [
        ([1.5], {}, "whole numbers"),
        ([[1]], {}, "whole numbers"),
        ([-1], {}, "must be >= 0"),
        ([1, 2], {"images": [0]}, "images has 1 values for 2 samples"),
    ],
)
def test_columns_that_are_no_columns(lengths, more, error):
    with pytest.raises(ValueError, match=error):
        make_plan(lengths, **more)


@pytest.mark.parametrize(
    "options",
    [
        {name: 0}
        for name in ("capacity", "max_samples", "ranks", "open_packs", "quality", "balance")
    ],
)
def test_options_that_no_plan_can_keep(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        PlanOptions(**options)


@pytest.mark.parametrize("options", [{"balance": "attention"}, {"ranks": 4}])
def test_balance_and_ranks_go_together(options):
    with pytest.raises(UsageError, match="balance and ranks go together: give --balance"):
        PlanOptions(**options)


def test_the_imbalance_of_steps_is_told():
    # steps of 2 packs: 10 and 10, 6 and 4 tokens; 100 + 36 squares over 100 + 26
    plan = make_plan([4, 10, 6, 10], PlanOptions(10, balance="attention", ranks=2, max_samples=1))
    assert plan.imbalance == plan.to_json()["imbalance"] == 136 / 126
    assert make_plan([4, 10], PlanOptions(10)).imbalance == 1.0
    patches = PlanOptions(10, balance="vision", ranks=2, max_samples=1)
    assert make_plan([9, 9], patches, patches=[12, 4]).imbalance == 12 / 8


@pytest.mark.parametrize(
    "options", [{"max_images": 2}, {"max_patches": 2}, {"balance": "vision", "ranks": 2}]
)
def test_an_option_whose_column_is_missing(options):
    with pytest.raises(UsageError, match="plan an encoded dataset"):
        make_plan([1, 2], PlanOptions(**options))


def test_neither_hash_seed_nor_heavy_imports_matter(root):
    script = (
        "import sys, numpy as np\n"
        "from packcli.pack.options import PlanOptions\n"
        "from packcli.pack.plan import make_plan\n"
        "lengths = np.random.default_rng(0).integers(1, 900, 3000)\n"
        "plan = make_plan(lengths, PlanOptions(1000, seed=4, balance='attention', ranks=4))\n"
        "assert not {'torch', 'scipy', 'pyarrow', 'transformers'} & set(sys.modules)\n"
        "print(plan.order.tolist(), plan.members.values.tolist())\n"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outs) == 1
