"""Offsets: the one type for tokens in a sample, samples in a pack and grids in a sample."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    Places = NDArray[np.int64] | list[slice]

_INT32_MAX = np.iinfo(np.int32).max
_LONG = 48  # elements of a segment on average, from which slices are cheaper than single places


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """Where each of B segments starts and ends in a flat array: ``0 = v0 <= v1 <= … <= vB``.

    Boundaries of samples are strictly increasing (a sample has at least one token); counts of
    grids or media in a sample may be zero. `strict` tells which law an instance keeps.

    Attributes:
        values: (B + 1,) int32, the flat positions, first 0, last the total.
    """

    values: NDArray[np.int32]

    @classmethod
    def from_lengths(cls, lengths: ArrayLike) -> Offsets:
        """Add up segment lengths.

        Args:
            lengths: (B,) integers, each >= 0.

        Raises:
            ValueError: a length is negative or no integer, or the total is above int32.
        """
        sizes = _whole(lengths).reshape(-1)
        if sizes.size and sizes.min() < 0:
            raise ValueError(f"segment lengths must be >= 0, found {int(sizes.min())}")
        values = np.zeros(sizes.size + 1, dtype=np.int64)
        np.cumsum(sizes, out=values[1:])
        if values[-1] > _INT32_MAX:
            raise ValueError(f"{int(values[-1])} elements do not fit into int32 offsets")
        return cls(values.astype(np.int32))

    @classmethod
    def from_values(cls, values: ArrayLike) -> Offsets:
        """Take positions as they stand, and check the law.

        Args:
            values: (B + 1,) integers.

        Raises:
            ValueError: not one-dimensional, not starting at 0, decreasing, or above int32.
        """
        array = _whole(values)
        if array.ndim != 1 or array.size == 0 or array[0] != 0 or np.any(np.diff(array) < 0):
            raise ValueError(f"offsets must be 0 = v0 <= v1 <= …, found {array.tolist()[:8]}")
        if array[-1] > _INT32_MAX:
            raise ValueError(f"{int(array[-1])} elements do not fit into int32 offsets")
        return cls(array.astype(np.int32))

    @classmethod
    def unit(cls, count: int) -> Offsets:
        """Return `count` segments of one element each."""
        return cls(np.arange(count + 1, dtype=np.int32))

    def __len__(self) -> int:
        """Return the number of segments, B."""
        return self.values.size - 1

    def __eq__(self, other: object) -> bool:
        """Two offsets are equal when their values are."""
        return isinstance(other, Offsets) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        """The number of elements covered by all segments."""
        return int(self.values[-1])

    @property
    def starts(self) -> NDArray[np.int32]:
        """(B,) int32, the first element of each segment."""
        return self.values[:-1]

    @property
    def ends(self) -> NDArray[np.int32]:
        """(B,) int32, one past the last element of each segment."""
        return self.values[1:]

    @property
    def lengths(self) -> NDArray[np.int32]:
        """(B,) int32, the elements in each segment."""
        return np.diff(self.values)

    @property
    def strict(self) -> bool:
        """Whether no segment is empty: the law of sample boundaries."""
        return bool(np.all(np.diff(self.values) > 0))

    def slices(self) -> Iterator[slice]:
        """Yield each segment as a slice of the flat array."""
        bounds = self.values.tolist()
        return (slice(start, stop) for start, stop in pairwise(bounds))

    def segment_ids(self) -> NDArray[np.int32]:
        """(total,) int32, the segment that each element belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def restarting(self) -> NDArray[np.int32]:
        """(total,) int32, 0, 1, 2, … starting again at every segment: the text plane."""
        return np.arange(self.total, dtype=np.int32) - np.repeat(self.starts, self.lengths)

    def through(self, inner: Offsets) -> Offsets:
        """Compose two levels: self groups the segments of `inner`; return elements in each group.

        Samples in a pack through tokens in a sample gives tokens in a pack.

        Raises:
            ValueError: self does not group exactly the segments of `inner`.
        """
        if self.total != len(inner):
            raise ValueError(f"{self.total} grouped segments, {len(inner)} inner ones")
        return Offsets(inner.values[self.values])

    def gather(self, order: NDArray[np.integer]) -> NDArray[np.int64]:
        """Flat element positions of the segments taken in `order`.

        Args:
            order: (n,) segment numbers; any may repeat or be left out.

        Returns:
            (sum of their lengths,) int64: ``flat[offsets.gather(order)]`` holds the segments
            one after the other.
        """
        lengths = self.lengths[order].astype(np.int64)
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if ends.size else 0
        shift = self.starts[order].astype(np.int64) - (ends - lengths)
        return np.arange(total, dtype=np.int64) + np.repeat(shift, lengths)

    @property
    def long(self) -> bool:
        """Whether slices of segments are cheaper than the places of their elements."""
        return self.total >= _LONG * len(self)

    def places(self, order: NDArray[np.integer]) -> Places:
        """Say where the segments taken in `order` lie: as slices where they are long.

        A slice costs as much as some dozens of single elements, and needs no index in memory.

        Args:
            order: (n,) segment numbers; any may repeat or be left out.
        """
        if not len(order) or not self.long:
            return self.gather(order)
        starts, ends = self.starts[order], self.ends[order]
        return [slice(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)]

    def span(self, start: int, stop: int) -> Offsets:
        """Offsets of neighbouring segments, counted from the first of them."""
        return Offsets(self.values[start : stop + 1] - self.values[start])

    def take(self, order: NDArray[np.integer]) -> Offsets:
        """Offsets of the segments taken in `order`."""
        return Offsets.from_lengths(self.lengths[order])


def _whole(numbers: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(numbers)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"offsets and lengths are integers, found {array.dtype}")
    # int64 first: differences of unsigned numbers wrap around instead of getting negative
    return array.astype(np.int64)
