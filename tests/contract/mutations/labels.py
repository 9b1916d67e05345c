"""Damage to labels, tokens, counts, names and digests."""

from __future__ import annotations

import numpy as np

from packcli.contract.offsets import Offsets
from tests.contract.mutations.bench import Place, UnfitError, mutation


def many_supervised(bench):
    return bench.sample(lambda row, _n, span: len(bench.supervised(row, span)) > 1)


def with_prompt(bench, most=1):
    return bench.sample(lambda row, _n, span: len(bench.prompt(row, span)) >= most)


@mutation("label.first")
def first_token_supervised(bench):
    row, sample, span = bench.sample()
    bench["labels"][row][span.start] = bench["input_ids"][row][span.start]
    return Place(row, sample)


@mutation("label.first")
def first_token_supervised_by_another(bench):
    row, sample, span = bench.sample()
    bench["labels"][row][span.start] = bench["input_ids"][row][span.start] + 1
    return Place(row, sample)


@mutation("label.value")
def label_of_another_token(bench):
    row, sample, span = bench.sample()
    bench["labels"][row][bench.pick(bench.supervised(row, span))] += 1
    return Place(row, sample)


@mutation("label.value")
def label_minus_one_for_ignored(bench):
    row, sample, span = with_prompt(bench)
    bench["labels"][row][bench.pick(bench.prompt(row, span))] = -1
    return Place(row, sample)


@mutation("label.value")
def labels_shifted_before(bench):
    row, sample, span = bench.sample()
    labels = np.append(bench["labels"][row][span][1:], -100)
    ids = bench["input_ids"][row][span]
    if labels[0] != -100 or np.all((labels == -100) | (labels == ids)):
        raise UnfitError
    bench["labels"][row][span] = labels
    return Place(row, sample)


@mutation("label.value")
def labels_in_another_sample_order(bench):
    row = bench.row(samples=2)
    cu = bench["cu_seqlens"][row]
    parts = np.split(bench["labels"][row], cu[1:-1])
    labels = np.concatenate(parts[::-1])
    wrong = (labels != -100) & (labels != bench["input_ids"][row])
    if np.any(labels[cu[:-1]] != -100) or not wrong.any():
        raise UnfitError
    bench["labels"][row] = labels
    return Place(row)


@mutation("label.value")
def supervised_token_changed(bench):
    row, sample, span = bench.sample()
    bench["input_ids"][row][bench.pick(bench.supervised(row, span))] = 1099
    return Place(row, sample)


@mutation("loss_scale.value", ["weights"])
def weight_negative(bench):
    row, sample, span = bench.sample()
    bench["loss_scale"][row][bench.pick(bench.supervised(row, span))] *= -1
    return Place(row, sample)


@mutation("loss_scale.value", ["weights"])
def weight_not_a_number(bench):
    row, sample, span = bench.sample()
    bench["loss_scale"][row][bench.pick(bench.supervised(row, span))] = np.nan
    return Place(row, sample)


@mutation("loss_scale.value", ["weights"])
def prompt_with_a_weight(bench):
    row, sample, span = with_prompt(bench)
    bench["loss_scale"][row][bench.pick(bench.prompt(row, span))] = 1
    return Place(row, sample)


@mutation("columns.length", ["weights"])
def weight_lost(bench):
    row = bench.row()
    bench["loss_scale"][row] = bench["loss_scale"][row][:-1]
    return Place(row)


@mutation("sample.digest")
def two_names_swapped(bench):
    row = bench.row(samples=2)
    names = bench["sample_ids"][row]
    names[0], names[-1] = names[-1], names[0]
    return Place(row)


@mutation("sample.digest")
def name_changed(bench):
    row, sample, _ = bench.sample()
    bench["sample_ids"][row][sample] += "x"
    return Place(row, sample)


@mutation("sample.digest", ["weights"])
def weight_changed(bench):
    row, sample, span = bench.sample()
    bench["loss_scale"][row][bench.pick(bench.supervised(row, span))] *= 2
    return Place(row, sample)


@mutation("label.none")
def sample_without_labels(bench):
    row, sample, span = bench.sample()
    bench["labels"][row][span] = -100
    return Place(row, sample)


@mutation("loss_mask.shift")
def label_masked(bench):
    row, sample, span = many_supervised(bench)
    bench["labels"][row][bench.pick(bench.supervised(row, span))] = -100
    return Place(row, sample)


@mutation("pack.counts")
def label_masked_with_its_mask(bench):
    label_masked(bench)
    for row in range(bench.count):
        before = bench["loss_mask"][row]
        if not np.array_equal(before, bench.remask(row)):
            return Place(row)
    raise UnfitError


def recount(bench, row):
    bench.remask(row)
    bench["num_supervised"][row] = int(np.sum(bench["labels"][row] != -100))


@mutation("sample.digest")
def label_masked_in_every_column(bench):
    place = label_masked(bench)
    recount(bench, place.row)
    return place


@mutation("sample.digest")
def prompt_token_supervised_in_every_column(bench):
    row, sample, span = with_prompt(bench)
    at = bench.pick(bench.prompt(row, span))
    bench["labels"][row][at] = bench["input_ids"][row][at]
    recount(bench, row)
    return Place(row, sample)


@mutation("sample.digest")
def supervised_token_changed_with_its_label(bench):
    row, sample, span = bench.sample()
    at = bench.pick(bench.supervised(row, span))
    bench["labels"][row][at] = bench["input_ids"][row][at] = 1099
    return Place(row, sample)


@mutation("loss_mask.shift")
def loss_mask_bit(bench):
    row, sample, span = bench.sample()
    bench["loss_mask"][row][bench.pick(range(span.start, span.stop))] ^= 1
    return Place(row, sample)


@mutation("loss_mask.shift")
def loss_mask_not_shifted(bench):
    row = bench.row()
    bench["loss_mask"][row] = (bench["labels"][row] != -100).astype(np.int8)
    return Place(row, 0)


@mutation("loss_mask.shift")
def loss_mask_at_last_token(bench):
    row, sample, span = bench.sample()
    bench["loss_mask"][row][span.stop - 1] = 1
    return Place(row, sample)


@mutation("vocab.range")
def token_negative(bench):
    row, sample, span = bench.sample()
    bench["input_ids"][row][span.start] = -1
    return Place(row, sample)


@mutation("vocab.range")
def token_is_the_vocabulary_size(bench):
    row, sample, span = with_prompt(bench)
    bench["input_ids"][row][bench.pick(bench.prompt(row, span))] = bench.facts.vocab_size
    return Place(row, sample)


@mutation("sample.digest")
def prompt_token_changed(bench):
    row, sample, span = with_prompt(bench)
    bench["input_ids"][row][bench.pick(bench.prompt(row, span))] = 1099
    return Place(row, sample)


@mutation("sample.digest")
def prompt_tokens_swapped(bench):
    row, sample, span = with_prompt(bench, most=2)
    places, ids = bench.prompt(row, span)[:2], bench["input_ids"][row]
    if ids[places[0]] == ids[places[1]]:
        raise UnfitError
    ids[places] = ids[places[::-1]]
    return Place(row, sample)


@mutation("sample.digest", ["text"])
def equal_samples_swapped(bench):
    row = bench.row(samples=2)
    cu = bench["cu_seqlens"][row]
    lengths = np.diff(cu)
    pairs = [(a, b) for b in range(len(lengths)) for a in range(b) if lengths[a] == lengths[b]]
    a, b = (slice(cu[n], cu[n + 1]) for n in bench.pick(pairs))
    for name in ("input_ids", "labels", "loss_mask"):
        values = bench[name][row]
        values[a], values[b] = values[b].copy(), values[a].copy()
    return Place(row)


@mutation("sample.digest")
def digest_bit(bench):
    row, sample, _ = bench.sample()
    bench["sample_digests"][row][sample, bench.rng.integers(16)] ^= 1 << bench.rng.integers(8)
    return Place(row, sample)


@mutation("sample.digest")
def digests_in_another_order(bench):
    row = bench.row(samples=2)
    bench["sample_digests"][row] = bench["sample_digests"][row][::-1].copy()
    return Place(row)


@mutation("sample.duplicate")
def record_twice(bench):
    packs = bench.packs
    order = np.append(np.arange(packs.members.total), bench.rng.integers(packs.members.total))
    lengths = packs.members.lengths
    lengths[-1] += 1
    bench.__init__(packs.take(order).grouped(Offsets.from_lengths(lengths)), bench.rng)
    return Place(bench.count - 1, int(lengths[-1]) - 1)


def off_by_one(name):
    def count_wrong(bench):
        row = bench.row()
        bench[name][row] += 1
        return Place(row)

    count_wrong.__name__ = f"{name}_wrong"
    return count_wrong


for scalar in ("length", "num_samples", "num_supervised", "sum_sq_len"):
    mutation("pack.counts")(off_by_one(scalar))
mutation("pack.counts", ["qwen2_vl", "qwen3_vl"])(off_by_one("num_patches"))
