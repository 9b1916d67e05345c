"""Damage to padding: what fills it, where it stands, and what it makes up to."""

from __future__ import annotations

import numpy as np

from packcli.contract.padding import NAME
from tests.contract.mutations.bench import Place, UnfitError, mutation

FAMILIES = ("padded", "padded_vision")


def padding(bench):
    """(row, number, span) of some padding."""
    return bench.sample(lambda row, number, _span: bench["sample_ids"][row][number] == NAME)


@mutation("padding.value", FAMILIES)
def padding_of_another_token(bench):
    row, number, span = padding(bench)
    bench["input_ids"][row][span.start] += 1
    return Place(row, number)


@mutation("padding.value", FAMILIES)
def padding_supervised(bench):
    row, number, span = padding(bench)
    bench["labels"][row][span.stop - 1] = bench["input_ids"][row][span.stop - 1]
    return Place(row, number)


@mutation("padding.value", FAMILIES)
def sample_named_padding(bench):
    row, number, _span = bench.sample(
        lambda row, number, span: (
            number and NAME not in list(bench["sample_ids"][row][number - 1 : number + 1])
        )
    )
    bench["sample_ids"][row][number] = NAME
    bench["sample_sources"][row][number] = ""
    return Place(row, number)


@mutation("label.none", FAMILIES)
def padding_named_as_a_sample(bench):
    row, number, _span = padding(bench)
    bench["sample_ids"][row][number] = "talk-7"
    return Place(row, number)


@mutation("padding.place", FAMILIES)
def padding_cut_in_two(bench):
    row, number, span = padding(bench)
    if span.stop - span.start < 2:
        raise UnfitError
    lengths = np.diff(bench["cu_seqlens"][row]).tolist()
    lengths[number : number + 1] = [1, lengths[number] - 1]
    names = ("cu_seqlens", "seq_lengths", "seq_start_id", "max_seqlen", "position_ids")
    bench.bound(row, lengths, names)
    for name in ("sample_ids", "sample_sources", "sample_digests"):
        values = bench[name][row]
        bench[name][row] = np.insert(values, number, values[number], axis=0)
    if "mrope_position_ids" in bench.columns:
        for plane in bench["mrope_position_ids"][row]:
            plane[span] = bench["position_ids"][row][span]
    return Place(row, number + 1)


@mutation("padding.multiple", FAMILIES)
def padded_boundary_moved(bench):
    row = bench.row(samples=3)
    bench["cu_seqlens_padded"][row][1] += 1
    return Place(row)


@mutation("padding.multiple", FAMILIES)
def padded_boundary_lost(bench):
    row = bench.pick([n for n in range(bench.count) if len(bench["cu_seqlens_padded"][n]) > 2])
    bench["cu_seqlens_padded"][row] = np.delete(bench["cu_seqlens_padded"][row], 1)
    return Place(row)


@mutation("padding.multiple", FAMILIES)
def tail_not_padded(bench):
    row, number, span = padding(bench)
    lengths = np.diff(bench["cu_seqlens"][row]).tolist()
    if number + 1 < len(lengths) or len(lengths) < 2:
        raise UnfitError
    for name in [name for name, values in bench.columns.items() if _by_token(bench, values, row)]:
        bench[name][row] = bench[name][row][: span.start]
    if "mrope_position_ids" in bench.columns:
        planes = bench["mrope_position_ids"][row]
        planes[:] = [plane[: span.start] for plane in planes]
    for name in ("sample_ids", "sample_sources", "sample_digests"):
        bench[name][row] = bench[name][row][:-1]
    names = ("cu_seqlens", "seq_lengths", "seq_start_id", "max_seqlen", "sum_sq_len")
    bench.bound(row, lengths[:-1], names)
    bench["length"][row] = span.start
    bench["cu_seqlens_padded"][row][-1] = span.start
    return Place(row)


def _by_token(bench, values, row):
    tokens = int(bench["cu_seqlens"][row][-1])
    return isinstance(values[row], np.ndarray) and len(values[row]) == tokens
