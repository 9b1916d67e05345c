"""Packs limited by samples, images and patches besides tokens: the best of several plans.

Best fit on tokens alone leaves what is scarce for the end: packs full of images, or of tiny
samples. Dealing to as many packs as the bound says mends that, but leaves out some samples where a
pack holds few. Those, or all, are filled into packs one after the other: a pack begins with the
longest sample, and each next one is of the kind that best matches what the pack still has to take
for the rest to keep its mix (the dot product of Panigrahy et al. 2011, against the mix of the
samples left instead of the room).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, groupby
from operator import le, mul
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.deal import dealt
from packcli.pack.histogram import stable_argsort
from packcli.pack.levels import by_levels, scarce_first, together
from packcli.pack.options import Arrangement
from packcli.pack.pools import pooled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions, Samples

_TRIES = 6  # sizes looked at before a kind is given up
_ENOUGH = 0.01  # excess over the bound below which no further method is tried
_FAIR = 0.03  # excess below which the slowest method is not tried
_FAR = 0.04  # excess that more packs for the pools do not mend
_WIDER = 1.01  # packs over the bound when as many as the bound do not suffice
_TWO = 2  # budgets, tokens among them, that levels are good for
_SCARCE = 0.9  # another budget this close to being as scarce as tokens is spent evenly

_Vector = tuple[int, ...]  # what a sample takes of each budget, tokens first


class _Kind:
    """Samples that take the same budgets, at a similar rate per token, by size.

    Attributes:
        sizes: tokens, strictly increasing.
        stacks: samples of each size; the last is the next to go.
    """

    def __init__(self, members: list[int], needs: list[_Vector]) -> None:
        self._needs = needs
        self.sizes: list[int] = []
        self.stacks: list[list[int]] = []
        for size, group in groupby(members, key=lambda sample: needs[sample][0]):
            self.sizes.append(size)
            self.stacks.append(list(group))
        rates = [
            (budget, min(needs[sample][budget] / needs[sample][0] for sample in members))
            for budget in range(1, len(needs[0]))
        ]
        self._rates = [(budget, rate) for budget, rate in rates if rate > 0]

    def find(self, wanted: float, rooms: list[int]) -> int:
        """Return the index of the largest size up to `wanted` whose next sample fits, or -1.

        When all are larger than wanted, the smallest is asked.
        """
        for budget, rate in self._rates:
            if rate * wanted > rooms[budget]:
                wanted = rooms[budget] / rate
        top = max(bisect_right(self.sizes, wanted) - 1, 0)
        for at in range(top, max(-1, top - _TRIES), -1):
            if all(map(le, self._needs[self.stacks[at][-1]], rooms)):
                return at
        return -1

    def pop(self, at: int) -> None:
        """Take the next sample of one size away."""
        self.stacks[at].pop()
        if not self.stacks[at]:
            del self.sizes[at], self.stacks[at]


class _Filler:
    """The samples left, and how much of each budget they will take."""

    def __init__(self, needs: list[_Vector], kinds: list[_Kind], budgets: list[int]) -> None:
        self._needs = needs
        self._kinds = kinds
        self._budgets = budgets
        self._scale = [1 / budget for budget in budgets]
        self._shares = [tuple(map(mul, need, self._scale)) for need in needs]
        self._norms = [sum(map(mul, share, share)) for share in self._shares]
        self._pool = [float(sum(column)) for column in zip(*self._shares, strict=True)]
        self._left = len(needs)

    def packs(self) -> list[list[int]]:
        """Fill packs until no sample is left."""
        packs: list[list[int]] = []
        while self._left:
            packs.append(self._pack())
        return packs

    def _take(self, kind: _Kind, at: int, rooms: list[int], pack: list[int]) -> None:
        """Move one sample into the pack."""
        sample = kind.stacks[at][-1]
        kind.pop(at)
        if not kind.sizes:
            self._kinds.remove(kind)
        pack.append(sample)
        for budget, need in enumerate(self._needs[sample]):
            rooms[budget] -= need
            self._pool[budget] -= self._shares[sample][budget]
        self._left -= 1

    def _pack(self) -> list[int]:
        """Fill one pack."""
        scarcest = max(self._pool)
        aims = [share / scarcest for share in self._pool]
        even = max(aims[1:]) > _SCARCE
        slots = self._left / scarcest if even else 1.0
        rooms, pack = list(self._budgets), list[int]()
        longest = max(self._kinds, key=lambda kind: kind.sizes[-1])
        self._take(longest, len(longest.sizes) - 1, rooms, pack)
        while True:
            free = list(map(mul, rooms, self._scale))
            goal = [max(0.0, aim - 1 + part) for aim, part in zip(aims, free, strict=True)]
            if not any(goal):
                goal = free
            wanted = goal[0] * self._budgets[0] / max(1.0, slots - len(pack))
            found = self._choose(max(1.0, wanted), rooms, goal)
            if found is None:
                return pack
            self._take(*found, rooms, pack)

    def _choose(
        self, wanted: float, rooms: list[int], goal: list[float]
    ) -> tuple[_Kind, int] | None:
        """Return the kind whose candidate points most in the direction of the goal."""
        best, found = -1.0, None
        for kind in self._kinds:
            at = kind.find(wanted, rooms)
            if at < 0:
                continue
            sample, size = kind.stacks[at][-1], kind.sizes[at]
            match = sum(map(mul, self._shares[sample], goal)) ** 2 / self._norms[sample]
            score = match * match * (size / wanted if size < wanted else wanted / size)
            if score > best:
                best, found = score, (kind, at)
        return found


def _kind_numbers(samples: Samples, options: PlanOptions) -> NDArray[np.int64]:
    """Number kinds: which of images and patches a sample takes, at more or less per token."""
    kinds = np.zeros(len(samples), dtype=np.int64)
    for need, most in (
        (samples.images, options.max_images),
        (samples.patches, options.max_patches),
    ):
        if need is None or most is None:
            continue
        rate = need / samples.lengths
        middle = float(np.median(rate[rate > 0])) if need.any() else 0.0
        dense = rate > middle if need is samples.patches else np.zeros(len(samples), dtype=bool)
        kinds = 3 * kinds + (rate > 0) + dense
    return kinds


def arrange_limited(
    samples: Samples, ranks: NDArray[np.integer], options: PlanOptions, bound: int
) -> Arrangement:
    """Group samples into few packs that keep to all budgets: the best of several plans.

    Methods are tried from the quickest on, until one comes near the bound.

    Args:
        samples: all of them placeable.
        ranks: (n,) sample numbers, from long to short.
        options: budgets.
        bound: packs that no plan can do without.
    """
    plans = _plans(samples, ranks, options, bound)
    best = next(plans)
    while best.counts.size > bound * (1 + _ENOUGH) and (plan := next(plans, None)) is not None:
        best = _fewer(best, plan)
    if bound * (1 + _ENOUGH) < best.counts.size <= bound * (1 + _FAR):
        best = _fewer(best, _pooled(samples, options, ranks, (np.max, int(bound * _WIDER))))
    if best.counts.size > bound * (1 + _FAIR):
        best = _fewer(best, _mixed(samples, options, ranks))
    return best


def _fewer(one: Arrangement, other: Arrangement) -> Arrangement:
    return other if other.counts.size < one.counts.size else one


def _plans(
    samples: Samples, ranks: NDArray[np.integer], options: PlanOptions, bound: int
) -> Iterator[Arrangement]:
    demands = samples.demands(options)
    most = _alike(demands)
    if most is not None:
        lengths = samples.lengths[ranks].astype(np.int64)
        found = dealt(ranks, lengths, (options.capacity, most), bound)
        yield from [] if found is None else [found]
    if len(demands) == _TWO and most is None:
        yield by_levels(demands, together(demands, ranks))
        yield by_levels(demands, scarce_first(demands, ranks))
    for size in (np.sum, np.max):
        yield _pooled(samples, options, ranks, (size, bound))


def _pooled(
    samples: Samples,
    options: PlanOptions,
    ranks: NDArray[np.integer],
    how: tuple[Callable[..., NDArray[np.float64]], int],
) -> Arrangement:
    """Deal samples to pools of packs, and fill packs one after the other with what is left.

    Args:
        samples: all of them placeable.
        options: budgets.
        ranks: (n,) sample numbers, from long to short.
        how: what makes a sample large, of its shares of all budgets; and packs to deal to.
    """
    size_of, packs = how
    demands = samples.demands(options)
    shares = np.stack([need / most for need, most in demands])
    size = size_of(shares, axis=0)
    chosen = pooled(demands, ranks[np.argsort(-size[ranks], kind="stable")], packs)
    placed = ranks[chosen[ranks] >= 0]
    order = placed[stable_argsort(chosen[placed])]
    counts = np.bincount(chosen[placed], minlength=packs)
    left = ranks[chosen[ranks] < 0]
    if left.size:
        rest = _mixed(samples.take(left), options, np.arange(left.size, dtype=left.dtype))
        order = np.concatenate([order, left[rest.order]])
        counts = np.concatenate([counts, rest.counts])
    return Arrangement(order, counts[counts > 0])


def _alike(demands: list[tuple[NDArray[np.integer], int]]) -> int | None:
    """Return how many samples a pack may hold, where all take equally much of other budgets."""
    most = 2**31 - 1
    for need, budget in demands[1:]:
        if need.min() != need.max():
            return None
        most = min(most, budget // max(1, int(need.min())))
    return most


def _mixed(samples: Samples, options: PlanOptions, ranks: NDArray[np.integer]) -> Arrangement:
    """Fill packs one after the other so that what is left keeps its mix."""
    demands = samples.demands(options)
    rising = ranks[::-1]
    needs: list[_Vector] = list(zip(*(need.tolist() for need, _ in demands), strict=True))
    numbers = _kind_numbers(samples, options)[rising]
    kinds = [_Kind(rising[numbers == one].tolist(), needs) for one in np.unique(numbers)]
    packs = _Filler(needs, kinds, [most for _, most in demands]).packs()
    order = np.fromiter(chain.from_iterable(packs), dtype=rising.dtype, count=len(samples))
    return Arrangement(order, np.array([len(pack) for pack in packs], dtype=np.int64))
