"""Best fit by two budgets: open packs by levels of the second one, by tokens inside a level.

Images or patches that are as scarce as tokens are wasted by packs that are full of text, and
text by packs that are full of images. A sample that takes images goes to the level with the least
images left that it fits into, and there to the pack with the most tokens left; one that takes
none goes to the packs with the fewest images left, and fills them up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import chain
from operator import le
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Demand = tuple[NDArray[np.integer], int]

_LEVELS = 16
_TRIES = 4  # packs of a level that are looked at


class _Open:
    """Open packs, by level and room."""

    def __init__(self, needs: list[tuple[int, int]], budgets: list[int]) -> None:
        self._needs = needs
        self._budgets = budgets
        self._scale = min(_LEVELS, budgets[1])
        self._levels: list[list[tuple[int, int]]] = [[] for _ in range(self._scale + 1)]
        self._least = [min(column) for column in zip(*needs, strict=True)]
        self._rooms: list[list[int]] = []
        self.packs: list[list[int]] = []

    def _level(self, amount: int) -> int:
        return amount * self._scale // self._budgets[1]

    def put(self, sample: int) -> None:
        """Give a sample to an open pack, else to a new one."""
        need = self._needs[sample]
        pack = self._take(need)
        if pack is None:
            pack = len(self.packs)
            self.packs.append([])
            self._rooms.append(list(self._budgets))
        self.packs[pack].append(sample)
        rooms = [room - size for room, size in zip(self._rooms[pack], need, strict=True)]
        self._rooms[pack] = rooms
        if all(map(le, self._least, rooms)):
            insort(self._levels[self._level(rooms[1])], (rooms[0], pack))

    def _take(self, need: tuple[int, int]) -> int | None:
        """Take a pack that has room for the sample out of its level."""
        for level in range(self._level(need[1]), self._scale + 1):
            packs = self._levels[level]
            if not packs or packs[-1][0] < need[0]:
                continue
            for at in self._places(packs, need):
                if packs[at][0] >= need[0] and all(map(le, need, self._rooms[packs[at][1]])):
                    return packs.pop(at)[1]
        return None

    def _places(self, packs: list[tuple[int, int]], need: tuple[int, int]) -> Iterable[int]:
        if need[1]:
            return range(len(packs) - 1, max(-1, len(packs) - 1 - _TRIES), -1)
        first = bisect_left(packs, (need[0], -1))
        return range(first, min(len(packs), first + _TRIES))


def by_levels(demands: list[Demand], order: NDArray[np.integer]) -> Arrangement:
    """Group samples by tokens and one more budget.

    Args:
        demands: what each sample takes of both budgets, and the budgets, tokens first.
        order: (n,) sample numbers, as they are placed.
    """
    (tokens, _), (second, _) = demands
    packs = _Open(
        list(zip(tokens.tolist(), second.tolist(), strict=True)), [most for _, most in demands]
    )
    for sample in order.tolist():
        packs.put(sample)
    flat = np.fromiter(chain.from_iterable(packs.packs), dtype=order.dtype, count=order.size)
    return Arrangement(flat, np.array([len(pack) for pack in packs.packs], dtype=np.int64))


def together(demands: list[Demand], ranks: NDArray[np.integer]) -> NDArray[np.integer]:
    """Order samples by what they take of both budgets together, from much to little."""
    (tokens, capacity), (second, most) = demands
    shares = tokens / capacity + second / most
    return ranks[np.argsort(-shares[ranks], kind="stable")]


def scarce_first(demands: list[Demand], ranks: NDArray[np.integer]) -> NDArray[np.integer]:
    """Order samples by what they take of the second budget, then by tokens."""
    return ranks[np.argsort(-demands[1][0][ranks], kind="stable")]
