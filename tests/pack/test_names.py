"""Inputs of one name that were encoded apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from packcli.cli.again import Source, encode_again
from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing as EncodeWriting
from packcli.encode.run import encode
from packcli.pack.names import check_apart, told_apart
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.manifest import Manifest, read_manifest
from packcli.shards.reader import Shard
from packcli.verify.run import verify, verify_against

CAPACITY = PlanOptions(64)


def manifest(**inputs):
    """A manifest with inputs by name: what their bytes are told apart by."""
    told = [{"name": name, "bytes": 1, "sha256": sha} for name, sha in inputs.items()]
    return Manifest("encoded", ModelFacts("text", 1), {}, {}, {}, told)


def apart(*datasets):
    folders, inputs = zip(*datasets, strict=True)
    return told_apart([Path(folder) for folder in folders], [manifest(**one) for one in inputs])


def test_files_of_one_name_get_the_folder_of_their_dataset():
    found = apart(("/d/ea", {"t": "1", "own": "2"}), ("/d/eb", {"t": "3"}), ("/d/ec", {"v": "4"}))
    assert found == [{"t": "ea/t"}, {"t": "eb/t"}, {}]


def test_as_many_folders_as_are_needed():
    assert apart(("/x/e", {"t": "1"}), ("/y/e", {"t": "2"})) == [{"t": "x/e/t"}, {"t": "y/e/t"}]
    with_taken = apart(("/d/ea", {"t": "1"}), ("/d/eb", {"t": "2"}), ("/d/ec", {"ea/t": "3"}))
    assert with_taken == [{"t": "d/ea/t"}, {"t": "d/eb/t"}, {}]


def test_one_file_keeps_one_name():
    assert apart(("/d/ea", {"t": "1"}), ("/d/eb", {"t": "1"})) == [{}, {}]
    thrice = apart(("/d/ea", {"t": "1"}), ("/d/eb", {"t": "2"}), ("/d/ec", {"t": "1"}))
    assert thrice == [{"t": "ea/t"}, {"t": "eb/t"}, {"t": "ea/t"}]


def test_datasets_of_one_file_are_refused():
    folders = [Path("/d/ea"), Path("/d/eb"), Path("/d/ec")]
    made = [manifest(t="1"), manifest(t="2"), manifest(u="3", t="1")]
    told = r"^/d/ea and /d/ec were both made from t, which would be packed twice; name one of them"
    with pytest.raises(InputError, match=told):
        check_apart(folders, made)
    with pytest.raises(InputError, match="both made from u, which"):
        check_apart(folders, [manifest(t="1"), manifest(t="2"), manifest(u="1")])
    check_apart(folders, [manifest(t="1"), manifest(t="2"), manifest(t="3")])
    none = Manifest("encoded", ModelFacts("text", 1), {}, {}, {}, [{"name": "hub"}])
    check_apart(folders[:2], [none, none])


def test_inputs_that_no_folder_tells_apart():
    with pytest.raises(InputError, match="t: several inputs are called so; rename one"):
        apart(("/ea", {"t": "1"}), ("/eb", {"t": "2"}), ("/ec", {"ea/t": "3"}))


def record(answer, **more):
    turns = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": answer}]
    return {"messages": turns, **more}


LONG = record("word " * 80)
RECORDS = {
    "a": [record("One."), record("Two.", id="two"), LONG],
    "b": [record("One."), record("Three."), LONG],
}


@pytest.fixture
def made(sample_data, tmp_path):
    """Two datasets, each of a file that is called train.jsonl."""
    model = sample_data / "models" / "text"
    for name, records in RECORDS.items():
        (tmp_path / name).mkdir()
        lines = "".join(json.dumps(one) + "\n" for one in records)
        (tmp_path / name / "train.jsonl").write_text(lines, encoding="utf-8")
        job = EncodeJob(model, None, EncodeOptions())
        encode([tmp_path / name / "train.jsonl"], job, EncodeWriting(tmp_path / f"e{name}"))
    return tmp_path


def names_of(dataset):
    """(id, source) of every sample, in order of sources."""
    found = []
    for entry in read_manifest(dataset).shards:
        for rows in Shard.open(dataset / "data" / entry.name).groups():
            cells = (rows.cells[name].values.tolist() for name in ("sample_ids", "sample_sources"))
            found += zip(*cells, strict=True)
    return sorted(found, key=lambda pair: pair[1])


FOUND = [
    ("ea/train.jsonl:1", "ea/train.jsonl:1"),
    ("two", "ea/train.jsonl:2"),
    ("eb/train.jsonl:1", "eb/train.jsonl:1"),
    ("eb/train.jsonl:2", "eb/train.jsonl:2"),
]


def test_packs_say_which_input_a_sample_is_from(made):
    summary = pack([made / "ea", made / "eb"], CAPACITY, Writing(made / "packed"))
    assert (summary.samples, summary.rejected) == (4, 2)
    assert names_of(made / "packed") == FOUND
    inputs = read_manifest(made / "packed").inputs
    told = ["ea/train.jsonl", "eb/train.jsonl"]
    assert [file["name"] for one in inputs for file in one["inputs"]] == told
    lines = (made / "packed" / "rejected.jsonl").read_text(encoding="utf-8").splitlines()
    rejected = [json.loads(line) for line in lines]
    assert [line["file"] for line in rejected] == told
    assert [line["id"] for line in rejected] == [f"{name}:3" for name in told]
    assert rejected[0]["message"].startswith("ea/train.jsonl:3: ")


def test_what_was_told_apart_passes(made):
    pack([made / "ea", made / "eb"], PlanOptions(512), Writing(made / "packed"))
    verdict = verify([made / "packed"])
    verify_against([made / "packed"], [made / "ea", made / "eb"], verdict)
    assert verdict.findings == []
    assert (verdict.checked["compared"], verdict.checked["moved"]) == (6, 0)


def test_a_mixture_too(made):
    pack([made / "ea", made / "eb"], CAPACITY, Writing(made / "mixed"), epochs=[2, 1])
    assert names_of(made / "mixed") == sorted(FOUND + FOUND[:2], key=lambda pair: pair[1])
    assert verify([made / "mixed"]).findings == []
    with pytest.raises(InputError, match=r"mixed: a mixture, .*; pack the encoded datasets"):
        pack([made / "mixed"], CAPACITY, Writing(made / "again"))


def test_packs_that_are_packed_again_keep_their_names(made, sample_data):
    pack([made / "ea", made / "eb"], PlanOptions(512), Writing(made / "packed"))
    pack([made / "packed"], CAPACITY, Writing(made / "again"))
    assert names_of(made / "again") == FOUND
    pack([made / "packed"], PlanOptions(512), Writing(made / "whole"))
    source = Source(
        [made / "a" / "train.jsonl", made / "b" / "train.jsonl"], sample_data / "models/text"
    )
    origin = encode_again([made / "whole"], source, made)
    verdict = verify([made / "whole"])
    verify_against([made / "whole"], [origin], verdict)
    assert (verdict.findings, verdict.checked["compared"]) == ([], 6)
