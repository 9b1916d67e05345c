"""Seconds more for fewer packs: the best of three plans for one histogram.

Lengths in clusters (fixed image tokens and a caption) leave best fit decreasing up to 7 % over
the bound; minimum bin slack takes a part of it, column generation nearly all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.columns import size_classes, solve
from packcli.pack.histogram import Histogram
from packcli.pack.runs import Runs
from packcli.pack.slack import minimum_slack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.runs import Pattern

ENOUGH = 5e-4
"""Excess over the bound below which no further method is tried."""

_WIDEST = 1 << 22  # tokens; minimum slack keeps one number for each room
_DEAREST = 100_000  # knapsack stretches in one round of column generation
_CLASSES = ((200, ENOUGH), (1000, 2.5e-3))  # size classes, and the excess that calls for them


def improved(histogram: Histogram, capacity: int, runs: Runs, bound: int) -> Runs:
    """Return a plan of at most as many packs, over the same samples in rank order.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.
        runs: the plan of best fit decreasing.
        bound: packs that no plan can do without.

    Raises:
        EnvironmentLacksError: column generation is needed, and SciPy is not installed.
    """
    if runs.packs <= bound * (1 + ENOUGH) or capacity > _WIDEST:
        return runs
    best = min(runs, minimum_slack(histogram, capacity), key=lambda plan: plan.packs)
    for classes, excess in _CLASSES:
        count = min(classes, histogram.sizes.size)
        worth = count < best.packs and (capacity // histogram.sizes).mean() * count < _DEAREST
        if best.packs > bound * (1 + excess) and worth:
            plan = _by_columns(histogram, capacity, classes)
            best = min(best, plan, key=lambda found: found.packs)
    return best


def _by_columns(histogram: Histogram, capacity: int, most: int) -> Runs:
    """Plan size classes by column generation, and by minimum slack what rounding down leaves."""
    number, classes = size_classes(histogram, most)
    patterns = solve(classes, capacity, minimum_slack(classes, capacity))
    rest = _rest(histogram, number, patterns, classes)
    whole, tail = Runs.of(patterns), minimum_slack(rest, capacity)
    tail.table[:, 0] += whole.packs
    table = np.concatenate([whole.table, tail.table])
    # Ranks run through a class from its largest sample on: whole patterns first, then the rest.
    of_class = np.searchsorted(classes.sizes, table[:, 4])
    return Runs(table[np.argsort(-of_class, kind="stable")], whole.packs + tail.packs)


def _rest(
    histogram: Histogram, number: NDArray[np.int64], patterns: list[Pattern], classes: Histogram
) -> Histogram:
    """Take what patterns use off each class, its largest samples first."""
    used = np.zeros(classes.sizes.size, dtype=np.int64)
    for times, members in patterns:
        for size, count in members.items():
            used[np.searchsorted(classes.sizes, size)] += times * count
    upto = np.cumsum(histogram.counts)
    larger = np.cumsum(classes.counts)[number] - upto  # samples of the class that are larger
    left = histogram.counts - np.clip(used[number] - larger, 0, histogram.counts)
    return Histogram(histogram.sizes[left > 0], left[left > 0])
