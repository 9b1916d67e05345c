"""Damage to types, presence, nulls and lengths of columns."""

from __future__ import annotations

import numpy as np

from packcli.contract.columns import FORBIDDEN
from tests.contract.mutations.bench import MEDIA, Place, mutation


@mutation("columns.missing")
def no_tokens(bench):
    bench.drop("input_ids")
    return Place(None)


def forbidden(name):
    def stored(bench):
        bench.columns[name] = [np.ones(len(ids), np.int8) for ids in bench["input_ids"]]
        bench.dtypes[name], bench.nulls[name] = "list<int8>", 0
        return Place(None)

    stored.__name__ = f"stored_{name}"
    return stored


for forbidden_name in FORBIDDEN:
    mutation("columns.forbidden")(forbidden(forbidden_name))


def retyped(name, dtype):
    def typed(bench):
        bench.dtypes[name] = dtype
        if "list" not in dtype:
            bench.columns[name] = [1] * bench.count
        return Place(None)

    typed.__name__ = f"{name}_as_{dtype}"
    return typed


for typed_name, its_dtype in (
    ("labels", "list<int64>"),
    ("input_ids", "large_list<int32>"),
    ("position_ids", "list<list<int32>>"),
    ("length", "int64"),
    ("cu_seqlens", "int32"),
    ("seq_lengths", "list<string>"),
    ("sample_digests", "list<binary>"),
):
    mutation("columns.type")(retyped(typed_name, its_dtype))
mutation("columns.type", MEDIA)(retyped("mrope_position_ids", "list<int32>"))
mutation("boundary.dtype")(retyped("cu_seqlens", "list<int64>"))
mutation("boundary.dtype")(retyped("seq_lengths", "list<int64>"))
mutation("boundary.dtype")(retyped("seq_start_id", "list<uint32>"))
mutation("grid.dtype", MEDIA)(retyped("image_grid_thw", "list<int32>"))
mutation("grid.dtype", MEDIA)(retyped("video_grid_thw", "list<list<int64>>"))


@mutation("columns.null")
def null_list(bench):
    bench.nulls["labels"] = 1
    return Place(None)


@mutation("pack.empty")
def row_of_nothing(bench):
    row = bench.row()
    for values in bench.columns.values():
        if isinstance(values[row], list | np.ndarray):
            values[row] = values[row][:0]
    if "mrope_position_ids" in bench.columns:
        bench["mrope_position_ids"][row] = [np.zeros(0, np.int32)] * 3
    return Place(row)


def shortened(name):
    def short(bench):
        row = bench.row()
        bench[name][row] = bench[name][row][:-1]
        return Place(row)

    short.__name__ = f"{name}_too_short"
    return short


for aligned in ("labels", "position_ids", "loss_mask"):
    mutation("columns.length")(shortened(aligned))
mutation("columns.length", MEDIA)(shortened("mm_token_type_ids"))
mutation("columns.length", MEDIA)(shortened("mrope_position_ids"))
for named in ("sample_ids", "sample_sources", "sample_digests"):
    mutation("columns.samples")(shortened(named))


@mutation("columns.length", MEDIA)
def one_plane_short(bench):
    row = bench.row()
    planes = bench["mrope_position_ids"][row]
    planes[1] = planes[1][:-1]
    return Place(row)


@mutation("columns.length")
def token_column_of_another_row(bench):
    row = bench.row()
    bench["labels"][row] = np.append(bench["labels"][row], 5)
    return Place(row)
