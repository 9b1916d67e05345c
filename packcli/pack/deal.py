"""Dealing: a fixed number of packs, all of which come out equally full.

Best fit fills packs one after the other and leaves the last of them with what nothing matches:
where samples are alike, as captions beside pictures of one size, that costs some percent. Here
the packs are opened first, each with one of the longest samples, and how many samples each of
them will hold is told by what that one leaves. The other samples are then dealt from long to
short, each to a pack with the most room for each sample that it still lacks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.pack.histogram import stable_argsort
from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXCESSES = (0.0, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02)
"""Shares of packs above the bound that are tried."""
_SHARE = 4  # one of so many packs, those with the most room for a sample, are served at once
_FEW = 64  # packs that are always served at once
_STEPS = 60  # halvings, enough for a float


class Deal(NamedTuple):
    """Samples dealt to packs, some of which may be too full.

    Attributes:
        pack: (n,) int64, the pack of each sample, samples from long to short.
        room: (packs,) int64, tokens that are left, below 0 where too many were dealt.
        slots: (packs,) int64, samples that a pack may still take.
    """

    pack: NDArray[np.int64]
    room: NDArray[np.int64]
    slots: NDArray[np.int64]


def dealt(
    ranks: NDArray[np.integer], lengths: NDArray[np.int64], budget: tuple[int, int], bound: int
) -> Arrangement | None:
    """Deal samples to the number of packs that needs the fewest in the end.

    Args:
        ranks: (n,) sample numbers, from long to short.
        lengths: (n,) tokens, of the samples in that order.
        budget: tokens and samples in a pack, at most.
        bound: packs that no plan can do without.

    Returns:
        None when no number of packs near the bound can be dealt to.
    """
    tries = {int(np.ceil(bound * (1 + excess))) for excess in _EXCESSES}
    deals = [deal(lengths, packs, budget) for packs in sorted(tries) if packs <= lengths.size]
    made = [one for one in deals if one is not None]
    if not made:
        return None
    each = lengths.size / bound
    best = min(made, key=lambda one: one.room.size + (one.room < 0).sum() / each)
    return _arranged(best, ranks, lengths, budget)


def _arranged(
    given: Deal,
    ranks: NDArray[np.integer],
    lengths: NDArray[np.int64],
    budget: tuple[int, int],
) -> Arrangement:
    pack = _mended(given, lengths, budget)
    order = stable_argsort(pack)
    return Arrangement(ranks[order], np.bincount(pack).astype(np.int64))


def deal_to(
    packs: int, ranks: NDArray[np.integer], lengths: NDArray[np.int64], budget: tuple[int, int]
) -> Arrangement | None:
    """Deal samples to a number of packs, and to some more where they do not fit.

    Args:
        packs: at most n.
        ranks: (n,) sample numbers, from long to short.
        lengths: (n,) tokens, of the samples in that order.
        budget: tokens and samples in a pack, at most.

    Returns:
        None when the packs cannot hold so many samples.
    """
    found = deal(lengths, packs, budget)
    return None if found is None else _arranged(found, ranks, lengths, budget)


def deal(lengths: NDArray[np.int64], packs: int, budget: tuple[int, int]) -> Deal | None:
    """Deal to some number of packs.

    Args:
        lengths: (n,) int64, tokens, falling.
        packs: at most n.
        budget: tokens and samples in a pack, at most.
    """
    capacity, most = budget
    room = capacity - lengths[:packs]
    counts = _counts(room, lengths.size, most)
    if counts is None:
        return None
    pack = np.empty(lengths.size, dtype=np.int64)
    pack[:packs] = np.arange(packs)
    lacking, at = counts - 1, packs
    while at < lengths.size:
        open_packs = np.flatnonzero(lacking)
        wanted = room[open_packs] / lacking[open_packs]
        served = max(min(open_packs.size, _FEW), open_packs.size // _SHARE)
        chosen = open_packs[np.argsort(-wanted, kind="stable")[: min(served, lengths.size - at)]]
        pack[at : at + chosen.size] = chosen
        room[chosen] -= lengths[at : at + chosen.size]
        lacking[chosen] -= 1
        at += chosen.size
    return Deal(pack, room, most - counts)


def _counts(room: NDArray[np.int64], samples: int, most: int) -> NDArray[np.int64] | None:
    """Say how many samples each pack will hold, all of them together: by the room beside one."""
    low, high = 1.0, float(max(1, int(room.max(initial=0))))
    if np.minimum(most, 1 + room).sum() < samples:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = np.minimum(most, 1 + np.floor(room / middle)).sum() >= samples
        low, high = (middle, high) if enough else (low, middle)
    counts = np.minimum(most, 1 + np.floor(room / low)).astype(np.int64)
    spare = np.where(counts > 1, room / low - counts, np.inf)
    counts[np.argsort(spare, kind="stable")[: counts.sum() - samples]] -= 1
    return counts


def _mended(given: Deal, lengths: NDArray[np.int64], budget: tuple[int, int]) -> NDArray[np.int64]:
    """Take samples out of packs that are too full, and find other packs for them."""
    pack, room, slots = given.pack.copy(), given.room.copy(), given.slots.copy()
    spilled: list[int] = []
    for sample in range(lengths.size - 1, -1, -1) if room.min() < 0 else ():
        if room[pack[sample]] < 0:
            room[pack[sample]] += lengths[sample]
            slots[pack[sample]] += 1
            spilled.append(sample)
    free = sorted(
        (int(room[one]), one) for one in np.flatnonzero((room > 0) & (slots > 0)).tolist()
    )
    rooms, left = room.tolist(), slots.tolist()
    for sample in reversed(spilled):  # from long to short
        size = int(lengths[sample])
        at = bisect_left(free, (size, -1))
        if at < len(free):
            one = free.pop(at)[1]
        else:
            one = len(rooms)
            rooms.append(budget[0])
            left.append(budget[1])
        pack[sample] = one
        rooms[one] -= size
        left[one] -= 1
        if rooms[one] and left[one]:
            insort(free, (rooms[one], one))
    return pack
