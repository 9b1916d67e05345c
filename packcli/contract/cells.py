"""Cells: one column of rows, as it rests on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """One column of R rows.

    Attributes:
        values: (N,) the innermost elements of all rows, one behind the other.
        rows: (R + 1,) int64, where each row's elements (or inner lists) start; None when the
            column holds one value a row.
        inner: (M + 1,) int64, where each inner list starts in `values`; None without them.
        dtype: the type on disk, e.g. ``list<int32>``.
        nulls: how many values or lists are null.
    """

    values: NDArray[Any]
    rows: NDArray[np.int64] | None
    inner: NDArray[np.int64] | None
    dtype: str
    nulls: int = 0

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(R,) int64, elements (or inner lists) of each row."""
        if self.rows is None:
            return np.ones(len(self.values), dtype=np.int64)
        return np.diff(self.rows)

    def take(self, keep: NDArray[np.int64]) -> Cells:
        """Keep some rows."""
        if self.rows is None:
            return Cells(self.values[keep], None, None, self.dtype, self.nulls)
        rows, places = _gather(self.rows, keep)
        if self.inner is None:
            return Cells(self.values[places], rows, None, self.dtype, self.nulls)
        inner, places = _gather(self.inner, places)
        return Cells(self.values[places], rows, inner, self.dtype, self.nulls)


def _gather(
    offsets: NDArray[np.int64], keep: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sizes = np.diff(offsets)[keep]
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    places = np.arange(total) + np.repeat(offsets[:-1][keep] - (ends - sizes), sizes)
    return np.concatenate([[0], ends]), places
