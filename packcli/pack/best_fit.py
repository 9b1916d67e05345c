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

from packcli.pack.runs import Runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.histogram import Histogram

_Group = tuple[int, int, int]  # first pack, packs, samples held by each


class _Rooms:
    """Open packs in groups of equal room and history; a room has a list of groups.

    Attributes:
        runs: numbers, a row of `Runs.table` after the other.
    """

    def __init__(self, smallest: int) -> None:
        self.runs: list[int] = []
        self._smallest = smallest
        self._keys: list[int] = []
        self._groups: dict[int, list[_Group]] = {}

    def put(self, room: int, group: _Group) -> None:
        """Add packs, unless no sample to come fits into them."""
        if room < self._smallest:
            return
        groups = self._groups.get(room)
        if groups is None:
            insort(self._keys, room)
            self._groups[room] = [group]
        else:
            groups.append(group)

    def take(self, size: int) -> tuple[int, _Group] | None:
        """Take one group with the least room that holds `size`: the room and the group."""
        at = bisect_left(self._keys, size)
        if at == len(self._keys):
            return None
        room = self._keys[at]
        groups = self._groups[room]
        group = groups.pop()
        if not groups:
            del self._keys[at], self._groups[room]
        return room, group

    def fill(self, size: int, left: int, room: int, group: _Group) -> int:
        """Give up to `left` samples of one size to a group; put its packs back.

        Returns:
            How many are left then.
        """
        first, packs, held = group
        each = room // size
        full = min(packs, left // each)
        if full:
            self.runs += (first, full, each, held, size)
            self.put(room - each * size, (first, full, held + each))
            left -= full * each
        if full == packs:
            return left
        first, packs = first + full, packs - full
        if left:
            self.runs += (first, 1, left, held, size)
            self.put(room - left * size, (first, 1, held + left))
            first, packs = first + 1, packs - 1
        if packs:
            self.put(room, (first, packs, held))
        return 0


def best_fit(
    histogram: Histogram,
    capacity: int,
    begun: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> Runs:
    """Plan a histogram, sizes from large to small, as textbook best fit decreasing does.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.
        begun: packs that hold samples already: room in tokens, and samples in each.

    Returns:
        Runs over samples ranked from long to short; packs are numbered as they are opened.
    """
    sizes, counts = histogram.sizes[::-1].tolist(), histogram.counts[::-1].tolist()
    rooms = _Rooms(sizes[-1] if sizes else 1)
    opened = 0
    for room, held in zip(*(values.tolist() for values in begun or ()), strict=True):
        rooms.put(room, (opened, 1, held))
        opened += 1
    for size, count in zip(sizes, counts, strict=True):
        left = count
        while left:
            taken = rooms.take(size)
            if taken is None:
                packs = -(-left // (capacity // size))
                taken = capacity, (opened, packs, 0)
                opened += packs
            left = rooms.fill(size, left, *taken)
    return Runs(np.array(rooms.runs, dtype=np.int64).reshape(-1, 5), opened)
