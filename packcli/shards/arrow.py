"""Columns to Arrow and back, by the one column table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packcli.contract.columns import Axis, Column, columns_for
from packcli.contract.derived import DERIVED, medium_shift, padded_rows, window_rows
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, boxed
from packcli.contract.rows import Cells, Rows, declared, rows_from_planes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts


def _list_of(element: pa.DataType) -> pa.DataType:
    """Say that no element is null: reading what could be null costs a third more time."""
    return pa.list_(pa.field("element", element, nullable=False))


_ELEMENTS: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "string": pa.string(),
    "digest": pa.string(),
    "list<int32>": _list_of(pa.int32()),
    "list<float64>": _list_of(pa.float64()),
}

_HEXADECIMAL = b"0123456789abcdef"
_DIGITS = 32


def schema(facts: ModelFacts) -> pa.Schema:
    """Return the Arrow schema of a model's shards; ``a.b`` columns become struct ``a``."""
    fields: list[pa.Field] = []
    for name, columns in _by_field(facts):
        if len(columns) == 1 and "." not in columns[0].name:
            fields.append(pa.field(name, _type(columns[0]), nullable=False))
            continue
        inner = [
            pa.field(c.name.split(".")[1], _ELEMENTS[c.dtype], nullable=False) for c in columns
        ]
        fields.append(pa.field(name, _list_of(pa.struct(inner)), nullable=False))
    return pa.schema(fields)


def _by_field(facts: ModelFacts) -> list[tuple[str, list[Column]]]:
    groups: dict[str, list[Column]] = {}
    for column in columns_for(facts):
        groups.setdefault(column.name.split(".")[0], []).append(column)
    return list(groups.items())


def _type(column: Column) -> pa.DataType:
    element = _ELEMENTS[column.dtype]
    if column.axis is Axis.PACK:
        return element
    nested = column.planes > 1 or (column.width > 1 and column.dtype != "digest")
    return _list_of(_list_of(element)) if nested else _list_of(element)


def to_batch(packs: Packs) -> pa.RecordBatch:
    """Lay packs out as rows."""
    arrays = [
        _list(packs, columns[0]) if "." not in columns[0].name else _structs(packs, columns)
        for _, columns in _by_field(packs.facts)
    ]
    return pa.record_batch(arrays, schema=schema(packs.facts))


def _values(packs: Packs, column: Column) -> NDArray[Any]:
    if column.derived:
        return DERIVED[column.name](packs)
    values = packs.columns[column.name]
    return values + medium_shift(packs) if column.shifts else values


def _row_offsets(packs: Packs, axis: Axis) -> NDArray[np.int32]:
    if axis is Axis.SAMPLE:
        return packs.members.values
    if axis is Axis.OFFSET:
        return packs.members.values + np.arange(len(packs) + 1, dtype=np.int32)
    if axis is Axis.WINDOW:
        return window_rows(packs)
    if axis is Axis.PADDED:
        return padded_rows(packs)
    return packs.members.through(packs.axes[axis]).values


def _list(packs: Packs, column: Column) -> pa.Array:
    values = _values(packs, column)
    if column.axis is Axis.PACK:
        return pa.array(values, _ELEMENTS[column.dtype])
    rows = _row_offsets(packs, column.axis)
    if column.planes > 1:
        lengths = packs.pack_tokens.lengths
        planes = np.repeat(lengths, column.planes)
        inner = _lists(
            Offsets.from_lengths(planes).values, _flat(rows_from_planes(values, lengths))
        )
        return _lists(np.arange(len(packs) + 1, dtype=np.int32) * column.planes, inner)
    return _lists(rows, _elements(column, values))


def _elements(column: Column, values: NDArray[Any]) -> pa.Array:
    if column.dtype == "digest":
        return _hexadecimal(values)
    if column.width > 1:
        bounds = np.arange(len(values) + 1, dtype=np.int32) * column.width
        return _lists(bounds, _flat(values.reshape(-1)))
    if column.opaque:
        return pa.array(values.tolist(), _ELEMENTS[column.dtype])
    return _flat(values)


def _structs(packs: Packs, columns: list[Column]) -> pa.Array:
    fields = [pa.field(c.name.split(".")[1], _ELEMENTS[c.dtype], nullable=False) for c in columns]
    values = [_elements(column, _values(packs, column)) for column in columns]
    return _lists(
        _row_offsets(packs, columns[0].axis), pa.StructArray.from_arrays(values, fields=fields)
    )


def _flat(values: NDArray[Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values))


def _lists(offsets: NDArray[np.int32], values: pa.Array) -> pa.Array:
    kind = _list_of(values.type)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def to_rows(table: pa.Table | pa.RecordBatch, facts: ModelFacts | None = None) -> Rows:
    """Read rows of any Parquet file, believing nothing; structs become ``name.field``."""
    cells: dict[str, Cells] = {}
    for place, name in enumerate(table.schema.names):
        column = table.column(place)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
        cells |= _cells(name, array)
    return Rows(table.num_rows, cells) if facts is None else Rows(table.num_rows, cells, facts)


def _cells(name: str, array: pa.Array) -> dict[str, Cells]:
    dtype, nulls = _spelled(array.type), array.null_count
    if not _is_list(array.type):
        return {name: Cells(_numpy(array), None, None, dtype, nulls)}
    rows, values = _unwrap(array)
    if pa.types.is_struct(values.type):
        nulls += values.null_count
        return {
            f"{name}.{field.name}": _struct_cells(values.field(index), rows, nulls)
            for index, field in enumerate(values.type)
        }
    if not _is_list(values.type):
        nulls += values.null_count
        if _is_digest(name) and dtype == "list<string>" and not nulls:
            return {name: _digest_cells(values, rows)}
        return {name: Cells(_numpy(values), rows, None, dtype, nulls)}
    inner, leaves = _unwrap(values)
    nulls += values.null_count + leaves.null_count
    return {name: Cells(_numpy(leaves), rows, inner, dtype, nulls)}


def _struct_cells(array: pa.Array, rows: NDArray[np.int64], nulls: int) -> Cells:
    dtype = f"list<{_spelled(array.type)}>"
    return Cells(_numpy(array), rows, None, dtype, nulls + array.null_count)


def _is_digest(name: str) -> bool:
    column = declared(name)
    return column is not None and column.dtype == "digest"


def _hexadecimal(digests: NDArray[np.uint8]) -> pa.Array:
    """Spell (S, 16) bytes as strings: every reader and every format of `datasets` takes those."""
    pairs = np.stack([digests >> 4, digests & 15], axis=-1).reshape(-1)
    letters = np.frombuffer(_HEXADECIMAL, np.uint8)[pairs]
    ends = np.arange(len(digests) + 1, dtype=np.int32) * _DIGITS
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(letters))]
    return pa.StringArray.from_buffers(len(digests), *buffers[1:])


def _digest_cells(array: pa.Array, rows: NDArray[np.int64]) -> Cells:
    """Read digests back as (S, 16) bytes; what is none keeps a type of its own."""
    spelled = array.to_pylist()
    whole = all(len(one) == _DIGITS for one in spelled)
    try:
        packed = bytes.fromhex("".join(spelled) if whole else "?")
    except ValueError:
        dtype = f"list<string> without {_DIGITS} hexadecimal digits each"
        return Cells(boxed(spelled), rows, None, dtype)
    return Cells(np.frombuffer(packed, np.uint8).reshape(-1, 16), rows, None, "list<string>")


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _unwrap(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Offsets from 0 and the flat elements of a list array; null lists count as empty."""
    if pa.types.is_fixed_size_list(array.type) or array.null_count:
        array = array.cast(pa.large_list(array.type.value_type))
        array = pa.array(array.to_pylist(), array.type) if array.null_count else array
    offsets = array.offsets.to_numpy().astype(np.int64)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], values


def _numpy(array: pa.Array) -> NDArray[Any]:
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        known = array.fill_null(0) if array.null_count else array
        return known.to_numpy(zero_copy_only=False)
    return boxed(array.to_pylist())


def _spelled(kind: pa.DataType) -> str:
    """Spell a type without the names of list elements, e.g. ``list<list<int32>>``."""
    if _is_list(kind):
        size = "large_list" if pa.types.is_large_list(kind) else "list"
        return f"{size}<{_spelled(kind.value_type)}>"
    names = {"float": "float32", "double": "float64", "halffloat": "float16"}
    return names.get(str(kind), str(kind))
