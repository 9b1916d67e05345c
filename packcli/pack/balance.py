"""Blocks of R packs of equal cost: the ranks of a training step finish together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.deal import deal_to

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import Arrangement, PlanOptions, Samples

    Costs = NDArray[np.integer] | NDArray[np.floating]


def in_blocks(costs: Costs, ranks: int, seed: int) -> NDArray[np.int64]:
    """Order packs so that each step of `ranks` packs is homogeneous in cost.

    Packs sorted by cost are cut into blocks of neighbours, which minimises the sum of the
    blocks' maxima for given packs; blocks, and packs inside a block, are then shuffled. What
    does not fill a block, the cheapest packs, stays last, so that steps stay aligned and a
    trainer that drops an incomplete step loses the least.

    Args:
        costs: (packs,) numbers, the cost of each pack.
        ranks: packs in a block.
        seed: the seed of the shuffle.

    Returns:
        (packs,) int64, pack numbers in training order.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(-costs, kind="stable")
    full = costs.size // ranks
    blocks = order[: full * ranks].reshape(full, ranks)
    blocks = rng.permuted(blocks, axis=1)[rng.permutation(full)]
    return np.concatenate([blocks.reshape(-1), order[full * ranks :]])


def step_imbalance(costs: Costs, ranks: int) -> float:
    """Time of all steps, each as long as its dearest pack, over the time of equal shares.

    The last step may be incomplete: its packs count like those of any other step, and the ranks
    that have none do not.

    Args:
        costs: (packs,) numbers, in training order.
        ranks: packs in a step.
    """
    starts = np.arange(0, costs.size, ranks)
    if not costs.sum():
        return 1.0
    held = np.diff(np.append(starts, costs.size))
    shares = np.add.reduceat(costs, starts) / held
    return float(np.maximum.reduceat(costs, starts).sum() / shares.sum())


def evened(
    arrangement: Arrangement,
    samples: Samples,
    ranks: NDArray[np.integer],
    options: PlanOptions,
) -> Arrangement:
    """Deal samples to as many packs, if all budgets are kept and the ranks wait less.

    Dealt packs are alike, those of best fit hold samples of one length: their attention costs
    differ by as much as the lengths do. No order of packs makes up for a few that cost most.

    Args:
        arrangement: a plan.
        samples: what it places.
        ranks: (n,) sample numbers, from long to short.
        options: budgets, and how many packs make a step.
    """
    lengths = samples.lengths[ranks].astype(np.int64)
    most = options.max_samples or len(samples)
    found = deal_to(arrangement.counts.size, ranks, lengths, (options.capacity, most))
    if found is None or found.counts.size > arrangement.counts.size:
        return arrangement
    if not all(found.keeps(need, budget) for need, budget in samples.demands(options)[1:]):
        return arrangement

    def imbalance(plan: Arrangement) -> float:
        return step_imbalance(np.sort(plan.squares(samples.lengths))[::-1], options.ranks)

    return min(arrangement, found, key=imbalance)
