from __future__ import annotations

import numpy as np
import pytest

from packcli.contract.offsets import Offsets
from packcli.contract.rows import UNKNOWN_MODEL, Cells, Rows
from packcli.contract.rules import RULES, check
from packcli.contract.rules.rule import PADDED, WEIGHTS, WINDOWS
from packcli.shards.arrow import to_batch, to_rows
from tests.contract.making import MODELS, PADDED_MODELS, make_packs, make_samples
from tests.contract.mutations import MUTATIONS, Bench, UnfitError

EVERY = MODELS | PADDED_MODELS
CASES = [(one, family) for one in MUTATIONS for family in one.families]


def told(checked):
    return [(rule.code, hit.row, hit.sample) for rule, hit in checked.hits]


def rows_of(packs):
    return to_rows(to_batch(packs), packs.facts)


def subset(rows, names, facts=UNKNOWN_MODEL):
    return Rows(rows.count, {name: rows.cells[name] for name in names}, facts)


def damaged(mutation, family, seed):
    """Valid packs that hold what the mutation needs, damaged."""
    for attempt in range(300):
        rng = np.random.default_rng([seed, attempt])
        bench = Bench(make_packs(rng, EVERY[family], packs=5), rng)
        try:
            return bench, mutation.damage(bench)
        except UnfitError:
            continue
    pytest.fail(f"{mutation.name} fits no packs of {family}")


def check_mutation(mutation, family, seed):
    bench, place = damaged(mutation, family, seed)
    checked = check(bench.rows())
    hits = told(checked)
    assert hits, f"{mutation.name} was not seen"
    assert {(code, row) for code, row, _ in hits} == {(mutation.code, place.row)}
    if place.sample is not None:
        assert hits[0][2] == place.sample
    others = [row for row in range(bench.count) if row != place.row]
    if place.row is not None:
        assert checked.sound.tolist() == others
        assert checked.packs is not None
        assert len(checked.packs) == len(others)


# ------------------------------------------------------------------ good packs


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("seed", range(12))
def test_valid_packs_raise_no_alarm(family, seed):
    packs = make_packs(np.random.default_rng(seed), EVERY[family], packs=5)
    checked = check(rows_of(packs))
    assert told(checked) == []
    lacking = set() if EVERY[family].has_media else {"model with media"}
    lacking |= set() if EVERY[family].has_mrope else {"model with mRoPE"}
    assert checked.skipped.keys() == {rule.code for rule in RULES if lacking & set(rule.needs)}
    assert checked.sound.tolist() == list(range(5))
    assert checked.packs is not None
    assert checked.packs.tokens == packs.tokens
    assert checked.packs.members == packs.members
    for name, values in packs.columns.items():
        np.testing.assert_array_equal(checked.packs.columns[name], values, err_msg=name)


@pytest.mark.parametrize("family", MODELS)
def test_encoded_samples_are_packs_of_one(family):
    samples = make_samples(np.random.default_rng(5), MODELS[family], 40)
    assert told(check(rows_of(samples))) == []


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.slow
def test_many_valid_packs_raise_no_alarm(family):
    for seed in range(700):
        rng = np.random.default_rng([9, seed])
        assert told(check(rows_of(make_packs(rng, EVERY[family], packs=3, most=9)))) == []


def test_no_rows_are_no_alarm():
    rows = rows_of(make_packs(np.random.default_rng(1), MODELS["qwen2_vl"]))
    checked = check(rows.take(np.zeros(0, np.int64)))
    assert told(checked) == []
    assert checked.packs is None


# ------------------------------------------------------------------ foreign files


FOREIGN = {
    "TRL": ["input_ids", "labels", "seq_lengths"],
    "Megatron-Bridge": ["input_ids", "seq_start_id", "loss_mask"],
    "flattening": ["input_ids", "labels", "position_ids"],
    "tokens": ["input_ids"],
    "kernels": ["input_ids", "cu_seqlens", "max_seqlen"],
}


@pytest.mark.parametrize("names", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("family", MODELS)
def test_foreign_columns_raise_no_alarm(family, names):
    packs = make_packs(np.random.default_rng(3), MODELS[family], packs=8)
    checked = check(subset(rows_of(packs), names))
    assert told(checked) == []
    assert checked.packs is not None
    if names != ["input_ids"]:
        assert checked.packs.tokens == packs.tokens
    lacking = {rule.code for rule in RULES if set(rule.needs) - {*names, PADDED, WEIGHTS, WINDOWS}}
    assert checked.skipped.keys() == lacking


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        ("first", 7, True),
        ("first", -1, True),
        ("first", 0, False),
        ("first", 1, False),
        ("last", 1, False),
        ("last", 2, True),
    ],
)
def test_a_loss_mask_without_labels(place, value, found):
    packs = make_packs(np.random.default_rng(5), MODELS["text"], packs=4)
    rows = subset(rows_of(packs), FOREIGN["Megatron-Bridge"])
    cells, sample = rows.cells["loss_mask"], int(packs.members.starts[2])
    tokens = packs.tokens
    at = int(tokens.starts[sample] if place == "first" else tokens.ends[sample] - 1)
    values = cells.values.copy()
    values[at] = value
    changed = Cells(values, cells.rows, None, cells.dtype)
    hits = told(check(Rows(4, {**rows.cells, "loss_mask": changed})))
    assert hits == [("loss_mask.shift", 2, 0)] * found


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_foreign_media_columns_raise_no_alarm(family):
    facts = MODELS[family]
    packs = make_packs(np.random.default_rng(4), facts, packs=20)
    names = ["input_ids", "labels", "seq_lengths", "image_grid_thw", "video_grid_thw"]
    checked = check(subset(rows_of(packs), [*names, "mrope_position_ids"], facts))
    assert told(checked) == []
    assert ("mrope.sample" in checked.skipped) == (family == "qwen2_5_vl")


def cast(rows, dtypes):
    cells = dict(rows.cells)
    for name, dtype in dtypes.items():
        old = cells[name]
        cells[name] = Cells(old.values.astype(np.int64), old.rows, old.inner, dtype)
    return Rows(rows.count, cells, rows.facts)


def test_foreign_integers_may_be_wider():
    packs = make_packs(np.random.default_rng(3), MODELS["text"])
    rows = subset(rows_of(packs), FOREIGN["TRL"])
    wide = cast(rows, {"labels": "large_list<int64>", "seq_lengths": "list<int64>"})
    assert told(check(wide)) == []


def test_samples_without_a_source_are_no_duplicates():
    packs = make_packs(np.random.default_rng(3), MODELS["text"])
    packs.columns["sample_sources"][:] = ""
    names = ["input_ids", "seq_lengths", "sample_sources"]
    assert told(check(subset(rows_of(packs), names))) == []


def test_foreign_cu_seqlens_may_not_be_wider():
    packs = make_packs(np.random.default_rng(3), MODELS["text"])
    rows = subset(rows_of(packs), FOREIGN["kernels"])
    assert told(check(cast(rows, {"cu_seqlens": "list<int64>"}))) == [
        ("boundary.dtype", None, None)
    ]


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("input_ids", "int64", 2**32 + 5),
        ("input_ids", "int64", -(2**31) - 1),
        ("labels", "uint32", 2**32 - 100),
        ("labels", "uint64", 2**64 - 100),
        ("seq_lengths", "int64", 2**62),
        ("loss_mask", "int16", 257),
    ],
)
def test_a_number_that_the_declared_type_does_not_hold(name, kind, value):
    packs = make_packs(np.random.default_rng(3), MODELS["text"], packs=4)
    rows = subset(rows_of(packs), ["input_ids", name])
    cells = rows.cells[name]
    # what the type does hold is sound, whatever its width
    values = cells.values.clip(0 if kind.startswith("u") else None).astype(kind)
    wide = Rows(4, rows.cells | {name: Cells(values, cells.rows, None, f"list<{kind}>")})
    assert "columns.type" not in {code for code, *_ in told(check(wide))}
    values[cells.rows[2]] = value
    hits = [(rule.code, hit) for rule, hit in check(wide).hits if rule.code == "columns.type"]
    ((_, hit),) = hits
    assert hit.row == 2
    assert f"column {name!r} holds {value}, which no int" in hit.message


def test_planes_and_grids_are_told_by_their_row():
    packs = make_packs(np.random.default_rng(4), MODELS["qwen2_vl"], packs=6)
    rows = subset(rows_of(packs), ["input_ids", "mrope_position_ids"], MODELS["qwen2_vl"])
    rows = cast(rows, {"mrope_position_ids": "list<list<int64>>"})
    cells = rows.cells["mrope_position_ids"]
    cells.values[cells.inner[cells.rows[5]] - 1] = 2**40
    only = Rows(6, rows.cells, MODELS["text"])
    assert told(check(only)) == [("columns.type", 4, None)]


def test_digests_over_media_need_their_model():
    packs = make_packs(np.random.default_rng(4), MODELS["qwen2_vl"], packs=6)
    rows = rows_of(packs)
    checked = check(Rows(6, rows.cells))
    assert told(checked) == []
    (reason,) = checked.skipped["sample.digest"]
    assert reason.endswith("name --model")
    assert checked.packs is not None
    assert checked.packs.members.total == packs.members.total
    assert "sample.digest" not in check(rows).skipped


@pytest.mark.parametrize("name", ["seq_start_id", "position_ids"])
def test_foreign_row_that_starts_inside_a_sample(name):
    packs = make_packs(np.random.default_rng(3), MODELS["text"], packs=3)
    rows = subset(rows_of(packs), ["input_ids", "labels", name])
    cells = rows.cells[name]
    values = cells.values.copy()
    second = slice(cells.rows[1], cells.rows[2])
    values[second] += packs.tokens.lengths[packs.members.starts[1] - 1]
    broken = Rows(3, {**rows.cells, name: Cells(values, cells.rows, None, cells.dtype)})
    code = "boundary.start" if name == "seq_start_id" else "position.reset"
    assert {(found, row) for found, row, _ in told(check(broken))} == {(code, 1)}


def test_columns_of_the_shared_good_pack_raise_no_alarm(shared):
    import pyarrow.parquet as pq

    table = pq.read_table(shared / "cases" / "k01_good" / "pack.parquet")
    names = [
        {"position_ids": "mrope_position_ids", "text_position_ids": "position_ids"}.get(n, n)
        for n in table.column_names
    ]
    facts = MODELS["qwen2_vl"].to_json() | {
        "vocab_size": 151936,
        "image_token_id": 151655,
        "video_token_id": 151656,
    }
    rows = to_rows(table.rename_columns(names), type(MODELS["text"]).from_json(facts))
    checked = check(rows)
    assert told(checked) == []
    assert "mrope.sample" not in checked.skipped
    assert checked.packs is not None
    assert checked.packs.tokens == Offsets.from_values([0, 24, 60, 100])


# ------------------------------------------------------------------ mutations


@pytest.mark.parametrize(
    ("mutation", "family"), CASES, ids=[f"{one.name}-{family}" for one, family in CASES]
)
def test_mutation_raises_its_own_code(mutation, family):
    for seed in range(2):  # each on five packs
        check_mutation(mutation, family, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutation", "family"), CASES, ids=[f"{one.name}-{family}" for one, family in CASES]
)
def test_mutation_raises_its_own_code_on_many_packs(mutation, family):
    for seed in range(1000, 1080):  # each on five packs
        check_mutation(mutation, family, seed)


def test_every_rule_is_reached_by_a_mutation():
    assert {mutation.code for mutation in MUTATIONS} == {rule.code for rule in RULES}


def test_mutations_have_names_of_their_own():
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 40


def test_two_faults_in_two_rows_are_both_told():
    rng = np.random.default_rng(8)
    bench = Bench(make_packs(rng, MODELS["text"], packs=6), rng)
    bench["cu_seqlens"][1][-1] += 3
    bench["loss_mask"][4][0] ^= 1
    bench["sample_digests"][5][0, 0] ^= 1
    checked = check(bench.rows())
    assert told(checked) == [
        ("boundary.end", 1, None),
        ("loss_mask.shift", 4, 0),
        ("sample.digest", 5, 0),
    ]
    assert checked.sound.tolist() == [0, 2, 3]


def test_a_wrong_count_does_not_hide_straddling_grids_of_another_row():
    facts = MODELS["qwen2_vl"]
    straddling = next(one for one in MUTATIONS if one.name == "grids_of_two_samples_swapped")
    bench, place = damaged(straddling, "qwen2_vl", 0)
    other = next(row for row in range(bench.count) if row != place.row)
    bench["input_ids"][other][-1] = facts.image_token_id
    last = len(bench["seq_lengths"][other]) - 1
    hits = told(check(bench.rows()))
    assert sorted(hits) == sorted(
        [("slot.count", other, last), ("slot.count", place.row, place.sample)]
    )


def test_rules_are_told_apart_and_explained():
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert [rule.tier for rule in RULES] == sorted(rule.tier for rule in RULES)
    for rule in RULES:
        assert (rule.frame is None) != (rule.check is None), rule.code
        assert rule.law, rule.code
        assert rule.remedy, rule.code
