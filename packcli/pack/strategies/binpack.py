"""Best fit decreasing, exact, on the length histogram: cost depends on D, not on n.

After one sample of size s the same pack is again the best fit, so all packs with room r take
r // s samples at once and keep r mod s < r / 2. A group of packs is thus split at most
log2(capacity) times, and a size makes at most three runs more than it uses groups up:
O(D log capacity) steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.balance import evened
from packcli.pack.best import ENOUGH, improved
from packcli.pack.bound import lower_bound
from packcli.pack.deal import dealt
from packcli.pack.histogram import ranked
from packcli.pack.limits import arrange_limited
from packcli.pack.runs import Runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.histogram import Histogram
    from packcli.pack.options import Arrangement, PlanOptions, Samples


_Group = tuple[int, int, int, int]  # room in tokens, first pack, packs, samples held by each


_Run = tuple[int, int, int, int, int]  # a row of Runs.table


class _Rooms:
    """Open packs in groups of equal room and history; a room has a list of groups."""

    def __init__(self, smallest: int) -> None:
        self._smallest = smallest
        self._keys: list[int] = []
        self._groups: dict[int, list[_Group]] = {}

    def put(self, room: int, first: int, packs: int, held: int) -> None:
        """Add packs, unless no sample to come fits into them."""
        if packs == 0 or room < self._smallest:
            return
        group = (room, first, packs, held)
        if room in self._groups:
            self._groups[room].append(group)
        else:
            insort(self._keys, room)
            self._groups[room] = [group]

    def take(self, size: int) -> _Group | None:
        """Take one group with the least room that holds `size`."""
        at = bisect_left(self._keys, size)
        if at == len(self._keys):
            return None
        room = self._keys[at]
        groups = self._groups[room]
        group = groups.pop()
        if not groups:
            del self._keys[at], self._groups[room]
        return group

    def fill(self, size: int, left: int, group: _Group) -> list[_Run]:
        """Give up to `left` samples of one size to a group, as runs; put its packs back."""
        room, first, packs, held = group
        each = room // size
        full = min(packs, left // each)
        rest = left - full * each if full < packs else 0
        runs: list[_Run] = []
        if full:
            runs.append((first, full, each, held, size))
            self.put(room - each * size, first, full, held + each)
        if rest:
            runs.append((first + full, 1, rest, held, size))
            self.put(room - rest * size, first + full, 1, held + rest)
        touched = full + (rest > 0)
        self.put(room, first + touched, packs - touched, held)
        return runs


def best_fit(histogram: Histogram, capacity: int) -> Runs:
    """Plan a histogram, sizes from large to small, as textbook best fit decreasing does.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.

    Returns:
        Runs over samples ranked from long to short; packs are numbered as they are opened.
    """
    sizes, counts = histogram.sizes[::-1].tolist(), histogram.counts[::-1].tolist()
    rooms = _Rooms(sizes[-1] if sizes else 1)
    runs: list[_Run] = []
    opened = 0
    for size, count in zip(sizes, counts, strict=True):
        left = count
        while left:
            group = rooms.take(size)
            if group is None:
                packs = -(-left // (capacity // size))
                group = (capacity, opened, packs, 0)
                opened += packs
            for run in rooms.fill(size, left, group):
                left -= run[1] * run[2]
                runs.append(run)
    return Runs(np.array(runs, dtype=np.int64).reshape(-1, 5), opened)


def _best(samples: Samples, ranks: NDArray[np.integer], capacity: int, runs: Runs) -> Arrangement:
    """Take the fewest packs of what is quick to deal and what takes longer to find."""
    bound = lower_bound(samples.histogram, capacity)
    runs = improved(samples.histogram, capacity, runs)
    if runs.packs > bound * (1 + ENOUGH):
        lengths = samples.lengths[ranks].astype(np.int64)
        found = dealt(ranks, lengths, (capacity, samples.lengths.size), bound)
        if found is not None and found.counts.size < runs.packs:
            return found
    return runs.expand(ranks)


def arrange(samples: Samples, options: PlanOptions) -> Arrangement:
    """Group samples into few packs, regardless of their order."""
    histogram = samples.histogram
    runs = best_fit(histogram, options.capacity)
    ranks = ranked(samples.lengths, options.seed)
    if options.quality == "best":
        arrangement = _best(samples, ranks, options.capacity, runs)
    else:
        arrangement = runs.expand(ranks)
    if not all(arrangement.keeps(need, most) for need, most in samples.demands(options)[1:]):
        arrangement = arrange_limited(samples, ranks, options)
    if options.balance == "attention":
        arrangement = evened(arrangement, samples, ranks, options)
    return arrangement
