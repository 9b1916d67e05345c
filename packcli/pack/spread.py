"""Spreading: a fixed number of packs, long samples dealt so that attention costs come out even.

Attention costs what the squares of lengths add up to, and long samples make nearly all of it: they
are dealt first, each to a pack that costs the least so far. Short ones fill the packs up by best
fit. A sample that costs more than a whole pack should cannot be evened out: the step that it is in
waits for it, so other long samples had best share that step. Such steps' packs are filled first,
densely.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import isqrt
from operator import neg
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.best_fit import best_fit
from packcli.pack.histogram import Histogram, stable_argsort
from packcli.pack.options import Arrangement
from packcli.pack.runs import Runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions

_SHARE = 8  # one of so many packs, those that cost least, are served at once
_FEW = 64  # packs that are always served at once


class _Packs:
    """Packs under way.

    Attributes:
        of: (m,) int64, the pack of each of the m longest samples, -1 for none yet.
        room: (packs,) int64, tokens.
        cost: (packs,) int64, tokens squared.
        held: (packs,) int64, samples.
    """

    def __init__(self, lengths: NDArray[np.int64], large: int, packs: int, capacity: int) -> None:
        self._lengths = lengths
        self.of = np.full(large, -1, dtype=np.int64)
        self.room = np.full(packs, capacity, dtype=np.int64)
        self.cost = np.zeros(packs, dtype=np.int64)
        self.held = np.zeros(packs, dtype=np.int64)

    def put(self, samples: NDArray[np.intp], packs: NDArray[np.int64]) -> None:
        """Add samples to different packs, one each."""
        self.of[samples] = packs
        self.room[packs] -= self._lengths[samples]
        self.cost[packs] += self._lengths[samples] ** 2
        self.held[packs] += 1

    def dense(self, packs: NDArray[np.int64], least: int) -> None:
        """Begin packs with the longest samples, and add long ones up to the cost of the first.

        Args:
            packs: numbers of empty packs.
            least: tokens squared, a cost that they may all reach.
        """
        waiting = np.flatnonzero(self.of < 0)
        packs = packs[: waiting.size]
        self.put(waiting[: packs.size], packs)
        most = max(least, int(self.cost[packs].max(initial=0)))
        sizes = self._lengths[waiting].tolist()
        free = sorted((self._takes(pack, most), pack) for pack in packs.tolist())
        at = packs.size
        while free and (at := bisect_left(sizes, -free[-1][0], at, key=neg)) < len(sizes):
            pack = free.pop(bisect_left(free, (sizes[at], -1)))[1]
            self.put(waiting[at : at + 1], np.array([pack]))
            insort(free, (self._takes(pack, most), pack))
            at += 1

    def _takes(self, pack: int, most: int) -> int:
        """Return the longest sample that a pack takes, within its room and a cost."""
        return min(int(self.room[pack]), isqrt(most - int(self.cost[pack])))

    def even(self, packs: NDArray[np.int64]) -> None:
        """Deal what is left, long samples first, to the packs that cost the least."""
        waiting, at = np.flatnonzero(self.of < 0), 0
        served = max(min(packs.size, _FEW), packs.size // _SHARE)
        while at < waiting.size and packs.size:
            samples = waiting[at : at + served]
            cheap = packs[np.argsort(self.cost[packs], kind="stable")[: samples.size]]
            fits = self._lengths[samples] <= self.room[cheap]
            self.put(samples[fits], cheap[fits])
            at += served


def spread_to(
    packs: int,
    how: tuple[int, float],
    ranks: NDArray[np.integer],
    lengths: NDArray[np.int64],
    options: PlanOptions,
) -> Arrangement:
    """Spread samples over a number of packs at most, and over more where they do not fit.

    Args:
        packs: 1 to n.
        how: packs that are filled first, densely, those of one step after the other; and the share
            of all tokens, in the longest samples, that is dealt by cost.
        ranks: (n,) sample numbers, from long to short.
        lengths: (n,) tokens, of the samples in that order.
        options: the capacity, and how many packs make a step.
    """
    heavy, share = how
    running = np.cumsum(lengths)
    large = max(packs, int(np.searchsorted(running, share * running[-1])))
    begun = _Packs(lengths, large, packs, options.capacity)
    numbers, mean = np.arange(packs), int(lengths @ lengths) // packs
    for first in range(0, heavy, options.ranks):
        begun.dense(numbers[first : first + options.ranks], mean)
    begun.even(numbers[heavy:])
    placed = np.flatnonzero(begun.of >= 0)
    rest = np.concatenate([np.flatnonzero(begun.of < 0), np.arange(large, lengths.size)])
    filled = best_fit(Histogram.of(lengths[rest]), options.capacity, (begun.room, begun.held))
    table = np.concatenate([_singly(begun.of[placed], lengths[placed]), filled.table])
    plan = Runs(table, filled.packs).expand(ranks[np.concatenate([placed, rest])])
    return Arrangement(plan.order, plan.counts[plan.counts > 0])


def _singly(packs: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give a run to each of (m,) samples; those of one pack stand in their order."""
    order = stable_argsort(packs)
    counts = np.bincount(packs)
    held = np.empty_like(packs)
    held[order] = np.arange(packs.size) - np.repeat(np.cumsum(counts) - counts, counts)
    ones = np.ones_like(packs)
    return np.stack([packs, ones, ones, held, lengths], axis=1)
