"""The bundled datasets: sound ones pass, and each broken one is found by its folder's name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from packcli.contract.rules import BY_CODE
from packcli.families import open_family
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.model_level import ModelOptions
from packcli.verify.run import verify, verify_against

DATA = Path(__file__).resolve().parents[2] / "sample_data"
BROKEN = {path.name: path for path in sorted((DATA / "broken").iterdir()) if path.is_dir()}
FLAGS = {
    name: json.loads((path / "args.json").read_text("utf-8"))
    for name, path in BROKEN.items()
    if (path / "args.json").exists()
}
KERNELS = {name: flags["kernel"] for name, flags in FLAGS.items() if "kernel" in flags}
MODELS = {name: flags["model"] for name, flags in FLAGS.items() if "model" in flags}
AGAINST = {name: flags["against"] for name, flags in FLAGS.items() if "against" in flags}
NOT_IN_FILES = {
    "isolation.control": "a kernel earns it that does not notice sabotage; no file can",
}


def test_every_code_has_a_folder_but_those_that_no_file_can_earn():
    assert BY_CODE.keys() - BROKEN.keys() == NOT_IN_FILES.keys()
    assert BROKEN.keys() - BY_CODE.keys() == set()


@pytest.mark.parametrize("code", sorted(BROKEN.keys() - FLAGS.keys()))
def test_contract_level_finds_the_code_and_nothing_else(code):
    verdict = verify([BROKEN[code]])
    assert set(verdict.counts) == {code}
    assert not verdict.passed
    assert {finding.code for finding in verdict.findings} == {code}


@pytest.mark.parametrize("code", sorted(KERNELS.keys() - {"isolation.windows"}))
def test_kernel_names_the_samples_that_see_each_other(code):
    verdict = verify([BROKEN[code]], kernel=KernelOptions(names=(KERNELS[code],)))
    assert set(verdict.counts) == {"position.reset", code}
    (finding,) = [finding for finding in verdict.findings if finding.code == code]
    assert "sample 1 ('cat') sees sample 0 ('week') from token" in finding.message


def test_kernel_names_the_windows_that_see_each_other():
    verdict = verify([BROKEN["isolation.windows"]], kernel=KernelOptions())
    assert set(verdict.counts) == {"vit.windows", "isolation.windows"}
    seen = [finding for finding in verdict.findings if finding.code == "isolation.windows"]
    assert [f.message.partition(" from ")[0] for f in seen] == [
        "window 0 sees window 1",
        "window 1 sees window 0",
    ]
    assert {finding.sample_id for finding in seen} == {"two-pictures"}
    assert [proof["kind"] for proof in verdict.proofs] == ["attention", "windows"]


@pytest.mark.parametrize(
    ("code", "on_disk"), [("isolation.model", "position.reset"), ("model.slots", "slot.count")]
)
def test_a_model_shows_what_the_contract_level_says(code, on_disk):
    directory = DATA.parent / MODELS[code]
    facts = open_family(directory).facts
    verdict = verify([BROKEN[code]], facts=facts, model=ModelOptions(directory))
    assert set(verdict.counts) == {on_disk, code}


@pytest.mark.parametrize("code", AGAINST)
def test_samples_are_compared_with_those_they_were_made_from(code):
    verdict = verify([BROKEN[code]])
    assert verdict.passed
    verify_against([BROKEN[code]], [DATA.parent / AGAINST[code]], verdict)
    assert set(verdict.counts) == {code}
    assert all(finding.source and finding.sample_id for finding in verdict.findings)


def test_every_flag_is_tried():
    tried = (KERNELS, MODELS, AGAINST)
    assert sum(map(len, tried)) == len(FLAGS)


def test_lost_boundary_is_found_on_disk_and_by_the_kernel_at_the_same_token():
    verdict = verify([BROKEN["position.reset"]], kernel=KernelOptions())
    assert verdict.counts == {"position.reset": 1, "isolation.attention": 1}
    on_disk, seen = verdict.findings
    assert (on_disk.code, seen.code) == ("position.reset", "isolation.attention")
    assert (on_disk.row, on_disk.token) == (seen.row, seen.token)
    rows = pq.read_table(BROKEN["position.reset"] / "data").slice(seen.row, 1).to_pylist()
    first, second = rows[0]["sample_ids"][:2]
    assert f"sample 1 ({second!r}) sees sample 0 ({first!r})" in seen.message


def test_lost_boundary_is_lost_in_every_column_that_tells_it():
    (row, *_) = [
        row
        for row in pq.read_table(BROKEN["position.reset"] / "data").to_pylist()
        if len(row["seq_lengths"]) < row["num_samples"]
    ]
    told = len(row["seq_lengths"])
    assert told == row["num_samples"] - 1
    assert row["cu_seqlens"] == [*row["seq_start_id"], row["length"]]
    assert len(row["cu_seqlens"]) == told + 1
    assert row["max_seqlen"] == max(row["seq_lengths"])
    assert row["position_ids"].count(0) == row["num_samples"]


def test_good_dataset_passes_with_every_rule_run():
    verdict = verify([DATA / "good"], kernel=KernelOptions())
    assert verdict.passed
    assert verdict.skipped == {}
    assert (verdict.checked["samples"], verdict.checked["packs"]) == (84, 11)
    assert [proof["packs"] for proof in verdict.proofs] == [11]
    assert all(control["caught"] for control in verdict.proofs[0]["controls"])


def test_foreign_files_pass_and_say_what_could_not_be_checked():
    verdict = verify([DATA / "good_foreign"], kernel=KernelOptions())
    assert verdict.passed
    assert verdict.checked["shards"] == 3
    lacks = "needs sample_ids, sample_sources, sample_digests"
    assert verdict.skipped["sample.digest"] == lacks
    assert verdict.skipped["slot.count"] == "needs model with media"
    assert verdict.proofs[0]["packs"] == 2  # of the file that tells its boundaries twice


@pytest.mark.parametrize("name", ["trl", "megatron_bridge", "flattened"])
def test_each_foreign_file_holds_the_same_packs(name):
    columns = set(pq.read_schema(DATA / "good_foreign" / f"{name}.parquet").names)
    verdict = verify([DATA / "good_foreign" / f"{name}.parquet"])
    assert verdict.passed
    assert verdict.checked["samples"] == 5
    assert not columns & {"sample_digests", "sample_ids"}


def test_folders_are_small():
    for folder in (*BROKEN.values(), DATA / "good_foreign"):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size < 20_000, folder.name
