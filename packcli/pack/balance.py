"""Blocks of R packs of equal cost: the ranks of a training step finish together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def in_blocks(
    costs: NDArray[np.integer] | NDArray[np.floating], ranks: int, seed: int
) -> NDArray[np.int64]:
    """Order packs so that each step of `ranks` packs is homogeneous in cost.

    Packs sorted by cost are cut into blocks of neighbours, which minimises the sum of the
    blocks' maxima for given packs; blocks, and packs inside a block, are then shuffled. A block
    that is not full holds the cheapest packs and stays last, so that steps stay aligned.

    Args:
        costs: (packs,) numbers, the cost of each pack.
        ranks: packs in a block.
        seed: the seed of the shuffle.

    Returns:
        (packs,) int64, pack numbers in training order.
    """
    falling = np.argsort(-costs, kind="stable")
    full = costs.size // ranks
    rng = np.random.default_rng(seed)
    blocks = falling[: full * ranks].reshape(full, ranks)
    blocks = rng.permuted(blocks, axis=1)[rng.permutation(full)]
    return np.concatenate([blocks.reshape(-1), falling[full * ranks :]])


def step_imbalance(costs: NDArray[np.integer] | NDArray[np.floating], ranks: int) -> float:
    """Time of all steps, each as long as its dearest pack, over the time of equal shares.

    Args:
        costs: (packs,) numbers, in training order.
        ranks: packs in a step.
    """
    if costs.size == 0:
        return 1.0
    dearest = np.maximum.reduceat(costs, np.arange(0, costs.size, ranks))
    return float(dearest.sum() / (costs.sum() / ranks))
