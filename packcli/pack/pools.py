"""Several budgets at once: a fixed number of packs, all of which come out alike in each budget.

Packs are cut into pools, and samples, from much to little, go round the pools, so that each gets
the same mix. In its pool a sample goes to the pack that has the least of what it takes: the one
where high powers of all budgets' shares grow the least. Pools do not meet, so that all of
them take a sample at once, in one step of NumPy. What finds no room goes round again, through
pools of other packs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Demand = tuple[NDArray[np.integer], int]

_POOL = 96  # packs in a pool, about
_ROUNDS = 2  # times that a sample may go round
_POWER = 6  # of the share that a pack has: what a little more costs


def pooled(demands: list[Demand], order: NDArray[np.integer], packs: int) -> NDArray[np.int64]:
    """Give samples to packs.

    Args:
        demands: what each of n samples takes of each budget, and the budgets.
        order: (n,) sample numbers, from much to little.
        packs: how many there are.

    Returns:
        (n,) int64, by sample number: the pack, or -1 where no pack was found.
    """
    needs = [need.astype(np.int32) for need, _ in demands]
    rooms = [np.full(packs, budget, dtype=np.int32) for _, budget in demands]
    budgets = [budget for _, budget in demands]
    chosen = np.full(order.size, -1, dtype=np.int64)
    width = -(-packs // max(1, packs // _POOL))
    pools = -(-packs // width)
    for turn in range(_ROUNDS):
        numbers = np.full(pools * width, -1, dtype=np.int64)
        numbers[:packs] = np.arange(packs)
        # neighbours share a pool first, then packs that are a pool apart
        numbers = numbers.reshape(pools, width) if turn % 2 else numbers.reshape(width, pools).T
        left = order[chosen[order] < 0]
        _go_round(needs, budgets, rooms, (numbers, left, chosen))
    return chosen


def _go_round(
    needs: list[NDArray[np.int32]],
    budgets: list[int],
    rooms: list[NDArray[np.int32]],
    what: tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.int64]],
) -> None:
    """Take samples round the pools once; rooms and choices are changed.

    Args:
        needs: (n,) each.
        budgets: what a pack holds of each.
        rooms: (packs,) each, what packs have left.
        what: (pools, width) pack numbers, -1 for none; (m,) samples; (n,) their packs.
    """
    numbers, samples, chosen = what
    pools = len(numbers)
    free = [np.where(numbers < 0, np.int32(-1), room[numbers]) for room in rooms]
    grown = [_growth(room, budget) for room, budget in zip(free, budgets, strict=True)]
    for start in range(0, samples.size, pools):
        some = samples[start : start + pools][:: -1 if start // pools % 2 else 1]
        row = np.arange(some.size)
        taken = [need[some] for need in needs]
        fits = np.ones((some.size, numbers.shape[1]), dtype=bool)
        cost = np.zeros(fits.shape, dtype=np.float32)
        for need, budget, room, growth in zip(taken, budgets, free, grown, strict=True):
            fits &= room[: some.size] >= need[:, None]
            cost += growth[: some.size] * (need / np.float32(budget))[:, None].astype(np.float32)
        cost[~fits] = np.inf
        best = cost.argmin(axis=1)
        found = fits[row, best]
        row, best, some = row[found], best[found], some[found]
        chosen[some] = numbers[row, best]
        for need, budget, room, growth in zip(taken, budgets, free, grown, strict=True):
            room[row, best] -= need[found]
            growth[row, best] = _growth(room[row, best], budget)
    here = numbers >= 0
    for room, left in zip(rooms, free, strict=True):
        room[numbers[here]] = left[here]


def _growth(room: NDArray[np.int32], budget: int) -> NDArray[np.float32]:
    """Say what a little more of one budget costs where so much room is left."""
    return ((1 - room / budget) ** _POWER).astype(np.float32)
