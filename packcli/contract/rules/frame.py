"""Frame rules: types, presence and lengths of columns, without which nothing can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import FORBIDDEN, Axis, columns_for
from packcli.contract.rows import declared, expected_dtype
from packcli.contract.rules.rule import Hit, Rule, first_per_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.cells import Cells
    from packcli.contract.rows import Rows

_BOUNDARY = {"cu_seqlens", "seq_lengths", "seq_start_id"}
_GRIDS = {"image_grid_thw", "video_grid_thw"}


def _forbidden(rows: Rows) -> Iterator[Hit]:
    for name in rows.cells:
        if name in FORBIDDEN:
            yield Hit(None, f"column {name!r} must not be stored: {FORBIDDEN[name]}")


def _present(rows: Rows) -> Iterator[Hit]:
    if "input_ids" not in rows.cells:
        yield Hit(None, "no column 'input_ids': there are no tokens to check")


@dataclass(frozen=True, slots=True)
class _Mistyped:
    name: str
    width: bool

    message: str


def _mistyped(rows: Rows) -> Iterator[_Mistyped]:
    """Find columns of another type, and tell whether only the width of numbers differs.

    Foreign files (those without our digests) may hold integers of any width, except in
    ``cu_seqlens``, which goes to the kernel as it stands.
    """
    own = "sample_digests" in rows.cells
    for name, cells in rows.cells.items():
        column = declared(name)
        if column is None or cells.dtype == (expected := expected_dtype(column)):
            continue
        width = _widthless(cells.dtype) == _widthless(expected)
        if width and not own and name != "cu_seqlens":
            continue
        yield _Mistyped(name, width, f"column {name!r}: type {cells.dtype}, expected {expected}")


def _widthless(dtype: str) -> str:
    return re.sub(r"\b(?:u?(int|float)\d+|large_(list))\b", r"\1\2", dtype)


def _types(rows: Rows) -> Iterator[Hit]:
    for found in _mistyped(rows):
        kept = found.name in _GRIDS or (found.name in _BOUNDARY and found.width)
        if not kept:
            yield Hit(None, found.message)
    yield from _beyond(rows)


def _beyond(rows: Rows) -> Iterator[Hit]:
    """Find numbers of a wider or unsigned type that the declared one does not hold.

    Told before any of them is read: cast, they would wrap around to values that look sound.
    """
    for name, cells in rows.cells.items():
        column = declared(name)
        if column is None or column.opaque or cells.values.dtype.kind not in "iu":
            continue
        kind = np.dtype(column.element)
        if kind.kind != "i" or kind == cells.values.dtype or np.can_cast(cells.values.dtype, kind):
            continue
        limits = np.iinfo(kind)
        places = np.flatnonzero((cells.values < limits.min) | (cells.values > limits.max))
        row = _rows_of(cells, places)
        for index in first_per_row(row):
            value = cells.values[places[index]]
            yield Hit(int(row[index]), f"column {name!r} holds {value}, which no {kind} is")


def _rows_of(cells: Cells, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell in which rows innermost elements lie."""
    for bounds in (cells.inner, cells.rows):
        if bounds is not None:
            places = np.searchsorted(bounds, places, side="right") - 1
    return places


def _boundary_types(rows: Rows) -> Iterator[Hit]:
    for found in _mistyped(rows):
        if found.name in _BOUNDARY and found.width:
            why = "varlen kernels take int32 boundaries and nothing else"
            yield Hit(None, f"{found.message}; {why}")


def _grid_types(rows: Rows) -> Iterator[Hit]:
    for found in _mistyped(rows):
        if found.name in _GRIDS:
            yield Hit(None, found.message)


def _nulls(rows: Rows) -> Iterator[Hit]:
    for name, cells in rows.cells.items():
        if cells.nulls and declared(name) is not None:
            yield Hit(None, f"column {name!r} holds {cells.nulls} nulls, expected none")


def _token_lengths(rows: Rows) -> Iterator[Hit]:
    for column in columns_for(rows.facts):
        cells = rows.cells.get(column.name)
        if cells is None or column.axis is not Axis.TOKEN:
            continue
        elements = _plane_lengths(cells, column.planes) if column.planes > 1 else cells.lengths
        for row in np.flatnonzero(elements != rows.tokens).tolist():
            yield Hit(row, f"{column.name} has {elements[row]} values, {rows.tokens[row]} expected")


def _plane_lengths(cells: Cells, planes: int) -> NDArray[np.int64]:
    """(R,) tokens of each row told by its planes; -1 where the planes are not alike."""
    if cells.rows is None or cells.inner is None:
        return np.full(len(cells.lengths), -1)
    result = np.full(len(cells.lengths), -1, dtype=np.int64)
    whole = np.flatnonzero(cells.lengths == planes)
    sizes = np.diff(cells.inner)
    each = sizes[cells.rows[:-1][whole][:, None] + np.arange(planes)]
    alike = (each == each[:, :1]).all(axis=1)
    result[whole[alike]] = each[alike, 0]
    return result


def _zero_rows(rows: Rows) -> Iterator[Hit]:
    for row in np.flatnonzero(rows.tokens == 0).tolist():
        yield Hit(row, "the pack has no tokens")


def _sample_lengths(rows: Rows) -> Iterator[Hit]:
    samples = rows.members.lengths
    for column in columns_for(rows.facts):
        cells = rows.cells.get(column.name)
        if cells is None or column.axis is not Axis.SAMPLE or column.name in _BOUNDARY:
            continue
        for row in np.flatnonzero(cells.lengths != samples).tolist():
            yield Hit(
                row, f"{column.name} has {cells.lengths[row]} values for {samples[row]} samples"
            )


def _grid_shapes(rows: Rows) -> Iterator[Hit]:
    for name in sorted(_GRIDS & set(rows.cells)):
        cells = rows.cells[name]
        if cells.rows is None or cells.inner is None:
            continue
        bad = np.flatnonzero(_bad_grids(cells.values, cells.inner, rows.facts.merge_size))
        row = np.searchsorted(cells.rows, bad, side="right") - 1
        for index in first_per_row(row):
            grid = cells.values[slice(*cells.inner[bad[index] : bad[index] + 2])].tolist()
            message = f"{name}: {grid} is not [t, h, w] in whole blocks of the vision merger"
            yield Hit(int(row[index]), message)


def _bad_grids(
    values: NDArray[Any], inner: NDArray[np.int64], merge_size: int
) -> NDArray[np.bool_]:
    bad = np.diff(inner) != 3  # noqa: PLR2004 - a grid is t, h, w
    if not bad.any():
        return _bad_sides(values.reshape(-1, 3), merge_size)
    three = np.flatnonzero(~bad)
    grids = values[inner[:-1][three][:, None] + np.arange(3)]
    bad[three] = _bad_sides(grids, merge_size)
    return bad


def _bad_sides(grids: NDArray[Any], merge_size: int) -> NDArray[np.bool_]:
    uneven = grids[:, 1:] % merge_size != 0
    return (grids < 1).any(axis=1) | uneven.any(axis=1)


def _media_lengths(rows: Rows) -> Iterator[Hit]:
    none = np.zeros(rows.count, dtype=np.int64)
    images, videos = (
        rows.cells[name].lengths if name in rows.cells else none
        for name in ("image_grid_thw", "video_grid_thw")
    )
    grids = {Axis.VIDEO: videos, Axis.MEDIUM: images + videos}
    for column in columns_for(rows.facts):
        cells = rows.cells.get(column.name)
        if cells is None or column.axis not in grids:
            continue
        told = grids[column.axis]
        for row in np.flatnonzero(cells.lengths != told).tolist():
            yield Hit(row, f"{column.name} has {cells.lengths[row]} values for {told[row]} grids")


FRAME = (
    Rule(
        "columns.missing",
        0,
        "input_ids, and in packcli's own shards every declared column, is there",
        "re-create the shard with `packcli pack`",
        frame=_present,
    ),
    Rule(
        "columns.forbidden",
        0,
        "no column carries a name that makes a trainer take another path, and packcli's own shards "
        "hold none that is declared for other models only",
        "drop the column; boundaries are carried by position_ids and cu_seqlens",
        frame=_forbidden,
    ),
    Rule(
        "columns.type",
        0,
        "every declared column has its declared type, or holds nothing that this type does not",
        "re-create the shard with `packcli pack`, or cast the column",
        frame=_types,
    ),
    Rule(
        "boundary.dtype",
        0,
        "boundaries are int32",
        "cast cu_seqlens to int32 before writing",
        frame=_boundary_types,
    ),
    Rule(
        "grid.dtype",
        0,
        "grids are int32 triples",
        "write grids as list<list<int32>> of [t, h, w]",
        frame=_grid_types,
    ),
    Rule(
        "columns.null",
        0,
        "no declared column holds nulls",
        "write empty lists instead of nulls",
        frame=_nulls,
    ),
    Rule("pack.empty", 1, "a pack has at least one token", "drop the row", frame=_zero_rows),
    Rule(
        "columns.length",
        1,
        "every token-aligned column of a row has T values",
        "move all token-aligned columns by one permutation",
        frame=_token_lengths,
    ),
    Rule(
        "grid.shape",
        1,
        "a grid is [t, h, w] >= 1 in whole merger blocks; per-medium columns have one value a grid",
        "write one [t, h, w], and one entry in media, for each image or video",
        frame=lambda rows: _chain(_grid_shapes(rows), _media_lengths(rows)),
    ),
)

SAMPLES = Rule(
    "columns.samples",
    7,
    "every per-sample column of a row has B values",
    "write one value for each sample of the pack",
    frame=_sample_lengths,
)


def _chain(*hits: Iterator[Hit]) -> Iterator[Hit]:
    for part in hits:
        yield from part
