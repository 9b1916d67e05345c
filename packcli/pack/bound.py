"""A certificate: packs that no plan can do without, whatever its method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from packcli.pack.histogram import Histogram

_DUAL_STEPS = 60
_SAFE = 1 << 62


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
