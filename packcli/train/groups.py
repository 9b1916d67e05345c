"""One row group in memory: every column flat, and where each row stands in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

OF_MEDIA = frozenset(
    {"mrope_position_ids", "image_grid_thw", "video_grid_thw", "second_per_grid_ts", "media"}
)
"""Columns that need not be read where there are no media: the planes then are those of text."""

_OBJECTS = frozenset({"media", "sample_ids", "sample_sources"})


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Rows of one row group; numbers are views of Arrow's memory.

    Attributes:
        numbers: for each column of numbers (N,) values and (R + 1,) where rows start.
        objects: columns of texts and structs, read when a row is.
        mrope: rows have planes of positions; without media they are those of text.
    """

    numbers: Mapping[str, tuple[NDArray[Any], NDArray[np.integer]]]
    objects: Mapping[str, pa.Array]
    mrope: bool

    @classmethod
    def of(cls, table: pa.Table, *, mrope: bool) -> Group:
        """Lay out a table."""
        columns = {name: _whole(table.column(name)) for name in table.column_names}
        objects = {name: column for name, column in columns.items() if name in _OBJECTS}
        numbers = {n: _flat(column) for n, column in columns.items() if n not in objects}
        return cls(numbers, objects, mrope=mrope)

    def row(self, place: int) -> dict[str, Any]:
        """Return a row, as `Pack.from_row` takes it."""
        row: dict[str, Any] = {
            name: values[starts[place] : starts[place + 1]]
            for name, (values, starts) in self.numbers.items()
        }
        for name, column in self.objects.items():
            row[name] = column[place].as_py()
        if self.mrope and "mrope_position_ids" not in row:
            plane = Offsets.from_values(row["cu_seqlens"]).restarting()
            row["mrope_position_ids"] = np.broadcast_to(plane, (3, plane.size))
        return row


def _whole(column: pa.ChunkedArray) -> pa.Array:
    # combining copies, one chunk too
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _flat(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.integer]]:
    """Return the values of lists, and lists of lists, and where rows start among them."""
    starts = column.offsets.to_numpy()
    values = column.values
    while isinstance(values, pa.ListArray | pa.LargeListArray):
        starts = values.offsets.to_numpy()[starts]
        values = values.values
    return values.to_numpy(zero_copy_only=False), starts
