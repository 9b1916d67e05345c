"""Inputs of one file name: each sample gets its own record and its own images, or is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import datasets
import pytest
from click.testing import CliRunner
from PIL import Image

from packcli.cli.export import command
from packcli.contract.errors import InputError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.export.records import Records
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing as PackWriting
from packcli.pack.run import pack
from packcli.shards.manifest import read_manifest
from tests.export.conftest import refused_in

WHY = "names media by relative paths, which may mean other files in other inputs"
ROOT = "give --media-root FOLDER, or NAME=FOLDER for each input"


@pytest.fixture
def twins(tmp_path):
    """Two folders with a chats.jsonl and an img.png each, of other words and colours."""
    for name, colour in (("a", "red"), ("b", "blue")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (64, 64), colour).save(tmp_path / name / "img.png")
        turns = [
            {"role": "user", "content": f"<image>what {name}"},
            {"role": "assistant", "content": f"yes {name}"},
        ]
        line = json.dumps({"messages": turns, "images": ["img.png"]})
        (tmp_path / name / "chats.jsonl").write_text(line + "\n")
    return [tmp_path / name / "chats.jsonl" for name in "ab"]


@pytest.fixture
def packs_of(sample_data, tmp_path):
    """Encode files, together or apart, and pack them into one dataset."""

    def make(*runs, **options):
        encoded = []
        for number, files in enumerate(runs):
            encoded.append(tmp_path / f"encoded-{number}")
            model = sample_data / "models" / "qwen3_vl"
            job = EncodeJob(model, None, EncodeOptions(**options))
            encode(files, job, Writing(encoded[-1]))
        pack(encoded, PlanOptions(capacity=512), PackWriting(tmp_path / "packed"))
        return tmp_path / "packed"

    return make


def rows_in(output):
    rows = datasets.load_from_disk(str(output))
    return {row["messages"][0]["content"]: row["images"] for row in rows}


def test_each_sample_gets_its_own_record(twins, packs_of, exported):
    packed = packs_of(twins)
    roots = {f"{path.parent.name}/chats.jsonl": path.parent for path in twins}
    for records in (twins, twins[::-1]):
        output, summary = exported(
            packed, "ms-swift", records=tuple(records), media_root=roots, overwrite=True
        )
        assert summary.samples == 2
        assert rows_in(output) == {
            f"<image>what {path.parent.name}": [str(path.parent / "img.png")] for path in twins
        }
    for target in ("ms-swift", "qwen-vl-finetune"):
        for number, path in enumerate(twins):
            other = twins[1 - number].parent.name
            with pytest.raises(InputError, match=rf"is from '{other}/chats.jsonl:1'"):
                exported(packed, target, records=(path,), media_root=roots, overwrite=True)


def test_inputs_encoded_apart_are_known_by_their_bytes(twins, packs_of, exported):
    packed = packs_of(twins[:1], twins[1:])
    manifest = read_manifest(packed)
    for records in (twins, twins[::-1]):
        _, summary = exported(packed, "ms-swift", records=tuple(records), overwrite=True)
        # the pictures are those of two folders
        assert {*summary.refused} == {f"{WHY}; {ROOT}"}
        found = Records(records, manifest)
        for number, name in enumerate("ab"):
            source = f"{manifest.inputs[number]['inputs'][0]['name']}:1"
            assert found.find(source, source)["messages"][1]["content"] == f"yes {name}"
    with pytest.raises(InputError, match="give that file as --records"):
        exported(packed, "ms-swift", records=(twins[0],), overwrite=True)


def test_names_that_do_not_tell_inputs_apart_are_refused(twins, packs_of):
    manifest = read_manifest(packs_of(twins))
    inputs = [{**one, "name": "chats.jsonl"} for one in manifest.inputs[0]["inputs"]]
    for records in (twins, twins[:1], twins[1:]):
        with pytest.raises(InputError, match=r"2 inputs are called chats.jsonl.*in one run"):
            Records(records, replace(manifest, inputs=inputs))


def test_a_file_of_another_folder_is_told_from_the_closest(twins, packs_of, exported):
    packed = packs_of(twins)
    twins[1].write_text(twins[1].read_text() + "\n")
    with pytest.raises(InputError, match=r"b/chats.jsonl: is not b/chats.jsonl, or changed since"):
        exported(packed, "ms-swift", records=tuple(twins))


def test_llamafactory_names_the_image_of_each_input(twins, packs_of, exported):
    packed = packs_of(twins)
    output, summary = exported(packed, "llamafactory")
    assert summary.samples == 0
    assert {line["remedy"] for line in refused_in(output)} == {ROOT}
    roots = {f"{path.parent.name}/chats.jsonl": path.parent for path in twins}
    output, _ = exported(packed, "llamafactory", media_root=roots, overwrite=True)
    (row,) = datasets.load_from_disk(str(output))
    assert sorted(row["images"]) == [str(path.parent / "img.png") for path in twins]
    output, summary = exported(
        packed, "llamafactory", media_root={"b/chats.jsonl": twins[1].parent}, overwrite=True
    )
    assert summary.samples == 1
    assert [line["detail"] for line in refused_in(output)] == ["a/chats.jsonl"]
    with pytest.raises(InputError, match=r"c=…: no input is called so; there are a/chats.jsonl"):
        exported(packed, "llamafactory", media_root={"c": twins[0].parent}, overwrite=True)


def test_inputs_encoded_apart_share_no_unknown_folder(twins, packs_of, exported):
    packed = packs_of(twins[:1], twins[1:])
    output, summary = exported(packed, "llamafactory")
    assert summary.samples == 0
    assert {line["remedy"] for line in refused_in(output)} == {ROOT}


def test_one_input_without_a_root_says_where_paths_start(twins, packs_of, exported):
    packed = packs_of(twins[:1])
    output, summary = exported(packed, "llamafactory")
    (row,) = datasets.load_from_disk(str(output))
    assert row["images"] == ["img.png"]
    assert "folder that paths of images are relative to" in summary.recipe["working directory"]
    _, summary = exported(packed, "ms-swift", records=(twins[0],))
    assert "relative" in summary.recipe["ROOT_IMAGE_DIR"]
    _, summary = exported(packed, "qwen-vl-finetune", records=(twins[0],))
    assert "relative" in summary.recipe["data_path"]


def test_the_command_takes_a_folder_for_each_input(twins, packs_of, tmp_path):
    packed = packs_of(twins)
    roots = [f"--media-root={p.parent.name}/chats.jsonl={p.parent}" for p in twins]
    call = [str(packed), "--to", "llamafactory", "-o", str(tmp_path / "out"), "--no-progress"]
    ended = CliRunner().invoke(command, [*call, *roots])
    assert ended.exit_code == 0
    assert "exported 2 samples of 1 pack to" in ended.output
    assert CliRunner().invoke(command, [*call, "--media-root=a=nowhere"]).exit_code == 2
    both = CliRunner().invoke(command, [*call, f"--media-root={tmp_path}", roots[0]])
    assert "one FOLDER, or NAME=FOLDER for each" in both.output
    (row,) = datasets.load_from_disk(str(tmp_path / "out"))
    assert sorted(row["images"]) == [str(path.parent / "img.png") for path in twins]


def test_last_answers_alone_are_not_exported_as_all(packs_of, exported, tmp_path):
    def turns(*words):
        roles = ("user", "assistant") * 2
        told = zip(roles, words, strict=False)
        return [{"role": role, "content": text} for role, text in told]

    path = tmp_path / "chats.jsonl"
    lines = [{"id": "two", "messages": turns("a", "bad", "c", "good")}]
    lines += [{"id": "one", "messages": turns("a", "b")}]
    path.write_text("\n".join(map(json.dumps, lines)))
    packed = packs_of([path], supervise="last")
    for target in ("ms-swift", "qwen-vl-finetune"):
        output, summary = exported(packed, target, records=(path,))
        assert summary.samples == 1
        ((name, why),) = [(line["sample"], line["why"]) for line in refused_in(output)]
        assert name == "two"
        assert why.startswith("has several answers and learns the last one only")


def test_all_answers_are_exported_where_all_are_learnt(packs_of, exported, tmp_path):
    path = tmp_path / "chats.jsonl"
    roles = ("user", "assistant") * 2
    line = {"messages": [{"role": role, "content": "x"} for role in roles]}
    path.write_text(json.dumps(line))
    _, summary = exported(packs_of([path]), "ms-swift", records=(path,))
    assert summary.samples == 1
