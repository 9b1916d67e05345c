"""Lengths counted and ranked: what planning needs to know of n samples, in D distinct lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DENSE = 1 << 22
_PORTION = 1 << 18  # lengths counted at once: NumPy widens what it counts
_BITS = 32
_HALF = 1 << 31


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
        dense = np.zeros(longest + 1, dtype=np.int64)
        portion = max(_PORTION, dense.size)
        for start in range(0, lengths.size, portion):
            dense += np.bincount(lengths[start : start + portion], minlength=dense.size)
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


def stable_argsort(keys: NDArray[np.integer]) -> NDArray[np.integer]:
    """Sort keys, ties by position.

    Key and position side by side in one number sort faster than positions by their keys: in
    place, and with vector instructions where NumPy has them.

    Args:
        keys: (n,) integers; up to 2^31 of them, less than 2^31 apart, take the fast path.

    Returns:
        (n,) int32 or int64, positions.
    """
    dtype = index_type(keys.size)
    if keys.size == 0:
        return np.zeros(0, dtype=dtype)
    lowest = int(keys.min())
    if dtype is not np.int32 or int(keys.max()) - lowest >= _HALF:
        return np.argsort(keys, kind="stable").astype(dtype, copy=False)
    both = np.subtract(keys, lowest, dtype=np.int64)
    both <<= _BITS
    both += np.arange(keys.size, dtype=dtype)
    both.sort()
    return both.astype(dtype)  # keeps the low half


def ranked(lengths: NDArray[np.integer], seed: int | None) -> NDArray[np.integer]:
    """Rank samples from long to short.

    Args:
        lengths: (n,) integers, tokens.
        seed: None breaks ties by input order; a number permutes samples of equal length.

    Returns:
        (n,) int32 or int64, sample numbers.
    """
    if seed is None:
        return stable_argsort(np.negative(lengths))
    dtype = index_type(lengths.size)
    shuffled = np.random.default_rng(seed).permutation(lengths.size).astype(dtype)
    return shuffled[stable_argsort(np.negative(lengths)[shuffled])]
