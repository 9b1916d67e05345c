"""Next fit: samples stay in their order of arrival, and a pack closes when the next is too big.

With more open packs a sample goes to the open pack that it fills best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.pack.histogram import index_type
from packcli.pack.open_packs import arrange_open
from packcli.pack.options import Arrangement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.pack.options import PlanOptions, Samples


def arrange(samples: Samples, options: PlanOptions, bound: int) -> Arrangement:  # noqa: ARG001 - the shelf's form
    """Group neighbours; `options.open_packs` above 1 lets samples overtake each other."""
    if options.open_packs > 1:
        return arrange_open(samples, options)
    following = np.full(len(samples), len(samples), dtype=np.int64)
    for need, budget in samples.demands(options):
        np.minimum(following, _next_pack(need, budget), out=following)
    starts = _follow(following)
    counts = np.diff(np.append(starts, len(samples)))
    return Arrangement(np.arange(len(samples), dtype=index_type(len(samples))), counts)


def _next_pack(need: NDArray[np.integer], budget: int) -> NDArray[np.intp]:
    """For a pack that began at each sample: the first sample that no longer fits."""
    used = np.cumsum(need, dtype=np.int64)
    return np.searchsorted(used, used - need + budget, side="right")


def _follow(following: NDArray[np.int64]) -> NDArray[np.int64]:
    """Walk from pack to pack, from sample 0 on: where each pack begins."""
    view = following.data
    starts: list[int] = []
    at = 0
    while at < following.size:
        starts.append(at)
        at = view[at]
    return np.array(starts, dtype=np.int64)
