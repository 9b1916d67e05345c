"""A certificate: packs that no plan can do without, whatever its method."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions, Samples

_DUAL_STEPS = 60
_SAFE = 1 << 62


def bound_of(samples: Samples, options: PlanOptions) -> int:
    """Return the strongest bound of any budget, alone or beside another one.

    Of samples that are padded, give what `with_padding` says of them.

    Args:
        samples: all of them placeable.
        options: budgets.
    """
    bounds = [lower_bound(samples.histogram, options.capacity)]
    demands = [(need, _usable(need, most)) for need, most in samples.demands(options)]
    for need, most in demands[1:]:
        bounds.append(-(-int(need.sum(dtype=np.int64)) // most))
        bounds.append(lower_bound(Histogram.of(need[need > 0]), most))
    bounds += [_beside(one, other) for one, other in permutations(demands, 2)]
    return max(bounds)


def _usable(need: NDArray[np.integer], most: int) -> int:
    """Return what a pack can use up of a budget: a multiple of what divides all needs."""
    unit = int(np.gcd.reduce(need)) if need.size else 0
    return most // unit * unit if unit else most


def _beside(one: tuple[NDArray[np.integer], int], other: tuple[NDArray[np.integer], int]) -> int:
    """Bound by what can join samples that take more than half of one budget.

    The b largest of them share no pack. What joins them takes no more of the first budget than
    they leave; of the second it then takes at most what fills that room with its densest samples.
    The rest of the second budget's demand needs packs beside those b, for any b.
    """
    (first, room), (second, most) = (
        (need.astype(np.int64, copy=False), budget) for need, budget in (one, other)
    )
    large = np.sort(np.flatnonzero(2 * first > room))
    large = large[np.argsort(-first[large], kind="stable")]
    if not large.size or not second.any():
        return 0
    left = np.concatenate(([0], np.cumsum(room - first[large])))
    own = np.concatenate(([0], np.cumsum(second[large])))
    packs = np.arange(large.size + 1)
    joined = np.minimum(_densest(first, second, left), most * packs - own)
    return int((packs + -(-np.maximum(0, second.sum() - own - joined) // most)).max())


def _densest(
    first: NDArray[np.int64], second: NDArray[np.int64], rooms: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how much of the second need fits into rooms of the first, parts of samples allowed."""
    free = int(second[first == 0].sum())
    able = np.flatnonzero((first > 0) & (second > 0))
    able = able[np.argsort(-second[able] / first[able], kind="stable")]
    taken = np.concatenate(([0], np.cumsum(first[able])))
    gained = np.concatenate(([0], np.cumsum(second[able])))
    whole = np.searchsorted(taken, rooms, side="right") - 1
    part = np.append(able, 0)[whole]
    more = -(-(rooms - taken[whole]) * second[part] // np.maximum(1, first[part]))
    return free + gained[whole] + np.where(whole < able.size, more, 0)


def lower_bound(histogram: Histogram, capacity: int) -> int:
    """Return the strongest of three lower bounds on the number of packs.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.
    """
    if histogram.sizes.size == 0:
        return 0
    by_tokens = -(-histogram.tokens // capacity)
    return max(by_tokens, _martello_toth(histogram, capacity), _dual_feasible(histogram, capacity))


def _martello_toth(histogram: Histogram, capacity: int) -> int:
    """L2 of Martello and Toth (1990): small samples only use what large ones leave.

    For each threshold t: samples over half a pack are alone with their kind, those over
    capacity - t with nobody of size t or more; samples from t to half must share the rest.
    """
    sizes = histogram.sizes
    heads = np.concatenate(([0], np.cumsum(histogram.counts)))
    tokens = np.concatenate(([0], np.cumsum(histogram.counts * sizes)))
    half = int(np.searchsorted(sizes, capacity // 2, side="right"))
    low = np.arange(half)
    lonely = np.searchsorted(sizes, capacity - sizes[:half], side="right")
    room = (heads[lonely] - heads[half]) * capacity - (tokens[lonely] - tokens[half])
    over = (tokens[half] - tokens[low]) - room
    extra = -(-over // capacity)
    return int(heads[-1] - heads[half]) + max(0, int(extra.max(initial=0)))


def _dual_feasible(histogram: Histogram, capacity: int) -> int:
    """Bound by u(k) of Fekete and Schepers (2001), k = 1 … 59.

    u(k) maps a share x of a pack to x if (k + 1) x is whole, else to floor((k + 1) x) / k; what
    fits into one pack still sums to at most 1. All in whole numbers, in units of
    1 / (k capacity).
    """
    sizes, counts = histogram.sizes, histogram.counts
    best = 0
    for k in range(1, _DUAL_STEPS):
        if k * capacity * histogram.samples > _SAFE:
            break
        whole, part = np.divmod(sizes * (k + 1), capacity)
        weights = np.where(part == 0, k * sizes, whole * capacity)
        best = max(best, -(-int(weights @ counts) // (k * capacity)))
    return best
