"""Minimum bin slack: one pack after the other, each as full as a short search can make it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.runs import Pattern, Runs

if TYPE_CHECKING:
    from packcli.pack.histogram import Histogram

_TRIES = 12  # other choices for the last sample before the closing pair


class _Stock:
    """Sizes with samples left, and the largest such size up to any room."""

    def __init__(self, histogram: Histogram, capacity: int) -> None:
        self._counts = dict(zip(histogram.sizes.tolist(), histogram.counts.tolist(), strict=True))
        present = np.zeros(capacity + 1, dtype=np.int64)
        present[histogram.sizes] = histogram.sizes
        self._floor = np.maximum.accumulate(present)
        self._sizes = histogram.sizes.copy()

    @property
    def largest(self) -> int:
        """The largest size left, or 0."""
        return int(self._floor[-1])

    @property
    def smallest(self) -> int:
        """The smallest size left."""
        return int(self._sizes[0])

    def floor(self, room: int, used: dict[int, int]) -> int:
        """Return the largest size up to `room` of which more is left than `used`, or 0."""
        size = int(self._floor[room])
        while size and used.get(size, 0) >= self._counts[size]:
            size = int(self._floor[size - 1])
        return size

    def pair(self, room: int, used: dict[int, int]) -> tuple[int, int]:
        """Return the two sizes (the second may be 0) that leave the least of `room`."""
        at = int(np.searchsorted(self._sizes, room, side="right"))
        ones = self._sizes[int(np.searchsorted(self._sizes, room // 2)) : at]
        sums = ones + self._floor[room - ones]
        for place in np.argsort(-sums, kind="stable")[:4].tolist() if sums.size else ():
            one, two = int(ones[place]), int(sums[place] - ones[place])
            short = self._counts[one] <= used.get(one, 0) + (one == two)
            if not short and (not two or self._counts[two] > used.get(two, 0)):
                return one, two
        one = self.floor(room, used)
        return one, 0

    def take(self, pattern: dict[int, int], times: int) -> None:
        """Take samples away."""
        for size, count in pattern.items():
            self._counts[size] -= count * times
            if not self._counts[size]:
                at = int(np.searchsorted(self._sizes, size))
                after = int(self._sizes[at + 1]) if at + 1 < self._sizes.size else self._floor.size
                self._floor[size:after] = self._floor[size - 1]
                self._sizes = np.delete(self._sizes, at)

    def times(self, pattern: dict[int, int]) -> int:
        """How many packs of a pattern the samples left suffice for."""
        return min(self._counts[size] // count for size, count in pattern.items())


def minimum_slack(histogram: Histogram, capacity: int) -> Runs:
    """Plan a histogram pack by pack.

    A pack takes the largest samples that leave room for two more, then the two that fill it
    best; when they leave room, other choices for the sample before them are tried. Each pattern
    is repeated while samples last, so that cost depends on distinct sizes, not on n.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.
    """
    stock = _Stock(histogram, capacity)
    patterns: list[Pattern] = []
    while stock.largest:
        members = _fullest(stock, capacity)
        times = stock.times(members)
        stock.take(members, times)
        patterns.append((times, members))
    return Runs.of(patterns)


def _fullest(stock: _Stock, capacity: int) -> dict[int, int]:
    """Search for one pattern with little slack: size to count."""
    used: dict[int, int] = {}
    room, last = capacity, 0
    while True:
        size = stock.floor(room, used)
        if not size or (used and room - size < 2 * stock.smallest):
            break
        used[size] = used.get(size, 0) + 1
        room, last = room - size, size
    best = (room + 1, used)
    distinct = len(used) > 1 or used[last] > 1
    for _ in range(_TRIES):
        slack, members = _closed(stock, room, used)
        best = min(best, (slack, members), key=lambda found: found[0])
        if slack == 0 or not distinct:
            break
        used = {
            size: count - (size == last) for size, count in used.items() if count > (size == last)
        }
        room += last
        last = stock.floor(last - 1, used)
        if not last:
            break
        used[last] = used.get(last, 0) + 1
        room -= last
    return best[1]


def _closed(stock: _Stock, room: int, used: dict[int, int]) -> tuple[int, dict[int, int]]:
    """Close a pack with the best pair: slack and members."""
    members = dict(used)
    while room >= stock.smallest:
        one, two = stock.pair(room, members)
        if not one:
            break
        for size in (one, two):
            if size:
                members[size] = members.get(size, 0) + 1
                room -= size
    return room, members
