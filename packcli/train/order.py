"""Which packs a rank sees, in which order, and how they are cut into batches: numbers alone."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.offsets import Offsets


def rank_share(total: int, rank: int, ranks: int, *, equal: bool = False) -> slice:
    """Cut `total` packs into shares that differ by at most one pack; `equal` drops the rest."""
    if equal:
        each = total // ranks
        return slice(rank * each, (rank + 1) * each)
    return slice(rank * total // ranks, (rank + 1) * total // ranks)


def epoch_order(
    groups: Offsets, share: slice, seed: tuple[int, ...], shuffled_groups: int
) -> NDArray[np.int64]:
    """Order a rank's packs for one epoch.

    Row groups are permuted, the rank takes its share of the rows in that order, and rows are
    permuted inside runs of `shuffled_groups` row groups: never more of them need be decoded.

    Args:
        groups: one segment of rows for each row group.
        share: the rank's places in the permuted order.
        seed: equal seeds give equal orders; all ranks use one, or their shares overlap.
        shuffled_groups: row groups in a run; 0 keeps the order of the files.

    Returns:
        (share,) int64, row numbers.
    """
    if shuffled_groups == 0:
        return np.arange(groups.total, dtype=np.int64)[share]
    rng = np.random.default_rng(seed)
    turn = rng.permutation(len(groups))
    rows = groups.gather(turn)[share]
    group = groups.take(turn).segment_ids()[share].astype(np.int64)
    if not rows.size:
        return rows
    run = (group - group[0]) // shuffled_groups
    keys = np.random.default_rng([*seed, share.start]).random(rows.size)
    return rows[np.lexsort((keys, run))]


def token_batches(lengths: NDArray[np.integer], most: int) -> list[int]:
    """Cut consecutive packs into batches of at most `most` tokens; one too long stands alone.

    Args:
        lengths: (n,) integers, tokens of each pack in order.
        most: tokens in a batch.

    Returns:
        Bounds of the batches: 0, …, n.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    bounds, taken = [0], 0
    while bounds[-1] < ends.size:
        cut = int(np.searchsorted(ends, taken + most, side="right"))
        bounds.append(max(cut, bounds[-1] + 1))
        taken = int(ends[bounds[-1] - 1])
    return bounds


def even_batches(count: int, size: int) -> list[int]:
    """Cut `count` packs into batches of `size`, the last one smaller; bounds 0, …, count."""
    return [*range(0, count, size), count] if count else [0]


def sums(values: NDArray[np.integer], bounds: list[int]) -> NDArray[np.int64]:
    """(batches,) int64, the sum of the values in each batch."""
    running = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    return np.array([running[stop] - running[start] for start, stop in pairwise(bounds)], np.int64)
