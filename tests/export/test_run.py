"""The loop: refusals are told, folders are safe, equal data gives equal bytes."""

from __future__ import annotations

import json

import pytest

from packcli.contract.errors import InputError, UsageError
from packcli.export import run
from packcli.export.dataset import Dataset
from packcli.export.options import ExportOptions
from packcli.export.targets import load, names
from tests.export.conftest import refused_in

NAMES = [
    "automodel",
    "llamafactory",
    "llava-onevision2",
    "mds",
    "megatron-bridge",
    "ms-swift",
    "qwen-vl-finetune",
]


def bytes_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_shelf():
    assert names() == NAMES
    for name in NAMES:
        file = load(name)
        assert file.WHAT
        assert file.CARRIED
        assert file.LOST
    with pytest.raises(UsageError, match="no target is called 'axolotl'"):
        load("axolotl")


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_is_written_or_refused_and_bytes_repeat(
    name, packed, canvases, sample_data, tmp_path
):
    path = canvases if name == "llava-onevision2" else packed
    told = {"records": (sample_data / "chats.jsonl",), "media_root": sample_data}
    summaries = [
        run.export(path, name, ExportOptions(tmp_path / str(once), shard_bytes=20_000, **told))
        for once in range(2)
    ]
    first, second = (bytes_of(tmp_path / str(once)) for once in range(2))
    assert first == second
    document = json.loads((tmp_path / "0" / ".packcli_export.json").read_text())
    held = json.loads((path / "manifest.json").read_text())
    refused = refused_in(tmp_path / "0")
    assert document["samples"] + len(refused) == held["counts"]["samples"] > len(refused)
    assert sum(one["samples"] for one in document["refused"]) == len(refused)
    assert document["dataset"]["fingerprint"] == held["fingerprint"]
    assert {file["name"] for file in document["files"]} == {
        path.as_posix() for path in first if path.name != ".packcli_export.json"
    }
    assert all(line["why"] and line["remedy"] and ":" in line["source"] for line in refused)
    assert summaries[0].recipe == summaries[1].recipe


def test_one_row_group_is_read_at_a_time(packed, exported, monkeypatch):
    dataset = Dataset.open(packed)
    sizes = [portion.tokens.total for portion in dataset.portions()]
    assert len(sizes) == sum(dataset.groups) > 1
    told = []
    exported(packed, "mds", progress=lambda done, every: told.append((done, every)))
    assert told == [(n, len(sizes)) for n in range(1, len(sizes) + 1)]


def test_an_output_that_is_not_empty_is_refused(packed, exported, tmp_path):
    output, _ = exported(packed, "megatron-bridge")
    with pytest.raises(UsageError, match="not empty"):
        exported(packed, "megatron-bridge")
    before = bytes_of(output)
    exported(packed, "megatron-bridge", overwrite=True)
    assert bytes_of(output) == before
    (output / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt was not written by this export"):
        exported(packed, "megatron-bridge", overwrite=True)
    assert bytes_of(output) == before | {(output / "notes.txt").relative_to(output): b"mine"}


def test_a_manifest_does_not_lead_out_of_the_folder(packed, exported, tmp_path):
    output, _ = exported(packed, "mds")
    (tmp_path / "mine.txt").write_text("mine")
    told = json.loads((output / ".packcli_export.json").read_text())
    told["files"].append({"name": "../mine.txt"})
    (output / ".packcli_export.json").write_text(json.dumps(told))
    exported(packed, "mds", overwrite=True)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_nothing_is_left_when_it_fails(packed, exported, tmp_path, monkeypatch):
    def fail(*_):
        raise InputError("damaged")

    monkeypatch.setattr("packcli.export.dataset.Shard.group", fail)
    with pytest.raises(InputError, match="damaged"):
        exported(packed, "mds")
    assert list(tmp_path.iterdir()) == []


def test_unfinished_datasets_are_refused(tmp_path, exported, packed):
    with pytest.raises(InputError, match="no manifest"):
        exported(tmp_path, "mds")
    (tmp_path / "manifest.json").write_bytes((packed / "manifest.json").read_bytes())
    with pytest.raises(InputError, match="not complete"):
        exported(tmp_path, "mds")


def test_packs_longer_than_a_row_are_refused(packed, exported):
    with pytest.raises(InputError, match=r"rows have 100; give --pad-to"):
        exported(packed, "llamafactory", pad_to=100)


def test_rows_of_encoded_data_need_a_length(encoded, exported):
    with pytest.raises(UsageError, match="give --pad-to"):
        exported(encoded(), "automodel")
    _, summary = exported(encoded(), "automodel", pad_to=4096)
    assert summary.samples > 0
