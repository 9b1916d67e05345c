"""Windows: a plan for more samples than fit into memory, one portion after the other.

The last window's incomplete packs cost fill, and an incomplete block of a balanced plan would
shift all blocks behind it. So a window hands such packs' samples on to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.offsets import Offsets
from packcli.pack.histogram import index_type
from packcli.pack.options import with_padding
from packcli.pack.plan import make_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions, Samples
    from packcli.pack.plan import Plan

_HANDED_ON = 64  # one of so many packs, the emptiest, is planned again with the next window
_FULL = 0.999  # fill from which a pack gains nothing by that


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Packs that are filled together.

    Attributes:
        order: (n,) int32 or int64, numbers of the samples, pack after pack.
        counts: (packs,) int64, samples in each pack.
        left: (m,) int32 or int64, numbers of samples that fit into no pack.
    """

    order: NDArray[np.integer]
    counts: NDArray[np.int64]
    left: NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """Which samples are to be packed, in the order in which they are read.

    Attributes:
        numbers: (n,) int32 or int64, sample numbers; some may repeat or be left out.
        portions: (groups,) int64, how many of them are read together, row group by row group.
    """

    numbers: NDArray[np.integer]
    portions: NDArray[np.int64]


def in_order(samples: Samples, counts: list[int]) -> Uses:
    """Use every sample once, as it comes.

    Args:
        samples: all samples.
        counts: samples of each row group.
    """
    numbers = np.arange(len(samples), dtype=index_type(len(samples)))
    return Uses(numbers, np.array(counts, dtype=np.int64))


def plan_windows(
    samples: Samples, uses: Uses, options: PlanOptions, window_tokens: int
) -> tuple[list[Chunk], float]:
    """Plan as many row groups together as a window holds, at least one.

    Args:
        samples: all samples, by number.
        uses: which of them, in which order.
        options: how to pack.
        window_tokens: tokens of a window, about.

    Returns:
        Packs of each window, and the seconds that planning took.
    """
    chunks: list[Chunk] = []
    carried = uses.numbers[:0]
    seconds = 0.0
    bounds = _windows(samples, uses, window_tokens)
    for place, (start, stop) in enumerate(bounds):
        numbers = np.concatenate([carried, uses.numbers[start:stop]])
        given = samples.take(numbers)
        plan = make_plan(given.lengths, options, images=given.images, patches=given.patches)
        seconds += plan.seconds
        handed = _handed_on(plan, given, options) if place + 1 < len(bounds) else np.zeros(0, int)
        packs = np.delete(np.arange(plan.packs), handed)
        # in their old order, so that order-preserving plans stay so
        carried = numbers[np.sort(plan.order[plan.members.gather(handed)])]
        left = np.sort(np.concatenate([plan.rejected, plan.zero]))
        order = plan.order[plan.members.gather(packs)] if handed.size else plan.order
        if packs.size or left.size:
            chunks.append(
                Chunk(numbers[order], plan.members.lengths[packs].astype(np.int64), numbers[left])
            )
    return chunks, seconds


def _windows(samples: Samples, uses: Uses, most: int) -> list[tuple[int, int]]:
    """Cut uses between row groups, by token counts alone."""
    running = np.zeros(uses.numbers.size + 1, dtype=np.int64)
    np.cumsum(samples.lengths[uses.numbers], dtype=np.int64, out=running[1:])
    ends = np.cumsum(uses.portions)
    sizes = running[ends] - running[ends - uses.portions]
    windows: list[tuple[int, int]] = []
    tokens = 0
    for end, count, size in zip(ends.tolist(), uses.portions.tolist(), sizes.tolist(), strict=True):
        if not windows or tokens + size > most:
            windows.append((end - count, end))
            tokens = 0
        windows[-1] = (windows[-1][0], end)
        tokens += size
    return windows


def _handed_on(plan: Plan, samples: Samples, options: PlanOptions) -> NDArray[np.int64]:
    """Choose packs whose samples had better be planned with the next window."""
    if options.balance != "none":
        return np.arange(plan.packs - plan.packs % options.ranks, plan.packs)
    if options.strategy == "sequential":
        return np.arange(plan.packs - min(options.open_packs, plan.packs // 2), plan.packs)
    samples, options = with_padding(samples, options)
    totals = np.add.reduceat(samples.lengths[plan.order], plan.members.starts, dtype=np.int64)
    emptiest = np.argsort(totals, kind="stable")[
        : min(-(-plan.packs // _HANDED_ON), plan.packs // 2)
    ]
    return np.sort(emptiest[totals[emptiest] < _FULL * options.capacity])


def cut_packs(
    order: NDArray[np.integer], counts: NDArray[np.int64], totals: NDArray[np.int64], most: int
) -> list[Chunk]:
    """Cut a finished plan into chunks of about `most` tokens.

    Args:
        order: (n,) sample numbers, pack after pack.
        counts: (packs,) int64, samples in each pack.
        totals: (packs,) int64, tokens of each pack.
        most: tokens of a chunk; a pack that is longer stands alone.
    """
    members = Offsets.from_lengths(counts)
    steps = np.cumsum(totals) - totals
    number = steps // most
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(number)) + 1, [counts.size]])
    return [
        Chunk(order[members.values[a] : members.values[b]], counts[a:b], order[:0])
        for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
        if a < b
    ]
