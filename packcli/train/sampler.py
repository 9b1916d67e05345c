"""Batches of near-equal cost on all ranks of a step."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import UsageError
from packcli.train.order import even_batches, sums, token_batches
from packcli.train.ranks import Ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.train.dataset import PackDataset


class CostBatchSampler:
    """Batches for ``DataLoader(dataset, batch_sampler=…)``, dear steps and cheap ones apart.

    All ranks wait for the slowest one, so the batches of one step are neighbours in cost. Steps
    come in random order, and so do the ranks inside a step. Every pack is in one batch, except
    that a last step with fewer batches than ranks gives the cheapest ones twice (`drop_last`:
    to nobody), as torch's DistributedSampler does.

    Args:
        dataset: the packs.
        batch_size: packs in a batch; ignored with `max_tokens`.
        max_tokens: tokens in a batch, at most: for encoded samples that were not packed.
        cost: what costs: ``attention`` (sum of squared sample lengths), ``vision`` (ViT
            patches), or (packs,) numbers of your own.
        ranks: this process and all of them; None asks torch.distributed or the environment.
        seed: of the shuffle.
        drop_last: leave out an incomplete last step.
    """

    def __init__(  # noqa: PLR0913 - options of a sampler, all but the first by name
        self,
        dataset: PackDataset,
        *,
        batch_size: int = 1,
        max_tokens: int | None = None,
        cost: str | NDArray[np.number] = "attention",
        ranks: tuple[int, int] | None = None,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self._lengths = dataset.lengths() if max_tokens is not None else None
        self._costs = _costs(dataset, cost)
        self._size = batch_size
        self._most = max_tokens
        self._ranks = Ranks.given(ranks)
        self._seed = seed
        self._drop = drop_last
        self._epoch = 0
        if min(batch_size, 1 if max_tokens is None else max_tokens) < 1:
            raise UsageError("batch_size and max_tokens are at least 1")

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle of the next pass, as torch's samplers do."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of this rank in the coming epoch."""
        return len(self._plan())

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this rank's batches: pack numbers."""
        return iter(self._plan())

    def _plan(self) -> list[list[int]]:
        rng = np.random.default_rng([self._seed, self._epoch])
        # batches of several packs are drawn from neighbours in cost too, as the step is
        order = rng.permutation(self._costs.size)
        if self._lengths is None:
            order = order[np.argsort(-self._costs[order], kind="stable")]
            bounds = even_batches(order.size, self._size)
        else:
            assert self._most is not None  # noqa: S101 - lengths are read only for max_tokens
            bounds = token_batches(self._lengths[order], self._most)
        costs = sums(self._costs[order], bounds)
        batches = [order[start:stop].tolist() for start, stop in pairwise(bounds)]
        steps = self._steps(costs, rng)
        return [batches[number] for number in steps[:, self._ranks.rank].tolist()]

    def _steps(self, costs: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """(steps, ranks) int64, the batch of each rank in each step."""
        count = self._ranks.count
        falling = np.argsort(-costs, kind="stable")
        full, rest = divmod(falling.size, count)
        if rest and not self._drop:
            missing = np.resize(falling[::-1], count - rest)
            falling, full = np.concatenate([falling, missing]), full + 1
        steps = falling[: full * count].reshape(full, count)
        return rng.permuted(steps, axis=1)[rng.permutation(full)]


def _costs(dataset: PackDataset, cost: str | NDArray[np.number]) -> NDArray[np.int64]:
    if not isinstance(cost, str):
        if cost.shape != (len(dataset),):
            raise UsageError(f"cost has shape {cost.shape}, the dataset {len(dataset)} packs")
        return cost.astype(np.int64)
    if cost not in {"attention", "vision"}:
        raise UsageError(f"cost is {cost!r}; give attention, vision or one number a pack")
    return dataset.costs() if cost == "attention" else dataset.patches()
