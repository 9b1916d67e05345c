"""Runs: a plan for classes of equal samples, and its expansion to single samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.histogram import index_type
from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pattern = tuple[int, dict[int, int]]  # packs, and what each holds: size to count


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Neighbouring packs that take equally many of the next samples, in rank order.

    All packs of a run hold equally many samples when it begins, which is why their members'
    positions are known without sorting.

    Attributes:
        table: (runs, 5) int64, columns first pack, packs, samples for each of them, samples that
            each holds already, tokens of each sample at most. Sizes fall, and runs that meet one
            pack stand in the order of filling.
        packs: the number of packs in all.
    """

    table: NDArray[np.int64]
    packs: int

    def expand(self, ranks: NDArray[np.integer]) -> Arrangement:
        """Hand samples out.

        Args:
            ranks: (n,) sample numbers in the order in which the runs take them.
        """
        dtype = index_type(max(ranks.size, self.packs))
        first, packs, each, held, _ = self.table.T
        visited = np.repeat((first - np.cumsum(packs) + packs).astype(dtype), packs)
        visited += np.arange(visited.size, dtype=dtype)
        step = np.repeat(each.astype(dtype), packs)
        place = np.repeat(held.astype(dtype), packs)
        counts = np.zeros(self.packs, dtype=dtype)
        counts[visited] = place + step  # the last visit stays
        starts = np.cumsum(counts, dtype=dtype)
        starts -= counts
        # A visit hands out `step` neighbours: target = start of pack + held + how many before.
        place += starts[visited]
        place += step
        place -= np.cumsum(step, dtype=dtype)
        target = np.repeat(place, step)
        target += np.arange(ranks.size, dtype=dtype)
        order = np.empty_like(ranks)
        order[target] = ranks
        return Arrangement(order, counts.astype(np.int64))

    @classmethod
    def of(cls, patterns: list[Pattern]) -> Runs:
        """Turn patterns into runs; packs are numbered in the order of the patterns."""
        rows: list[tuple[int, int, int, int, int]] = []
        opened = 0
        for times, members in patterns:
            held = 0
            for size in sorted(members, reverse=True):
                rows.append((opened, times, members[size], held, size))
                held += members[size]
            opened += times
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        return cls(table[np.argsort(-table[:, 4], kind="stable")], opened)
