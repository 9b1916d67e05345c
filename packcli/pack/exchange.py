"""Exchanging: in plans of few packs, samples change packs while that lets the ranks wait less.

Among thousands of packs some are alike in cost, whatever they hold; among a few dozen each has to
be made so. The dearest pack of a step and a cheaper one share their samples anew, or exchange two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Waits = Callable[[NDArray[np.int64]], float]
    Pair = tuple[NDArray[np.integer], NDArray[np.integer]]

MOST_PACKS = 256
"""Packs of a plan that is worth it; more of them find their like."""

_MOST_MEMBERS = 1024  # samples of two packs that are shared anew
_LONGEST = 64  # samples of a pack that are tried for an exchange, the dearest ones
_PARTNERS = 6  # cheaper packs that are tried for one
_ROUNDS = 4  # exchanges, for each pack
_GAIN = 2e-3  # of the waiting, what an exchange saves at least


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What samples cost and take.

    Attributes:
        costs: (n,) int64, by sample number, what a step's packs are to have alike.
        needs: (budgets, n) int64, what each takes of every budget.
        most: (budgets,) int64, what a pack may take.
        step: packs in a step.
    """

    costs: NDArray[np.int64]
    needs: NDArray[np.int64]
    most: NDArray[np.int64]
    step: int


def exchanged(plan: Arrangement, load: Load, waits: Waits, enough: float) -> Arrangement:
    """Exchange samples between packs of a plan, as many times as it helps.

    Args:
        plan: keeps every budget.
        load: of its samples.
        waits: tells from packs' costs, falling, the time of all steps over that of equal shares.
        enough: such a time at which nothing more is tried.
    """
    packs = np.split(plan.order, np.cumsum(plan.counts)[:-1])
    costs = plan.totals(load.costs)
    now = waits(np.sort(costs)[::-1])
    for _ in range(_ROUNDS * len(packs)):
        if now <= enough:
            break
        found = _better(packs, costs, load, lambda after: waits(np.sort(after)[::-1]), now)
        if found is None:
            break
        for place, members in found.items():
            packs[place], costs[place] = members, load.costs[members].sum()
        now = waits(np.sort(costs)[::-1])
    counts = np.array([members.size for members in packs], dtype=np.int64)
    return Arrangement(np.concatenate(packs), counts)


def _better(
    packs: list[NDArray[np.integer]], costs: NDArray[np.int64], load: Load, waits: Waits, now: float
) -> dict[int, NDArray[np.integer]] | None:
    """Find what two packs hold after an exchange that helps, by pack."""
    order = np.argsort(-costs, kind="stable").tolist()
    below = now - _GAIN * (now - 1)
    for place in range(0, len(order) - 1, load.step):
        dear, cheaper = order[place], order[place + 1 :]
        for cheap in dict.fromkeys([*cheaper[: -_PARTNERS - 1 : -1], *cheaper[:_PARTNERS]]):
            for pair in _pairs(packs[dear], packs[cheap], load):
                after = costs.copy()
                after[[dear, cheap]] = [load.costs[members].sum() for members in pair]
                if waits(after) < below:
                    return dict(zip((dear, cheap), pair, strict=True))
    return None


def _pairs(one: NDArray[np.integer], other: NDArray[np.integer], load: Load) -> Iterator[Pair]:
    """Yield what two packs may hold instead, more even in cost."""
    members = np.concatenate([one, other])
    if members.size <= _MOST_MEMBERS and (pair := _shared(members, load)) is not None:
        yield pair
    if (pair := _swapped(one, other, load)) is not None:
        yield pair


def _shared(members: NDArray[np.integer], load: Load) -> Pair | None:
    """Deal samples to two packs, dear ones first, each to the cheaper pack that has room for it."""
    members = members[np.argsort(-load.costs[members], kind="stable")]
    sides, rooms, spent = ([], []), [load.most.copy() for _ in range(2)], [0, 0]
    for sample in members.tolist():
        need = load.needs[:, sample]
        cheaper = int(spent[1] < spent[0])
        side = next((s for s in (cheaper, 1 - cheaper) if (need <= rooms[s]).all()), None)
        if side is None:
            return None
        sides[side].append(sample)
        rooms[side] -= need
        spent[side] += int(load.costs[sample])
    if not all(sides):
        return None
    first, second = (np.array(side, dtype=members.dtype) for side in sides)
    return first, second


def _swapped(one: NDArray[np.integer], other: NDArray[np.integer], load: Load) -> Pair | None:
    """Exchange the two samples that bring the costs of two packs closest together."""
    mine, yours = (
        side[np.argsort(-load.costs[side], kind="stable")[:_LONGEST]] for side in (one, other)
    )
    apart = int(load.costs[one].sum() - load.costs[other].sum())
    moved = load.costs[mine][:, None] - load.costs[yours]
    needs = load.needs[:, mine][:, :, None] - load.needs[:, yours][:, None]
    room = [(load.most - load.needs[:, side].sum(axis=1))[:, None, None] for side in (one, other)]
    fits = ((needs <= room[1]) & (-needs <= room[0])).all(axis=0)
    left = np.where(fits, np.abs(apart - 2 * moved), np.iinfo(np.int64).max)
    give, take = np.unravel_index(int(left.argmin()), left.shape)
    if left[give, take] >= abs(apart):
        return None
    return (
        np.append(one[one != mine[give]], yours[take]),
        np.append(other[other != yours[take]], mine[give]),
    )
