"""Damage to boundaries: in one column, in all of them, and with the positions."""

from __future__ import annotations

import numpy as np

from tests.contract.mutations.bench import COUNTED, EVERYWHERE, Place, UnfitError, mutation

MROPE = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")


@mutation("boundary.start")
def cu_starts_at_one(bench):
    row = bench.row()
    bench["cu_seqlens"][row][0] = 1
    return Place(row)


@mutation("boundary.start")
def cu_without_zero(bench):
    row = bench.row()
    bench["cu_seqlens"][row] = bench["cu_seqlens"][row][1:]
    return Place(row)


@mutation("boundary.start")
def cu_empty(bench):
    row = bench.row()
    bench["cu_seqlens"][row] = bench["cu_seqlens"][row][:0]
    return Place(row)


@mutation("boundary.start")
def cu_only_zero(bench):
    row = bench.row()
    bench["cu_seqlens"][row] = bench["cu_seqlens"][row][:1]
    return Place(row)


@mutation("boundary.end")
def cu_ends_early(bench):
    row = bench.row()
    bench["cu_seqlens"][row][-1] -= 1
    return Place(row)


@mutation("boundary.end")
def cu_ends_late(bench):
    row = bench.row()
    bench["cu_seqlens"][row][-1] += 1
    return Place(row)


@mutation("boundary.end")
def cu_of_three_planes(bench):
    row = bench.row()
    bench["cu_seqlens"][row] = np.arange(4) * len(bench["input_ids"][row])
    return Place(row)


@mutation("boundary.end")
def last_sample_not_counted(bench):
    row = bench.row(samples=2)
    bench["cu_seqlens"][row] = bench["cu_seqlens"][row][:-1]
    return Place(row)


@mutation("boundary.increasing")
def boundary_repeated(bench):
    row, sample, span = bench.sample(lambda _row, sample, _span: sample > 0)
    bench["cu_seqlens"][row] = np.insert(bench["cu_seqlens"][row], sample, span.start)
    return Place(row, sample)


@mutation("boundary.increasing")
def boundaries_out_of_order(bench):
    row = bench.row(samples=3)
    cu = bench["cu_seqlens"][row]
    cu[[1, 2]] = cu[[2, 1]]
    return Place(row, 1)


def merged(bench, names):
    row = bench.row(samples=2)
    lengths = np.diff(bench["cu_seqlens"][row])
    sample = int(bench.rng.integers(len(lengths) - 1))
    joined = np.delete(lengths, sample)
    joined[sample] = lengths[sample] + lengths[sample + 1]
    bench.bound(row, joined, names)
    return row, sample


def split(bench, names):
    row, sample, span = bench.sample(lambda _row, _sample, span: span.stop - span.start > 1)
    cut = int(bench.rng.integers(1, span.stop - span.start))
    lengths = np.diff(bench["cu_seqlens"][row])
    parts = np.insert(lengths, sample, cut)
    parts[sample + 1] -= cut
    bench.bound(row, parts, names)
    return row, sample


def shifted(bench, names, by):
    row = bench.row(samples=2)
    lengths = np.diff(bench["cu_seqlens"][row])
    sample = int(bench.rng.integers(len(lengths) - 1))
    lengths[sample] += by
    lengths[sample + 1] -= by
    if lengths.min() < 1:
        raise UnfitError
    bench.bound(row, lengths, names)
    return row, sample


@mutation("boundary.lengths")
def merge_in_cu(bench):
    return Place(merged(bench, ["cu_seqlens"])[0])


@mutation("boundary.lengths")
def split_in_cu(bench):
    return Place(split(bench, ["cu_seqlens"])[0])


@mutation("boundary.lengths")
def shift_in_cu(bench):
    return Place(*shifted(bench, ["cu_seqlens"], bench.pick([-1, 1])))


@mutation("boundary.lengths")
def merge_in_seq_lengths(bench):
    return Place(merged(bench, ["seq_lengths"])[0])


@mutation("boundary.lengths")
def shift_in_seq_lengths(bench):
    return Place(*shifted(bench, ["seq_lengths"], 1))


@mutation("boundary.lengths")
def shift_in_seq_start_id(bench):
    row, sample = shifted(bench, ["seq_start_id"], 1)
    return Place(row, sample + 1)


@mutation("boundary.lengths")
def merge_but_in_seq_start_id(bench):
    return Place(merged(bench, ["cu_seqlens", "seq_lengths", "max_seqlen"])[0])


@mutation("position.reset")
def merge_in_all(bench):
    row, sample = merged(bench, EVERYWHERE)
    return Place(row, sample)


@mutation("position.reset")
def split_in_all(bench):
    row, sample = split(bench, EVERYWHERE)
    return Place(row, sample + 1)


@mutation("position.reset")
def shift_left_in_all(bench):
    row, sample = shifted(bench, EVERYWHERE, -1)
    return Place(row, sample + 1)


@mutation("position.reset")
def shift_right_in_all(bench):
    return Place(*shifted(bench, EVERYWHERE, 1))


@mutation("position.reset")
def lengths_in_other_order(bench):
    row = bench.row(samples=2)
    lengths = np.diff(bench["cu_seqlens"][row])
    if np.array_equal(lengths, lengths[::-1]):
        raise UnfitError
    bench.bound(row, lengths[::-1], EVERYWHERE)
    return Place(row)


@mutation("position.reset")
def whole_pack_as_one_sample(bench):
    row = bench.row(samples=2)
    bench.bound(row, [len(bench["input_ids"][row])], EVERYWHERE)
    return Place(row, 0)


@mutation("columns.samples")
def merge_in_all_and_positions(bench):
    return Place(merged(bench, (*EVERYWHERE, *COUNTED, "position_ids"))[0])


@mutation("columns.samples")
def split_in_all_and_positions(bench):
    return Place(split(bench, (*EVERYWHERE, *COUNTED, "position_ids"))[0])


@mutation("label.first")
def shift_left_in_all_and_positions(bench):
    row, sample = shifted(bench, (*EVERYWHERE, *COUNTED, "position_ids"), -1)
    bench.remask(row)
    return Place(row, sample + 1)


def merge_named(bench):
    row, sample = merged(bench, (*EVERYWHERE, *COUNTED, "position_ids"))
    for name in ("sample_ids", "sample_sources", "sample_digests"):
        bench[name][row] = np.delete(bench[name][row], sample + 1, axis=0)
    if bench.facts.has_media:
        bench["media.sample_index"][row] -= bench["media.sample_index"][row] > sample
    return Place(row, sample)


@mutation("sample.digest", ["text"])
def merge_in_every_column_of_text(bench):
    return merge_named(bench)


@mutation("mrope.sample", MROPE)
def merge_in_every_column_but_mrope(bench):
    return merge_named(bench)


@mutation("label.none", ["text"])
def prompt_cut_off_in_every_column(bench):
    row, sample, span = bench.sample(lambda row, _n, span: len(bench.prompt(row, span)))
    cut = bench.pick(bench.prompt(row, span)) - span.start
    lengths = np.insert(np.diff(bench["cu_seqlens"][row]), sample, cut)
    lengths[sample + 1] -= cut
    bench.bound(row, lengths, (*EVERYWHERE, *COUNTED, "position_ids"))
    for name in ("sample_ids", "sample_digests"):
        bench[name][row] = np.insert(bench[name][row], sample, bench[name][row][sample], axis=0)
    bench["sample_sources"][row] = np.insert(bench["sample_sources"][row], sample, "cut")
    return Place(row, sample)


@mutation("boundary.max_seqlen")
def max_seqlen_small(bench):
    row = bench.row()
    bench["max_seqlen"][row] -= 1
    return Place(row)


@mutation("boundary.max_seqlen")
def max_seqlen_is_the_pack(bench):
    row = bench.row(samples=2)
    bench["max_seqlen"][row] = len(bench["input_ids"][row])
    return Place(row)


@mutation("boundary.max_seqlen")
def max_seqlen_of_another_row(bench):
    row, other = bench.row(), bench.row()
    if bench["max_seqlen"][row] == bench["max_seqlen"][other]:
        raise UnfitError
    bench["max_seqlen"][row] = bench["max_seqlen"][other]
    return Place(row)


@mutation("boundary.max_seqlen")
def max_seqlen_not_there(bench):
    bench.drop("max_seqlen")
    return Place(None)


@mutation("position.reset")
def positions_run_on(bench):
    row = bench.row(samples=2)
    bench["position_ids"][row] = np.arange(len(bench["input_ids"][row]))
    return Place(row, 1)


@mutation("position.reset")
def positions_start_at_one(bench):
    row, sample, span = bench.sample()
    bench["position_ids"][row][span] += 1
    return Place(row, sample)


@mutation("position.reset")
def one_position_wrong(bench):
    row, sample, span = bench.sample()
    bench["position_ids"][row][bench.pick(range(span.start, span.stop))] += 1
    return Place(row, sample)


@mutation("position.reset")
def positions_all_zero(bench):
    row, sample, span = bench.sample(lambda _row, _sample, span: span.stop - span.start > 1)
    bench["position_ids"][row][span] = 0
    return Place(row, sample)


@mutation("position.reset", MROPE)
def temporal_plane_as_positions(bench):
    row = bench.row()
    plane = bench["mrope_position_ids"][row][0]
    if np.array_equal(plane, bench["position_ids"][row]):
        raise UnfitError
    bench["position_ids"][row] = plane.copy()
    return Place(row)


@mutation("position.reset")
def tokens_permuted_boundaries_not(bench):
    row = bench.row(samples=2)
    lengths = np.diff(bench["cu_seqlens"][row])
    if lengths[0] == lengths[-1]:
        raise UnfitError
    parts = np.split(np.arange(lengths.sum()), np.cumsum(lengths)[:-1])
    order = np.concatenate([parts[-1], *parts[1:-1], parts[0]])
    for name in ("input_ids", "labels", "loss_mask", "position_ids"):
        bench[name][row] = bench[name][row][order]
    return Place(row)
