"""Few packs, in any order: best fit decreasing, and what improves on it when asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.balance import evened
from packcli.pack.best import ENOUGH, improved
from packcli.pack.best_fit import best_fit
from packcli.pack.deal import dealt
from packcli.pack.histogram import ranked
from packcli.pack.limits import arrange_limited

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import Arrangement, PlanOptions, Samples
    from packcli.pack.runs import Runs


def _best(
    samples: Samples, ranks: NDArray[np.integer], capacity: int, runs: Runs, bound: int
) -> Arrangement:
    """Take the fewest packs of what is quick to deal and what takes longer to find."""
    runs = improved(samples.histogram, capacity, runs, bound)
    if runs.packs > bound * (1 + ENOUGH):
        lengths = samples.lengths[ranks].astype(np.int64)
        found = dealt(ranks, lengths, (capacity, samples.lengths.size), bound)
        if found is not None and found.counts.size < runs.packs:
            return found
    return runs.expand(ranks)


def arrange(samples: Samples, options: PlanOptions, bound: int) -> Arrangement:
    """Group samples into few packs, regardless of their order."""
    histogram = samples.histogram
    runs = best_fit(histogram, options.capacity)
    ranks = ranked(samples.lengths, options.seed)
    if options.quality == "best":
        arrangement = _best(samples, ranks, options.capacity, runs, bound)
    else:
        arrangement = runs.expand(ranks)
    if not all(arrangement.keeps(need, most) for need, most in samples.demands(options)[1:]):
        arrangement = arrange_limited(samples, ranks, options, bound)
    if options.balance == "attention":
        arrangement = evened(arrangement, samples, ranks, options)
    return arrangement
