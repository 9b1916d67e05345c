"""Blocks of R packs of equal cost: the ranks of a training step finish together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.integer] | NDArray[np.floating]

_GAIN = 0.01  # of all steps' time, for which the dearest packs become the incomplete block


def in_blocks(costs: Costs, ranks: int, seed: int) -> NDArray[np.int64]:
    """Order packs so that each step of `ranks` packs is homogeneous in cost.

    Packs sorted by cost are cut into blocks of neighbours, which minimises the sum of the
    blocks' maxima for given packs; blocks, and packs inside a block, are then shuffled. What
    does not fill a block stays last, so that steps stay aligned: the cheapest packs, or the
    dearest where these are outliers that would make a whole block wait.

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
    spare = costs.size - full * ranks
    dearest_last = np.roll(order, -spare)
    cheap, dear = (step_imbalance(costs[cut], ranks) for cut in (order, dearest_last))
    if dear < cheap - _GAIN:
        order = dearest_last
    blocks = order[: full * ranks].reshape(full, ranks)
    blocks = rng.permuted(blocks, axis=1)[rng.permutation(full)]
    return np.concatenate([blocks.reshape(-1), order[full * ranks :]])


def step_imbalance(costs: Costs, ranks: int) -> float:
    """Time of all full steps, each as long as its dearest pack, over the time of equal shares.

    Args:
        costs: (packs,) numbers, in training order.
        ranks: packs in a step.
    """
    steps = costs[: costs.size // ranks * ranks].reshape(-1, ranks)
    if not steps.sum():
        return 1.0
    return float(steps.max(axis=1).sum() / steps.sum() * ranks)
