"""Column generation of Gilmore and Gomory (1961) on a few hundred size classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import EnvironmentLacksError
from packcli.pack.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.runs import Pattern, Runs

_ROUNDS = 30
_GAP = 5e-4  # how far above its bound the linear program may stop
_SMOOTH = 0.8  # weight of the best prices so far: plain prices swing and find little
_SPARE = 0.3  # reduced cost up to which a pattern is kept
_TINY = 1e-9


def size_classes(histogram: Histogram, most: int) -> tuple[NDArray[np.int64], Histogram]:
    """Cut sizes into about `most` classes and round up inside each, narrow where many are.

    Equal steps of the sum of square-rooted counts make the loss of rounding up small.

    Returns:
        (D,) int64, the class of each size, rising; and the histogram of the classes.
    """
    number = np.arange(histogram.sizes.size)
    if number.size > most:
        heights = np.cumsum(np.sqrt(histogram.counts))
        steps = np.ceil(heights / heights[-1] * most).astype(np.int64)
        number = np.unique(steps, return_inverse=True)[1].astype(np.int64)
    counts = np.zeros(int(number[-1]) + 1, dtype=np.int64)
    np.add.at(counts, number, histogram.counts)
    largest = np.append(np.flatnonzero(np.diff(number)), number.size - 1)
    return number, Histogram(histogram.sizes[largest], counts)


def priced(
    sizes: NDArray[np.int64], prices: NDArray[np.float64], capacity: int
) -> tuple[float, NDArray[np.int64]]:
    """Find the patterns worth most: for each size, the best pattern that holds it.

    An unbounded knapsack over all rooms; a size of s tokens is offered in stretches of s, so
    that a stretch sees the size already taken in the one before.

    Returns:
        The worth of the best pattern, and (D, D) int64, samples of each size by pattern.
    """
    worth = np.zeros(capacity + 1)
    last = np.full(capacity + 1, -1, dtype=np.int64)
    for number in np.argsort(-prices / sizes, kind="stable").tolist():
        size, price = int(sizes[number]), float(prices[number])
        if price <= _TINY:
            break
        for start in range(size, capacity + 1, size):
            stop = min(start + size, capacity + 1)
            offer = worth[start - size : stop - size] + price
            better = offer > worth[start:stop] + _TINY
            worth[start:stop][better] = offer[better]
            last[start:stop][better] = number
    return float(worth[capacity]), _traced(sizes, last.tolist(), capacity)


def _traced(sizes: NDArray[np.int64], last: list[int], capacity: int) -> NDArray[np.int64]:
    """Follow the knapsack's choices back, from one sample of each size on."""
    patterns = np.eye(sizes.size, dtype=np.int64)
    steps = sizes.tolist()
    for number, size in enumerate(steps):
        room = capacity - size
        while last[room] >= 0:
            patterns[number, last[room]] += 1
            room -= steps[last[room]]
    return patterns


def solve(classes: Histogram, capacity: int, start: Runs) -> list[Pattern]:
    """Solve the linear program over all patterns, rounded down to whole packs.

    Prices are smoothed towards those of the best bound so far (Wentges 1997), at first tokens
    over capacity. Rounds are counted, not timed: the plan does not depend on the machine.

    Args:
        classes: sizes and counts to cover.
        capacity: tokens in a pack, at most.
        start: a plan of `classes`, whose patterns begin the program.

    Raises:
        EnvironmentLacksError: SciPy is not installed, or its solver gives up.
    """
    sizes, counts = classes.sizes, classes.counts.astype(np.float64)
    patterns = np.vstack([_patterns(start, sizes), np.diag(capacity // sizes)])
    center = sizes / capacity
    bound, before, smooth = float(center @ counts), float("inf"), _SMOOTH
    packs = np.zeros(0)
    for _ in range(_ROUNDS):
        total, packs, prices = _program(patterns, counts)
        mixed = smooth * center + (1 - smooth) * prices
        top, found = priced(sizes, mixed, capacity)
        if mixed @ counts / top > bound:
            bound, center = float(mixed @ counts / top), mixed / top
        fresh = found[found @ prices > 1 + _TINY]
        if total <= bound * (1 + _GAP) or not (len(fresh) or smooth):
            break
        if not len(fresh):
            smooth = max(0.0, smooth - 0.2)
            continue
        if total < before * (1 - _TINY):  # without progress, forgetting patterns would cycle
            used = (packs > 0) | (patterns @ prices > 1 - _SPARE)
            patterns, packs = patterns[used], packs[used]
        before = total
        patterns = np.vstack([patterns, np.unique(fresh, axis=0)])
    return _whole(patterns[: packs.size], packs, classes)


def _patterns(runs: Runs, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read the distinct patterns off a plan, by the first pack of each."""
    first, at = np.unique(runs.table[:, 0], return_inverse=True)
    patterns = np.zeros((first.size, sizes.size), dtype=np.int64)
    np.add.at(patterns, (at, np.searchsorted(sizes, runs.table[:, 4])), runs.table[:, 2])
    return np.unique(patterns, axis=0)


def _program(
    patterns: NDArray[np.int64], counts: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Cover counts with the fewest packs, fractions allowed: total, packs, price of a sample."""
    try:
        from scipy.optimize import linprog  # noqa: PLC0415 - an extra that only this needs
        from scipy.sparse import csc_matrix  # noqa: PLC0415 - as above
    except ImportError as error:
        raise EnvironmentLacksError(
            "quality best needs SciPy; pip install scipy, or plan with quality fast"
        ) from error
    cover = csc_matrix(-patterns.T.astype(np.float64))
    answer = linprog(np.ones(len(patterns)), A_ub=cover, b_ub=-counts, method="highs-ds")
    if answer.status != 0:
        raise EnvironmentLacksError(f"SciPy: {answer.message}; plan with quality fast")
    return float(answer.fun), np.asarray(answer.x), -np.asarray(answer.ineqlin.marginals)


def _whole(
    patterns: NDArray[np.int64], packs: NDArray[np.float64], classes: Histogram
) -> list[Pattern]:
    """Round down, and never hand out more of a class than there is."""
    left = classes.counts.copy()
    whole: list[Pattern] = []
    for pattern, share in zip(patterns, np.floor(packs + _TINY).astype(np.int64), strict=True):
        held = np.flatnonzero(pattern)
        times = min(int(share), int((left[held] // pattern[held]).min()))
        if times > 0:  # the solver may answer a little below 0
            left[held] -= times * pattern[held]
            members = zip(classes.sizes[held].tolist(), pattern[held].tolist(), strict=True)
            whole.append((times, dict(members)))
    return whole
