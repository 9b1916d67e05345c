"""Best fit among a few open packs, in order of arrival."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.histogram import index_type, stable_argsort
from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packcli.pack.options import PlanOptions, Samples

_Pack = tuple[int, int, tuple[int, ...]]  # room in tokens, pack number, room of the other budgets


def arrange_open(samples: Samples, options: PlanOptions) -> Arrangement:
    """Give each sample, as it comes, to the open pack that it leaves the least room in.

    When none of the open packs takes it, a new one is opened; beyond `options.open_packs` the
    fullest is closed. Packs are numbered as they are opened, samples in a pack keep their order.
    """
    demands = samples.demands(options)
    budgets = [budget for _, budget in demands]
    columns = [need.tolist() for need, _ in demands]
    opened = 0
    packs: list[_Pack] = []
    pack_of: list[int] = []
    for length, *others in zip(*columns, strict=True):
        at = _best(packs, length, others)
        if at is None:
            if len(packs) == options.open_packs:
                del packs[0]
            pack = (budgets[0], opened, tuple(budgets[1:]))
            opened += 1
        else:
            pack = packs.pop(at)
        pack_of.append(pack[1])
        insort(packs, (pack[0] - length, pack[1], _less(pack[2], others)))
    numbers = np.array(pack_of, dtype=index_type(len(samples)))
    order = stable_argsort(numbers)
    return Arrangement(order, np.bincount(numbers, minlength=opened))


def _best(packs: list[_Pack], length: int, others: list[int]) -> int | None:
    """The open pack with the least room in tokens that has room for the sample in all budgets."""
    for at in range(bisect_left(packs, (length,)), len(packs)):
        if all(need <= room for need, room in zip(others, packs[at][2], strict=True)):
            return at
    return None


def _less(rooms: tuple[int, ...], needs: Iterable[int]) -> tuple[int, ...]:
    """Take needs off rooms."""
    return tuple(room - need for room, need in zip(rooms, needs, strict=True))
