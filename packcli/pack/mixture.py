"""Mixtures: how often each dataset is used, whole epochs and a seeded part of one more."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.digests import digest_total
from packcli.contract.errors import UsageError
from packcli.contract.padding import SAMPLE_NAMES, named_padding
from packcli.pack.histogram import index_type
from packcli.pack.windows import Uses
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from packcli.pack.sources import Index, RowGroup


MOST_EPOCHS = 1000


def check_epochs(epochs: Sequence[float], inputs: int) -> None:
    """Refuse what is not one number of epochs for each input.

    Raises:
        UsageError: one is missing, not above 0, or too large to be meant.
    """
    if len(epochs) != inputs or not all(0 < each <= MOST_EPOCHS for each in epochs):
        bounds = f"above 0, at most {MOST_EPOCHS}"
        raise UsageError(f"give each input a number of epochs {bounds}, as in A:2.0 B:0.5")


def mixed(index: Index, epochs: Sequence[float], seed: int) -> tuple[Uses, list[int]]:
    """Draw from every dataset, and shuffle the row groups of all of them.

    Args:
        index: all samples.
        epochs: (datasets,) how often each is used; 2.5 is twice, and once more half of it.
        seed: of the part of an epoch, and of the order.

    Returns:
        What is used, and the sum of the digests of each dataset's uses.
    """
    rng = np.random.default_rng(seed)
    portions: list[NDArray[np.integer]] = []
    digests: list[int] = []
    for dataset, manifest in enumerate(index.manifests):
        groups = index.groups_of(dataset)
        whole, part = divmod(Fraction(str(epochs[dataset])), 1)
        portions += [_all_of(group) for _ in range(int(whole)) for group in groups]
        drawn = _part_of(groups, part, rng)
        portions += drawn
        part_digest = _digest(groups, drawn, padded=manifest.model.padding is not None)
        digests.append(int(whole) * int(manifest.digest or "0", 16) + part_digest)
    shuffled = [portions[place] for place in rng.permutation(len(portions)).tolist()]
    dtype = index_type(len(index.samples))
    numbers = np.concatenate([np.zeros(0, dtype), *shuffled]).astype(dtype, copy=False)
    return Uses(numbers, np.array([len(one) for one in shuffled], dtype=np.int64)), digests


def _all_of(group: RowGroup) -> NDArray[np.integer]:
    return np.arange(group.first, group.first + group.count)


def _part_of(
    groups: list[RowGroup], part: Fraction, rng: np.random.Generator
) -> list[NDArray[np.integer]]:
    """Draw a part of the samples, rounded to whole ones; they stay with their row groups."""
    count = sum(group.count for group in groups)
    chosen = np.sort(rng.permutation(count)[: round(part * count)])
    ends = np.cumsum([group.count for group in groups])
    cut = np.split(chosen, np.searchsorted(chosen, ends[:-1])) if groups else []
    first = groups[0].first if groups else 0
    return [one + first for one in cut if one.size]


def _digest(groups: list[RowGroup], drawn: list[NDArray[np.integer]], *, padded: bool) -> int:
    """Add up the digests of a part of the samples."""
    if not drawn:
        return 0
    chosen, total = np.concatenate(drawn), 0
    for path in dict.fromkeys(group.path for group in groups):
        inside = [group for group in groups if group.path == path]
        first, last = inside[0].first, inside[-1].first + inside[-1].count
        here = chosen[(chosen >= first) & (chosen < last)] - first
        cells = Shard.open(path).whole(["sample_digests", *(SAMPLE_NAMES if padded else ())]).cells
        digests = cells["sample_digests"].values
        if padded:
            digests = digests[~named_padding(*(cells[name].values for name in SAMPLE_NAMES))]
        total += digest_total(digests[here])
    return total


def drawn_counts(index: Index, uses: Uses) -> list[int]:
    """Count how many samples of each dataset are used, repeats included."""
    ends = np.cumsum(index.counts())
    dataset = np.searchsorted(ends, uses.numbers, side="right")
    return np.bincount(dataset, minlength=len(ends)).tolist()
