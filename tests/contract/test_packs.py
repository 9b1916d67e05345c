from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.columns import BY_NAME, Axis, columns_for
from packcli.contract.derived import DERIVED, medium_shift
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, boxed
from packcli.contract.rules import check
from packcli.shards.arrow import to_batch, to_rows
from tests.contract.making import MODELS, make_packs, make_samples

FAMILY = st.sampled_from(sorted(MODELS))
SEED = st.integers(0, 10**6)
QUICK = settings(max_examples=40, deadline=None)


def packs_of(family, seed, **sizes):
    return make_packs(np.random.default_rng(seed), MODELS[family], **sizes)


def assert_same(a, b):
    assert a.facts == b.facts
    assert a.members == b.members
    assert dict(a.axes) == dict(b.axes)
    assert a.columns.keys() == b.columns.keys()
    for name, values in a.columns.items():
        assert values.dtype == b.columns[name].dtype, name
        np.testing.assert_array_equal(values, b.columns[name], err_msg=name)


def sample_of(packs, number):
    """One sample, taken out of every column by plain slicing."""
    found = {}
    for name, values in packs.columns.items():
        column = BY_NAME[name]
        if column.axis is Axis.SAMPLE:
            found[name] = values[number].tolist() if column.width > 1 else values[number]
            continue
        bounds = packs.axes[column.axis].values
        part = slice(bounds[number], bounds[number + 1])
        found[name] = (values[:, part] if column.planes > 1 else values[part]).tolist()
    return found


@QUICK
@given(FAMILY, SEED)
def test_joining_one_gives_it_back(family, seed):
    one = packs_of(family, seed, packs=1)
    assert_same(one.joined(), one)


@QUICK
@given(FAMILY, SEED)
def test_join_is_associative(family, seed):
    a, b, c = (packs_of(family, seed + n, packs=1, first=100 * n) for n in range(3))

    def join(*parts):
        return Packs.concatenated(parts).joined()

    assert_same(join(join(a, b), c), join(a, join(b, c)))
    assert_same(join(join(a, b), c), join(a, b, c))


@QUICK
@given(FAMILY, SEED)
def test_join_moves_nothing(family, seed):
    packs = packs_of(family, seed)
    joined = packs.joined()
    assert len(joined) == 1
    assert dict(joined.axes) == dict(packs.axes)
    for name, values in packs.columns.items():
        assert joined.columns[name] is values


@QUICK
@given(FAMILY, SEED)
def test_joined_packs_are_valid(family, seed):
    packs = packs_of(family, seed)
    assert check(to_rows(to_batch(packs.joined()), packs.facts)).hits == ()


@QUICK
@given(FAMILY, SEED)
def test_concatenated_parts_come_back(family, seed):
    parts = [packs_of(family, seed + n, packs=2) for n in range(3)]
    whole = Packs.concatenated(parts)
    assert len(whole) == 6
    for n, part in enumerate(parts):
        assert_same(whole.rows(np.arange(2 * n, 2 * n + 2)), part)


@QUICK
@given(FAMILY, SEED, st.randoms())
def test_take_moves_every_column_of_a_sample_together(family, seed, random):
    packs = packs_of(family, seed)
    order = list(range(packs.members.total))
    random.shuffle(order)
    taken = packs.take(np.array(order))
    assert taken.members == Offsets.unit(len(order))
    for place, number in enumerate(order):
        assert sample_of(taken, place) == sample_of(packs, number)
    assert_same(taken.take(np.argsort(order)).grouped(packs.members), packs)


@QUICK
@given(FAMILY, SEED, st.randoms())
def test_rows_moves_whole_packs(family, seed, random):
    packs = packs_of(family, seed, packs=5)
    order = list(range(5))
    random.shuffle(order)
    moved = packs.rows(np.array(order))
    assert moved.members.lengths.tolist() == packs.members.lengths[order].tolist()
    samples = [n for row in order for n in range(*packs.members.values[row : row + 2])]
    for place, number in enumerate(samples):
        assert sample_of(moved, place) == sample_of(packs, number)
    assert check(to_rows(to_batch(moved), packs.facts)).hits == ()


@pytest.mark.parametrize("family", MODELS)
def test_samples_may_repeat_and_be_left_out(family):
    packs = packs_of(family, 3)
    taken = packs.take(np.array([2, 0, 2]))
    assert [sample_of(taken, n) for n in range(3)] == [sample_of(packs, n) for n in (2, 0, 2)]


@pytest.mark.parametrize("family", MODELS)
def test_no_packs_are_packs(family):
    packs = packs_of(family, 1)
    none = packs.rows(np.zeros(0, np.int64))
    assert (len(none), none.tokens.total) == (0, 0)
    assert_same(Packs.concatenated([none, packs, none]), packs)
    for column in columns_for(packs.facts):
        if column.derived:
            assert DERIVED[column.name](none).shape[-1] == 0


# ------------------------------------------------------------------ refusals


def changed(packs, **columns):
    return replace(packs, columns={**packs.columns, **columns})


def test_undeclared_column_is_refused():
    packs = packs_of("text", 1)
    with pytest.raises(ValueError, match=r"does not declare: \['weights'\]"):
        changed(packs, weights=np.zeros(packs.tokens.total))


def test_derived_column_is_refused():
    packs = packs_of("text", 1)
    with pytest.raises(ValueError, match=r"does not declare: \['position_ids'\]"):
        changed(packs, position_ids=packs.tokens.restarting())


def test_missing_column_is_refused():
    packs = packs_of("text", 1)
    columns = {name: values for name, values in packs.columns.items() if name != "labels"}
    with pytest.raises(ValueError, match=r"missing: \['labels'\]"):
        replace(packs, columns=columns)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("labels", lambda v: v[:-1]),
        ("labels", lambda v: v[None]),
        ("image_grid_thw", lambda v: v[:, :2]),
        ("sample_digests", lambda v: v[:, :8]),
        ("media.kind", lambda v: v[1:]),
        ("sample_ids", lambda v: v[1:]),
    ],
)
def test_misaligned_column_is_refused(name, shape):
    packs = packs_of("qwen2_vl", 1)
    with pytest.raises(ValueError, match=name):
        changed(packs, **{name: shape(packs.columns[name])})


def test_axes_that_miss_a_sample_are_refused():
    packs = packs_of("qwen2_vl", 1)
    axes = {**packs.axes, Axis.IMAGE: Offsets.from_lengths(packs.axes[Axis.IMAGE].lengths[:-1])}
    with pytest.raises(ValueError, match="image axis"):
        replace(packs, axes=axes)
    del axes[Axis.IMAGE]
    with pytest.raises(ValueError, match="image axis"):
        replace(packs, axes=axes)


def test_empty_samples_and_packs_are_refused():
    packs = packs_of("text", 1)
    total, count = packs.tokens.total, packs.members.total
    tokens = Offsets.from_lengths([total, *[0] * (count - 1)])
    with pytest.raises(ValueError, match="every sample a token"):
        replace(packs, axes={Axis.TOKEN: tokens})
    with pytest.raises(ValueError, match="every pack holds a sample"):
        packs.grouped(Offsets.from_lengths([0, count]))


def test_members_must_cover_the_samples():
    packs = packs_of("text", 1)
    with pytest.raises(ValueError, match=r"1 members, \d+ samples"):
        packs.grouped(Offsets.unit(1))


def test_packs_of_two_models_are_not_concatenated():
    with pytest.raises(ValueError, match="one model"):
        Packs.concatenated([packs_of("qwen2_vl", 1), packs_of("qwen3_vl", 1)])
    with pytest.raises(ValueError, match="at least one"):
        Packs.concatenated([])


def test_media_places_are_counted_from_the_pack_on_disk():
    samples = make_samples(np.random.default_rng(6), MODELS["qwen2_vl"], 12).joined()
    start = samples.columns["media.token_start"] + medium_shift(samples)
    ids = samples.columns["input_ids"]
    expected = {"image": 1001, "video": 1002}
    assert len(start) > 3
    for place, kind in zip(start, samples.columns["media.kind"], strict=True):
        assert ids[place] == expected[kind]
        assert ids[place - 1] == 1003


# ------------------------------------------------------------------ the worked example


def worked_example():
    ids = [10, 11, 12, 13, 14, 20, 21, 22, 30, 31, 32, 33]
    first = {0, 5, 8}
    return Packs(
        MODELS["text"],
        Offsets.from_lengths([3]),
        {Axis.TOKEN: Offsets.from_lengths([5, 3, 4])},
        {
            "input_ids": np.array(ids, np.int32),
            "labels": np.array([-100 if n in first else i for n, i in enumerate(ids)], np.int32),
            "sample_ids": boxed(["A", "B", "C"]),
            "sample_sources": boxed(["x.jsonl:1", "x.jsonl:2", "x.jsonl:3"]),
            "sample_digests": np.zeros((3, 16), np.uint8),
        },
    )


def test_worked_example_of_the_contract():
    row = to_batch(worked_example()).to_pylist()[0]
    x = -100
    assert row["input_ids"] == [10, 11, 12, 13, 14, 20, 21, 22, 30, 31, 32, 33]
    assert row["position_ids"] == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3]
    assert row["cu_seqlens"] == [0, 5, 8, 12]
    assert row["seq_lengths"] == [5, 3, 4]
    assert row["seq_start_id"] == [0, 5, 8]
    assert row["max_seqlen"] == 5
    assert row["labels"] == [x, 11, 12, 13, 14, x, 21, 22, x, 31, 32, 33]
    assert row["loss_mask"] == [1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0]
    assert (row["length"], row["num_samples"], row["num_supervised"]) == (12, 3, 9)
    assert row["sum_sq_len"] == 25 + 9 + 16
    assert row["sample_ids"] == ["A", "B", "C"]


def test_worked_example_last_logit_of_a_sample_meets_no_label():
    row = to_batch(worked_example()).to_pylist()[0]
    meets = [row["labels"][end] for end in row["cu_seqlens"][1:-1]]
    assert meets == [-100, -100]


def test_worked_example_lost_boundary_is_told():
    rows = to_rows(to_batch(worked_example()), MODELS["text"])
    cells = rows.cells["cu_seqlens"]
    lost = replace(cells, values=np.array([0, 5, 12]), rows=np.array([0, 3]))
    broken = replace(rows, cells={**rows.cells, "cu_seqlens": lost})
    assert {rule.code for rule, _ in check(broken).hits} == {"boundary.lengths"}
    kept = ("input_ids", "labels", "position_ids")
    alone = {name: rows.cells[name] for name in kept} | {"cu_seqlens": lost}
    alone["max_seqlen"] = replace(rows.cells["max_seqlen"], values=np.array([7]))
    (rule, hit), *others = check(replace(rows, cells=alone)).hits
    assert (rule.code, hit.row, hit.sample, hit.token) == ("position.reset", 0, 1, 8)
    assert others == []
