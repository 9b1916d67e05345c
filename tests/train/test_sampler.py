from __future__ import annotations

import numpy as np
import pytest

from packcli.contract.errors import UsageError
from packcli.train import CostBatchSampler, PackDataset


def _all(dataset, ranks, **options):
    return [
        list(CostBatchSampler(dataset, ranks=(rank, ranks), **options)) for rank in range(ranks)
    ]


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"max_tokens": 90}])
def test_one_rank_sees_every_pack_once(many, options):
    dataset = PackDataset(many)
    (batches,) = _all(dataset, 1, **options)
    assert sorted(number for batch in batches for number in batch) == list(range(101))
    assert len(batches) == len(CostBatchSampler(dataset, ranks=(0, 1), **options))


def test_max_tokens_is_kept(many):
    dataset = PackDataset(many)
    lengths = dataset.lengths()
    (batches,) = _all(dataset, 1, max_tokens=90)
    assert max(int(lengths[batch].sum()) for batch in batches) <= 90
    # next fit leaves less than one sample free, so few batches suffice
    assert len(batches) <= 2 * -(-int(lengths.sum()) // 90)


def test_ranks_step_together_and_only_the_cheapest_repeat(many):
    dataset = PackDataset(many)
    costs = dataset.costs()
    ranks = _all(dataset, 4)
    assert [len(batches) for batches in ranks] == [26] * 4
    seen = np.bincount([n for batches in ranks for batch in batches for n in batch])
    assert seen.sum() == 104
    assert np.all(seen >= 1)
    assert costs[seen == 2].max() <= np.sort(costs)[2]


def test_drop_last_drops_less_than_a_step(many):
    ranks = _all(PackDataset(many), 4, drop_last=True)
    numbers = [n for batches in ranks for batch in batches for n in batch]
    assert len(numbers) == len(set(numbers)) == 100


def test_steps_are_of_near_equal_cost(many):
    dataset = PackDataset(many)
    costs = dataset.costs()
    ranks = np.array(_all(dataset, 4, drop_last=True))[:, :, 0]
    dearest = costs[ranks].max(axis=0).sum()
    even = costs[ranks].sum() / 4
    rows = np.random.default_rng(0).permutation(101)[:100].reshape(4, 25)
    assert dearest / even < 1.1 < costs[rows].max(axis=0).sum() / (costs[rows].sum() / 4)


def test_epochs_differ_and_repeat(many):
    sampler = CostBatchSampler(PackDataset(many), ranks=(0, 2))
    first = list(sampler)
    assert first == list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)


def test_own_costs_and_refusals(many):
    dataset = PackDataset(many)
    (batches,) = _all(dataset, 1, cost=np.arange(101), batch_size=101)
    assert sorted(batches[0]) == list(range(101))
    with pytest.raises(UsageError, match="shape"):
        CostBatchSampler(dataset, ranks=(0, 1), cost=np.arange(3))
    with pytest.raises(UsageError, match="length"):
        CostBatchSampler(dataset, ranks=(0, 1), cost="length")
    with pytest.raises(UsageError, match="rank 2 of 2"):
        CostBatchSampler(dataset, ranks=(2, 2))
    with pytest.raises(UsageError, match="at least 1"):
        CostBatchSampler(dataset, ranks=(0, 1), batch_size=0)


def test_ranks_come_from_the_environment(many, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    dataset = PackDataset(many)
    assert list(CostBatchSampler(dataset)) == _all(dataset, 4)[1]


def test_vision_costs_are_patches(made):
    dataset = PackDataset(made("qwen3_vl").encoded)
    patches = dataset.patches()
    batches = list(CostBatchSampler(dataset, ranks=(0, 1), cost="vision", batch_size=4))
    spread = [int(np.ptp(patches[batch])) for batch in batches]
    assert sum(spread) < sum(int(np.ptp(patches[n : n + 4])) for n in range(0, len(dataset), 4))
