"""Blocks of R packs of equal cost: the ranks of a training step finish together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.deal import deal_to
from packcli.pack.exchange import MOST_PACKS, Load, exchanged
from packcli.pack.spread import spread_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.pack.histogram import Histogram
    from packcli.pack.options import Arrangement, PlanOptions, Samples

    Costs = NDArray[np.integer] | NDArray[np.floating]

_NEAR = 0.002  # imbalance above the least at which no further method is tried
_SPREADS = ((1, 0.75), (5, 0.75), (1, 0.6), (5, 0.6))
"""Steps that long samples are gathered in, and the share of tokens that is dealt by cost."""


def in_blocks(costs: Costs, ranks: int, seed: int) -> NDArray[np.int64]:
    """Order packs so that each step of `ranks` packs is homogeneous in cost.

    Packs sorted by cost are cut into blocks of neighbours, which minimises the sum of the
    blocks' maxima for given packs; blocks, and packs inside a block, are then shuffled. What
    does not fill a block, the cheapest packs, stays last, so that steps stay aligned and a
    trainer that drops an incomplete step loses the least.

    Args:
        costs: (packs,) numbers, the cost of each pack.
        ranks: packs in a block.
        seed: the seed of the shuffle.

    Returns:
        (packs,) int64, pack numbers in training order.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(-costs, kind="stable")
    full = costs.size // ranks
    blocks = order[: full * ranks].reshape(full, ranks)
    blocks = rng.permuted(blocks, axis=1)[rng.permutation(full)]
    return np.concatenate([blocks.reshape(-1), order[full * ranks :]])


def step_imbalance(costs: Costs, ranks: int) -> float:
    """Time of all steps, each as long as its dearest pack, over the time of equal shares.

    The last step may be incomplete: its packs count like those of any other step, and the ranks
    that have none do not.

    Args:
        costs: (packs,) numbers, in training order.
        ranks: packs in a step.
    """
    starts = np.arange(0, costs.size, ranks)
    if not costs.sum():
        return 1.0
    held = np.diff(np.append(starts, costs.size))
    shares = np.add.reduceat(costs, starts) / held
    return float(np.maximum.reduceat(costs, starts).sum() / shares.sum())


def least_imbalance(histogram: Histogram, capacity: int, packs: int, ranks: int) -> float:
    """Bound the imbalance of any plan of attention whose incomplete step holds the cheapest packs.

    Samples over half a pack are in packs of their own, so the dearest packs of the first k steps
    cost at least the squares of every R-th such sample. All packs of those steps together hold no
    more than their room's worth of the longest samples; the other steps share what is left.

    Args:
        histogram: sizes of 1 to `capacity` tokens.
        capacity: tokens in a pack, at most.
        packs: how many there are.
        ranks: packs in a step, R.
    """
    full, over = divmod(packs, ranks)
    if not full:
        return 1.0
    sizes, counts = histogram.sizes[::-1].astype(np.float64), histogram.counts[::-1]
    tokens = np.concatenate(([0.0], np.cumsum(counts * sizes)))
    squares = np.concatenate(([0.0], np.cumsum(counts * sizes**2)))
    dearest = np.searchsorted(np.cumsum(counts), ranks * np.arange(full), side="right")
    longest = sizes[dearest[dearest < sizes.size]]
    longest = longest[(2 * longest > capacity) | (np.arange(longest.size) == 0)]
    rooms = ranks * capacity * np.arange(1.0, longest.size + 1)
    fits = np.minimum(np.searchsorted(tokens, rooms, side="right") - 1, sizes.size - 1)
    densest = np.minimum(squares[fits] + (rooms - tokens[fits]) * sizes[fits], squares[-1])
    share = squares[-1] * (1 / ranks + (1 - over / ranks) / packs * (over > 0))
    return max(1.0, 1 + float((np.cumsum(longest**2) - densest / ranks).max()) / share)


def evened(
    arrangement: Arrangement,
    samples: Samples,
    ranks: NDArray[np.integer],
    options: PlanOptions,
) -> Arrangement:
    """Change which samples share a pack, if all budgets are kept and the ranks wait less.

    Packs of best fit hold samples of one length: their attention costs differ by as much as the
    lengths do, and no order of packs makes up for a few that cost most. Methods are tried until
    one comes near what no plan can beat.

    Args:
        arrangement: a plan.
        samples: what it places.
        ranks: (n,) sample numbers, from long to short.
        options: budgets, and how many packs make a step.
    """
    least = least_imbalance(
        samples.histogram, options.capacity, arrangement.counts.size, options.ranks
    )
    best, waits = arrangement, _imbalance(arrangement, samples, options)
    for plan in _plans(arrangement.counts.size, samples, ranks, options):
        if waits <= least + _NEAR:
            break
        kept = all(plan.keeps(need, most) for need, most in samples.demands(options)[1:])
        if not kept or plan.counts.size > arrangement.counts.size:
            continue
        if (now := _imbalance(plan, samples, options)) < waits:
            best, waits = plan, now
    if waits <= least + _NEAR or best.counts.size > MOST_PACKS:
        return best
    budgets = samples.demands(options)
    load = Load(
        np.square(samples.lengths, dtype=np.int64),
        np.array([need for need, _ in budgets], np.int64),
        np.array([most for _, most in budgets], np.int64),
        options.ranks,
    )
    return exchanged(best, load, partial(step_imbalance, ranks=options.ranks), least + _NEAR)


def _imbalance(plan: Arrangement, samples: Samples, options: PlanOptions) -> float:
    """Tell the imbalance of packs brought into blocks."""
    return step_imbalance(np.sort(plan.squares(samples.lengths))[::-1], options.ranks)


def _plans(
    packs: int, samples: Samples, ranks: NDArray[np.integer], options: PlanOptions
) -> Iterator[Arrangement]:
    lengths = samples.lengths[ranks].astype(np.int64)
    most = options.max_samples or len(samples)
    found = deal_to(packs, ranks, lengths, (options.capacity, most)) if lengths.size else None
    if found is not None:
        yield found
    for steps, share in _SPREADS:
        if 2 * steps * options.ranks <= packs:
            yield spread_to(packs, (steps * options.ranks, share), ranks, lengths, options)
