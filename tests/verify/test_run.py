"""The whole of stage 3: what `verify` says of datasets and of files that others wrote."""

import contextlib
import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import (
    EnvironmentLacksError,
    InputError,
    UsageError,
)
from packcli.contract.model import ModelFacts
from packcli.contract.offsets import Offsets
from packcli.contract.rows import Cells, Rows
from packcli.contract.verdict import Verdict
from packcli.families import open_family
from packcli.shards.arrow import to_rows
from packcli.shards.reader import Shard
from packcli.verify import kernels, sampling
from packcli.verify.isolation import check_isolation
from packcli.verify.kernel_level import KernelOptions, choose_kernels, finite
from packcli.verify.oracle import ATTENTION
from packcli.verify.row_bounds import pack_bounds
from packcli.verify.run import verify, verify_against

LINEAR = ModelFacts("qwen3_5", 1100, linear_attention=True)


def codes(verdict):
    return dict(verdict.counts)


def strict_json(verdict):
    """The verdict as JSON that any reader takes: no NaN, no Infinity."""
    return json.loads(json.dumps(verdict.to_json(), allow_nan=False))


@pytest.fixture
def copy(packed, tmp_path):
    target = tmp_path / "copy"
    shutil.copytree(packed, target)
    return target


def shards_of(dataset):
    return sorted((dataset / "data").glob("*.parquet"))


def edit_manifest(dataset, **fields):
    path = dataset / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | fields))


def rewrite(path, **columns):
    """Replace columns of a shard; a function gets the rows of the old one."""
    table = pq.read_table(path)
    for name, change in columns.items():
        place = table.schema.get_field_index(name)
        values = change(table.column(name).to_pylist())
        array = pa.array(values, table.schema.field(name).type)
        table = table.set_column(place, table.schema.field(name), array)
    pq.write_table(table, path, write_page_checksum=True)


# ---- datasets ----


def test_a_whole_dataset_passes_and_says_what_was_looked_at(packed):
    verdict = verify([packed], kernel=KernelOptions(sample=None))
    assert verdict.passed
    assert codes(verdict) == {}
    checked = {name: verdict.checked[name] for name in ("packs", "samples", "tokens", "shards")}
    assert checked == {"packs": 7, "samples": 84, "tokens": 13_871, "shards": 3}
    (proof,) = verdict.proofs
    assert (proof["packs"], proof["tokens"]) == (7, 13_871)
    assert all(control["caught"] for control in proof["controls"])
    assert strict_json(verdict)["passed"] is True


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"capacity": 9999}},
        {"kind": "encoded"},
        {"versions": {"packcli": "0.0.0"}},
        {"fingerprint": "0" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_edited_manifest(copy, change):
    edit_manifest(copy, **change)
    assert set(codes(verify([copy]))) == {"manifest.fingerprint"}


@pytest.mark.parametrize("field", ["rows", "samples", "tokens"])
def test_edited_counts_of_a_shard(copy, field):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["shards"][1][field] += 1
    edit_manifest(copy, shards=manifest["shards"])
    assert codes(verify([copy])) == {"conservation": 1}


COUNTED = ("packs", "samples", "tokens", "padding", "shards", "capacity", "fill", "excess")


@pytest.mark.parametrize("change", [1, -1, 0.001, None, "x"], ids=repr)
@pytest.mark.parametrize("name", [*COUNTED, "lower_bound"])
def test_edited_counts_of_a_dataset(copy, name, change):
    counts = json.loads((copy / "manifest.json").read_text())["counts"]
    value = counts[name] + change if isinstance(change, int | float) else change
    edit_manifest(copy, counts=counts | {name: value})
    (finding,) = verify([copy]).findings
    assert finding.code == "conservation"
    assert name in finding.message or name == "lower_bound"


@pytest.mark.parametrize(("bound", "excess"), [(8, -1), (0, 7), (None, 7)])
def test_a_bound_that_no_planner_proved(copy, bound, excess):
    """The best bound of 7 packs is 7 at most, and by their tokens alone 7 at least."""
    counts = json.loads((copy / "manifest.json").read_text())["counts"]
    edit_manifest(copy, counts=counts | {"lower_bound": bound, "excess": excess})
    (finding,) = verify([copy]).findings
    assert (finding.code, "lower_bound" in finding.message) == ("conservation", True)


def test_tokens_called_padding(copy):
    counts = json.loads((copy / "manifest.json").read_text())["counts"]
    fill = (counts["tokens"] - 9) / (counts["packs"] * counts["capacity"])
    moved = {"tokens": counts["tokens"] - 9, "padding": counts["padding"] + 9, "fill": fill}
    edit_manifest(copy, counts=counts | moved)
    assert codes(verify([copy])) == {"conservation": 1}


def test_another_digest(copy):
    edit_manifest(copy, digest="0" * 32)
    assert codes(verify([copy])) == {"conservation": 1}


def test_a_missing_shard(copy):
    gone = shards_of(copy)[1]
    gone.unlink()
    verdict = verify([copy], kernel=KernelOptions(sample=2))
    assert [(f.code, f.shard) for f in verdict.findings] == [("shard.missing", gone.name)]
    assert verdict.proofs[0]["packs"] == 2


def test_an_extra_shard(copy):
    shutil.copy(shards_of(copy)[0], copy / "data" / "train-00009-of-00003.parquet")
    verdict = verify([copy])
    found = [(f.code, f.shard) for f in verdict.findings]
    assert found == [("shard.extra", "train-00009-of-00003.parquet")]
    assert verdict.checked["shards"] == 3


def test_two_shards_swapped(copy):
    first, second, _ = shards_of(copy)
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)
    assert codes(verify([copy])) == {"shard.sha256": 2}


@pytest.mark.parametrize("place", [0.0, 0.001, 0.2, 0.5, 0.8, 0.95, 0.9999])
def test_a_flipped_bit(copy, place):
    shard = shards_of(copy)[0]
    data = bytearray(shard.read_bytes())
    data[int(place * len(data))] ^= 0x10
    shard.write_bytes(data)
    found = codes(verify([copy], kernel=KernelOptions(sample=2)))
    assert found["shard.sha256"] == 1
    assert set(found) <= {"shard.sha256", "shard.checksum"}


@pytest.mark.slow
def test_a_thousand_flipped_bits(copy):
    rng = np.random.default_rng(20)
    shards = shards_of(copy)
    assert verify([copy]).passed
    for _ in range(1000):
        shard = shards[rng.integers(len(shards))]
        good = shard.read_bytes()
        data, place = bytearray(good), int(rng.integers(8 * len(good)))
        data[place // 8] ^= 1 << place % 8
        shard.write_bytes(data)
        found = verify([copy])
        assert not found.passed, (shard.name, place)
        assert {finding.shard for finding in found.findings} == {shard.name}
        assert found.counts["shard.sha256"] == 1
        shard.write_bytes(good)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.999])
def test_a_truncated_shard(copy, keep):
    shard = shards_of(copy)[0]
    data = shard.read_bytes()
    shard.write_bytes(data[: int(keep * len(data))])
    verdict = verify([copy], kernel=KernelOptions(sample=2))
    assert codes(verdict) == {"shard.sha256": 1, "shard.checksum": 1}
    assert not verdict.passed


def test_a_pack_over_its_capacity(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    edit_manifest(copy, options=manifest["options"] | {"capacity": 1900})
    assert set(codes(verify([copy]))) == {"manifest.fingerprint", "pack.capacity"}


def test_a_sample_twice_and_another_lost(copy):
    first, second, _ = shards_of(copy)
    shutil.copy(first, second)
    found = codes(verify([copy]))
    assert found == {"shard.sha256": 1}
    manifest = json.loads((copy / "manifest.json").read_text())
    name = manifest["shards"][1]["name"]
    manifest["shards"][1] = manifest["shards"][0] | {"name": name}
    edit_manifest(copy, shards=manifest["shards"])
    assert codes(verify([copy])) == {"sample.duplicate": 1, "conservation": 1}


def test_a_column_that_was_dropped_is_one_finding_a_shard(copy):
    shard = shards_of(copy)[0]
    table = pq.read_table(shard).drop_columns(["loss_mask"])
    pq.write_table(table, shard, row_group_size=1)
    found = codes(verify([copy]))
    assert found["columns.missing"] == 1


def test_an_incomplete_dataset_is_not_checked(copy):
    (copy / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="not complete"):
        verify([copy])


@pytest.mark.parametrize("kept", ["_SUCCESS", "rejected.jsonl", ".packcli"])
def test_a_dataset_without_its_manifest_is_no_folder_of_others(copy, kept):
    (copy / ".packcli").mkdir()
    for path in list(copy.iterdir()):
        if path.name in {"_SUCCESS", "rejected.jsonl", "manifest.json"} - {kept}:
            path.unlink()
    if kept != ".packcli":
        (copy / ".packcli").rmdir()
    shards_of(copy)[0].unlink()  # packs are gone, and nothing could say so
    remedy = "again to resume" if kept == ".packcli" else "no manifest.json.*copy the dataset again"
    with pytest.raises(InputError, match=f"copy: not complete.*{remedy}"):
        verify([copy])
    with pytest.raises(InputError, match="not complete"):
        verify_against([copy], [copy], Verdict())


def test_a_folder_that_another_job_finished_is_read(packed, tmp_path):
    shutil.copy(shards_of(packed)[0], tmp_path / "part-00000.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert verify([tmp_path]).passed


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        verify([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="no manifest and no Parquet"):
        verify([tmp_path])


def test_a_manifest_must_not_lead_out_of_its_folder(copy, tmp_path):
    manifest = json.loads((copy / "manifest.json").read_text())
    for name in ("../../secret.parquet", "/etc/hostname", "..", ""):
        manifest["shards"][0]["name"] = name
        edit_manifest(copy, shards=manifest["shards"])
        with pytest.raises(InputError, match="expected a file name"):
            verify([copy])


def paths_of(document, path=()):
    yield path
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from paths_of(value, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.parametrize(
    "value", [None, -1, 0, 2**70, "x", "", [], {}, [None], True, 0.5], ids=repr
)
def test_a_hostile_manifest_is_refused_or_found_broken(packed, tmp_path, value):
    manifest = json.loads((packed / "manifest.json").read_text())
    small = tmp_path / "small"
    (small / "data").mkdir(parents=True)
    (small / "_SUCCESS").touch()
    manifest["shards"] = manifest["shards"][:1]
    shutil.copy(packed / "data" / manifest["shards"][0]["name"], small / "data")
    skipped = {"counts", "inputs"}  # results and history: nothing is decided by them
    for path in list(paths_of(manifest)):
        if not path or path[0] in skipped:
            continue
        changed = json.loads(json.dumps(manifest))
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        if inner[path[-1]] == value:
            continue
        inner[path[-1]] = value
        (small / "manifest.json").write_text(json.dumps(changed))
        with contextlib.suppress(InputError):
            assert not verify([small]).passed, (path, value)


def test_several_datasets_are_told_apart(packed, encoded, copy):
    shards_of(copy)[0].unlink()
    verdict = verify([copy, encoded(), packed], kernel=KernelOptions(sample=1))
    assert [f.shard for f in verdict.findings] == [
        f"{copy.as_posix()}/data/{shards_of(packed)[0].name}"
    ]
    assert [proof["packs"] for proof in verdict.proofs] == [1, 1, 1]


def test_a_pack_is_not_counted_twice(packed, encoded, copy, tmp_path):
    (tmp_path / "link").symlink_to(packed)
    shard = shards_of(packed)[0]
    for paths in ([packed, packed], [packed, copy, tmp_path / "link"], [shard, shard]):
        with pytest.raises(UsageError, match=f"{paths[-1].name} is named twice"):
            verify(paths)
    for part in (packed / "data", shard):
        with pytest.raises(UsageError, match=f"{part.name} and .* hold the same shards; name one"):
            verify([packed, part])
    with pytest.raises(UsageError, match="is named twice"):
        verify_against([packed], [encoded(), encoded()], Verdict())


def test_a_second_dataset_is_checked_as_a_whole_too(packed, copy, tmp_path):
    edit_manifest(copy, digest="0" * 32)
    other = tmp_path / "other"
    shutil.copytree(copy, other)
    assert codes(verify([packed, copy, other])) == {"conservation": 2}


def test_an_empty_file_beside_a_good_dataset_is_found(packed, tmp_path):
    pq.write_table(
        pa.table({"input_ids": pa.array([], pa.list_(pa.int32()))}), tmp_path / "e.parquet"
    )
    assert codes(verify([packed, tmp_path / "e.parquet"])) == {"dataset.empty": 1}


def test_findings_are_counted_beyond_the_limit(copy):
    for shard in shards_of(copy):
        rewrite(shard, max_seqlen=lambda rows: [value + 1 for value in rows])
    verdict = verify([copy], max_findings=2)
    assert len(verdict.findings) == 2
    assert verdict.counts["boundary.max_seqlen"] == 7


def test_no_shard_is_read_whole(packed, monkeypatch):
    read, largest = Shard.group, []

    def group(shard, number, *arguments):
        rows = read(shard, number, *arguments)
        largest.append(rows.count)
        return rows

    monkeypatch.setattr(Shard, "group", group)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_: pytest.fail("a whole file was read"))
    monkeypatch.setattr(pq, "read_table", lambda *_: pytest.fail("a whole file was read"))
    verify([packed], kernel=KernelOptions(sample=2))
    assert max(largest) <= 9


# ---- files that others wrote ----


NEED_MANIFEST = {
    "conservation",
    "manifest.fingerprint",
    "media.missing",
    "media.sha256",
    "pack.capacity",
    "shard.extra",
    "shard.missing",
    "shard.sha256",
}


def test_rules_that_need_a_manifest_are_skipped_by_name_without_one(packed, sample_data):
    without = [sample_data / "good_foreign", shards_of(packed)[0], packed / "data"]
    for path in without:
        skipped = verify([path]).skipped
        reasons = {code: skipped.get(code) for code in NEED_MANIFEST}
        reason = "needs a dataset's folder, with its manifest.json"
        assert reasons == dict.fromkeys(NEED_MANIFEST, reason), path
    assert not NEED_MANIFEST & verify([packed]).skipped.keys()


@pytest.mark.parametrize("name", ["trl", "megatron_bridge", "flattened"])
def test_good_foreign_files_pass_and_say_what_was_skipped(sample_data, name):
    path = sample_data / "good_foreign" / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not made yet")
    verdict = verify([path], kernel=KernelOptions())
    assert verdict.passed, verdict.findings
    assert "sample.digest" in verdict.skipped
    # one statement of the boundaries cannot be compared with itself
    assert ("isolation.attention" in verdict.skipped) == (name != "flattened")
    strict_json(verdict)


def table_of(packed, names):
    return pq.read_table(shards_of(packed)[0]).select(names)


def broken(table, name, row, change):
    values = table.column(name).to_pylist()
    values[row] = change(values[row])
    array = pa.array(values, table.schema.field(name).type)
    return table.set_column(table.schema.get_field_index(name), name, array)


def test_trl_rows_that_do_not_add_up(packed, tmp_path):
    table = table_of(packed, ["input_ids", "labels", "seq_lengths"])
    path = tmp_path / "trl.parquet"
    pq.write_table(broken(table, "seq_lengths", 1, lambda row: [row[0] + 1, *row[1:]]), path)
    verdict = verify([path], kernel=KernelOptions())
    assert [(f.row, f.code) for f in verdict.findings] == [(1, "boundary.end")]


def test_megatron_rows_that_start_late(packed, tmp_path):
    table = table_of(packed, ["input_ids", "loss_mask", "seq_start_id"])
    path = tmp_path / "bridge.parquet"
    pq.write_table(broken(table, "seq_start_id", 0, lambda row: [1, *row[1:]]), path)
    verdict = verify([path], kernel=KernelOptions())
    assert [(f.row, f.code) for f in verdict.findings] == [(0, "boundary.start")]


def test_a_megatron_mask_that_is_no_mask(packed, tmp_path):
    table = table_of(packed, ["input_ids", "loss_mask", "seq_start_id"])
    end = table.column("seq_start_id")[1].as_py()[1] - 1
    path = tmp_path / "bridge.parquet"
    pq.write_table(
        broken(table, "loss_mask", 1, lambda row: [*row[:end], 7, *row[end + 1 :]]), path
    )
    (finding,) = verify([path]).findings
    assert (finding.code, finding.row, finding.sample, finding.token) == (
        "loss_mask.shift",
        1,
        0,
        end,
    )
    assert finding.message == "loss_mask is 7, expected 0 or 1"


def test_a_file_of_something_else_fails(tmp_path):
    path = tmp_path / "else.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path)
    assert codes(verify([path], kernel=KernelOptions())) == {"columns.missing": 1}
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    with pytest.raises(InputError, match="not a Parquet file"):
        verify([tmp_path / "text.parquet"])
    assert codes(verify([tmp_path])) == {"columns.missing": 1, "shard.checksum": 1}


RENAMED = {"position_ids": "mrope_position_ids", "text_position_ids": "position_ids"}


def test_shared_cases(shared, tmp_path):
    facts = open_family(shared / "models" / "qwen2_5_vl").facts
    cases = [p.parent for p in sorted((shared / "cases").glob("k*/pack.parquet"))]
    for case in cases:
        path = tmp_path / f"{case.name}.parquet"
        try:
            table = pq.read_table(case / "pack.parquet")
            names = [RENAMED.get(name, name) for name in table.column_names]
            pq.write_table(table.rename_columns(names), path)
        except pa.ArrowException:
            shutil.copy(case / "pack.parquet", path)
        expected = json.loads((case / "expected.json").read_text())["expect"]["exit"]
        verdict = verify([path], facts=facts, kernel=KernelOptions())
        assert verdict.passed == (expected == "ok"), (case.name, verdict.findings)
        strict_json(verdict)
    assert len(cases) >= 20


# ---- kernel level ----


def test_a_merged_boundary_names_both_samples(copy):
    shard = shards_of(copy)[0]
    names = pq.read_table(shard).column("sample_ids")[0].as_py()

    def merge(rows):
        return [[*rows[0][:1], *rows[0][2:]], *rows[1:]]

    rewrite(shard, cu_seqlens=merge)
    verdict = verify([copy], kernel=KernelOptions(sample=1, seed=3))
    short, found = [f for f in verdict.findings if f.code == "isolation.attention"]
    assert "max_seqlen is" in short.message
    assert (found.shard, found.row, found.sample) == (shard.name, 0, 1)
    assert found.sample_id == names[1]
    assert names[0] in found.message


def test_a_boundary_moved_by_one_is_seen_by_each_linear_kernel(encoded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(encoded("qwen3_5"), copy)
    path = tmp_path / "pack.parquet"
    ids = [list(range(10)), [5] * 8]
    cu = [[0, 4, 10], [0, 3, 8]]
    positions = [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [0, 1, 2, 0, 1, 2, 3, 4]]
    lists = pa.list_(pa.int32())
    table = pa.table(
        {
            "input_ids": pa.array(ids, lists),
            "cu_seqlens": pa.array(cu, lists),
            "position_ids": pa.array(positions, lists),
        }
    )
    pq.write_table(table, path)
    verdict = verify([path], facts=LINEAR, kernel=KernelOptions())
    found = {(f.code, f.row) for f in verdict.findings if f.code.startswith("isolation")}
    assert found == {("isolation.attention", 0), ("isolation.state", 0), ("isolation.conv", 0)}


def test_named_kernels_run_and_the_others_are_listed(packed, encoded):
    verdict = verify([encoded("qwen3_5")], kernel=KernelOptions(names=("gated_delta",), sample=1))
    assert [proof["kernel"] for proof in verdict.proofs] == ["gated_delta"]
    assert verdict.skipped["isolation.attention"] == "no kernel of this kind was named"
    assert verdict.skipped["isolation.conv"] == "no kernel of this kind was named"
    twice = KernelOptions(names=("sdpa", "sdpa"), sample=1)
    assert len(verify([packed], kernel=twice).proofs) == 1


def test_a_kernel_that_is_not_there(packed, monkeypatch):
    with pytest.raises(UsageError, match="no kernel is called 'nothing'"):
        verify([packed], kernel=KernelOptions(names=("nothing",)))
    with pytest.raises(UsageError, match="sdpa runs on the CPU"):
        verify([packed], kernel=KernelOptions(gpu=True, names=("sdpa",)))


def test_a_gpu_that_is_not_there_is_an_error_before_anything_is_read(packed, monkeypatch):
    lack = "torch finds no CUDA device"
    monkeypatch.setattr("packcli.verify.launch.cuda_lacks", lambda *_: lack)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(Shard, "open", lambda *_: pytest.fail("a shard was read"))
    with pytest.raises(EnvironmentLacksError, match="CUDA") as caught:
        verify([packed], kernel=KernelOptions(gpu=True))
    assert caught.value.exit_code == 4


def test_kinds_follow_the_model():
    kinds = [kernel.kind for kernel in choose_kernels(KernelOptions(), LINEAR)]
    assert kinds == ["attention", "state", "conv"]
    assert [k.kind for k in choose_kernels(KernelOptions(), None)] == ["attention"]


def test_the_seed_chooses_packs_and_findings_add_to_them(copy):
    def rows(seed):
        verdict, target = Verdict(), target_of(copy)
        return sampling._choose(target, KernelOptions(sample=2, seed=seed), verdict)

    assert rows(1) == rows(1)
    assert len({str(rows(seed)) for seed in range(8)}) > 1
    assert sum(map(len, rows(1).values())) == 2


def target_of(path):
    from packcli.verify.targets import open_target

    return open_target(path, None)


def test_deviations_are_finite_in_json():
    assert finite(0.25) == 0.25
    assert finite(math.inf) == finite(math.nan) == 1e30


def test_a_kernel_that_returns_no_numbers_still_gives_json(packed, monkeypatch):
    sdpa = kernels.load("sdpa")

    def run(probe):
        return np.full(probe.query.shape, np.nan, np.float32)

    from dataclasses import replace

    monkeypatch.setattr("packcli.verify.kernels.sdpa.KERNEL", replace(sdpa, run=run))
    verdict = verify([packed], kernel=KernelOptions(sample=1))
    assert not verdict.passed
    assert strict_json(verdict)["proofs"][0]["max_deviation"] == 1e30


# ---- hostile cells ----

ODD = [-(2**63), -(2**31), -1, 0, 1, 2, 5, 7, 8, 2**31 - 1, 2**31, 2**63 - 1]
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.string()]


@st.composite
def columns(draw):
    """Any Arrow column: lists, nested lists, scalars, nulls, of any type."""
    kind = draw(st.sampled_from(TYPES))
    element = st.one_of(st.none(), st.sampled_from(ODD))
    if not draw(st.booleans()):
        element = st.sampled_from(ODD)
    shape = draw(st.sampled_from(["list", "flat", "nested"]))
    cell = {
        "flat": element,
        "list": st.one_of(st.none(), st.lists(element, max_size=9)),
        "nested": st.lists(st.lists(element, max_size=9), max_size=4),
    }[shape]
    whole = {"flat": kind, "list": pa.list_(kind), "nested": pa.list_(pa.list_(kind))}[shape]
    rows = draw(st.lists(cell, min_size=2, max_size=2))
    try:
        return pa.array(_as_type(rows, kind), whole)
    except (pa.ArrowException, OverflowError):
        return pa.array([None, None], whole)


def _as_type(value, kind):
    if isinstance(value, list):
        return [_as_type(item, kind) for item in value]
    return str(value) if kind == pa.string() and value is not None else value


GOOD = {
    "input_ids": [[1] * 8, [2] * 5],
    "position_ids": [[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2]],
    "cu_seqlens": [[0, 3, 8], [0, 2, 5]],
    "seq_lengths": [[3, 5], [2, 3]],
    "max_seqlen": [5, 3],
    "sample_ids": [["a", "b"], ["c", "d"]],
}


def good_column(name):
    flat = {"max_seqlen": pa.int32(), "sample_ids": pa.list_(pa.string())}
    return pa.array(GOOD[name], flat.get(name, pa.list_(pa.int32())))


def test_the_good_columns_are_isolated():
    rows = to_rows(pa.table({name: good_column(name) for name in GOOD}))
    for row in range(2):
        result = check_isolation(ATTENTION, pack_bounds(rows, row), kernels.load("sdpa"))
        assert not result.faults


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), columns(), min_size=1, max_size=3))
def test_hostile_cells_never_raise(changed):
    table = pa.table({name: changed.get(name, good_column(name)) for name in GOOD})
    rows = to_rows(table)
    for row in range(2):
        bounds = pack_bounds(rows, row)
        if bounds is not None:
            result = check_isolation(ATTENTION, bounds, kernels.load("sdpa"))
            assert result.max_deviation is not None or result.faults


@settings(max_examples=40, deadline=None)
@given(changed=st.dictionaries(st.sampled_from(sorted(GOOD)), columns(), min_size=1, max_size=3))
def test_hostile_files_end_in_a_verdict(tmp_path_factory, changed):
    table = pa.table({name: changed.get(name, good_column(name)) for name in GOOD})
    path = tmp_path_factory.mktemp("hostile") / "shard.parquet"
    pq.write_table(table, path)
    strict_json(verify([path], kernel=KernelOptions()))


def cells(values, rows=None):
    array = np.asarray(values)
    bounds = np.array([0, len(array)]) if rows is None else np.asarray(rows)
    return Cells(array, bounds, None, f"list<{array.dtype}>")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("cu_seqlens", np.zeros(0, np.int32)),
        ("cu_seqlens", np.array([0], np.int32)),
        ("cu_seqlens", np.array([0, 2**63 - 1], np.int64)),
        ("cu_seqlens", np.array([0, 2**31 - 1, 8], np.int32)),
        ("cu_seqlens", np.array([-(2**31), 3, 8], np.int32)),
        ("seq_lengths", np.array([2**63 - 1, 1, 8], np.int64)),
        ("max_seqlen", np.array([2**31 - 1], np.int32)),
        ("max_seqlen", np.array([-5], np.int32)),
    ],
)
def test_values_at_the_edge_are_faults_or_ignored(column, values):
    good = {name: np.array(GOOD[name][0], np.int32) for name in ("cu_seqlens", "seq_lengths")}
    held = {
        "input_ids": cells(np.ones(8, np.int32)),
        "position_ids": cells(np.array(GOOD["position_ids"][0], np.int32)),
    } | {name: cells(array) for name, array in good.items()}
    bounds = pack_bounds(Rows(1, held | {column: cells(values)}), 0)
    assert bounds.expected == Offsets.from_values([0, 3, 8])
    result = check_isolation(ATTENTION, bounds, kernels.load("sdpa"))
    harmless = column == "seq_lengths" or (column == "max_seqlen" and values[0] > 0)
    assert (not result.faults) == harmless
