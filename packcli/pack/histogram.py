"""Lengths counted and ranked: what planning needs to know of n samples, in D distinct lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGIT = 1 << 16
_DENSE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often each length occurs.

    Attributes:
        sizes: (D,) int64, tokens, the distinct lengths, strictly increasing.
        counts: (D,) int64, samples of each, all >= 1.
    """

    sizes: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.integer]) -> Histogram:
        """Count lengths.

        Args:
            lengths: (n,) integers, tokens, each >= 0.
        """
        longest = int(lengths.max()) if lengths.size else 0
        if longest > max(_DENSE, 4 * lengths.size):
            sizes, counts = np.unique(lengths, return_counts=True)
            return cls(sizes.astype(np.int64), counts.astype(np.int64))
        dense = np.bincount(lengths, minlength=1)
        sizes = np.flatnonzero(dense)
        return cls(sizes, dense[sizes])

    @property
    def samples(self) -> int:
        """The number of samples counted."""
        return int(self.counts.sum())

    @property
    def tokens(self) -> int:
        """The tokens of all samples."""
        return int(self.sizes @ self.counts)


def index_type(count: int) -> type[np.signedinteger]:
    """Return the narrowest signed type that numbers `count` samples."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64


def stable_argsort(keys: NDArray[np.integer]) -> NDArray[np.intp]:
    """Sort keys in time linear in n, ties by position.

    NumPy's stable sort is a radix sort on 16-bit keys only, so wider keys are sorted by their
    low, then by their high half.

    Args:
        keys: (n,) integers, 0 <= key < 2^32 for the linear path, anything otherwise.
    """
    if keys.size == 0:
        return np.zeros(0, dtype=np.intp)
    low, high = int(keys.min()), int(keys.max())
    if low < 0 or high >= _DIGIT * _DIGIT:
        return np.argsort(keys, kind="stable")
    by_low = np.argsort(keys.astype(np.uint16), kind="stable")
    if high < _DIGIT:
        return by_low
    rest = (keys >> 16).astype(np.uint16)
    return by_low[np.argsort(rest[by_low], kind="stable")]


def ranked(lengths: NDArray[np.integer], seed: int | None) -> NDArray[np.integer]:
    """Rank samples from long to short.

    Args:
        lengths: (n,) integers, tokens.
        seed: None breaks ties by input order; a number permutes samples of equal length.

    Returns:
        (n,) int32 or int64, sample numbers.
    """
    dtype = index_type(lengths.size)
    longest = lengths.max() if lengths.size else 0
    if seed is None:
        return stable_argsort(longest - lengths).astype(dtype)
    shuffled = np.random.default_rng(seed).permutation(lengths.size).astype(dtype)
    return shuffled[stable_argsort((longest - lengths)[shuffled])]
