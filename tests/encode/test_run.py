"""Whole runs: equal bytes whatever the workers, the folder and the interruptions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from packcli.contract.errors import InputError, UsageError
from packcli.encode import run as stage
from packcli.encode.options import short_names
from tests.encode.running import MODELS, chat, run, tree, write_lines

PART = 2000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(stage, "PART_BYTES", PART)


@pytest.fixture
def lines(tmp_path):
    """Three parts: kept, rejected and blank lines in each."""
    records = [
        chat(f"Question {n}? " + "x" * (n % 7), f"Answer {n}.", id=f"r{n}") for n in range(38)
    ]
    records[5] = records[17] = records[30] = b"{broken"
    records[9] = b""
    path = write_lines(tmp_path / "in" / "lines.jsonl", records)
    assert 2 * PART < path.stat().st_size <= 3 * PART
    return path


def test_nothing_is_lost_between_parts(lines, tmp_path):
    written = run(lines, tmp_path / "out")
    numbers = [n for n in range(38) if n not in {5, 9, 17, 30}]
    assert written.ids == [f"r{n}" for n in numbers]
    assert [row["sample_sources"] for row in written.rows] == [
        [f"lines.jsonl:{n + 1}"] for n in numbers
    ]
    assert [line["line"] for line in written.rejected] == [6, 18, 31]
    raw = lines.read_bytes()
    assert all(raw[line["offset"] :].startswith(b"{broken\n") for line in written.rejected)
    summary = written.summary
    assert (summary.records, summary.kept, summary.rejected, summary.blank) == (37, 34, 3, 1)
    manifest = written.manifest
    assert [shard["name"] for shard in manifest["shards"]] == [
        f"train-0000{n}-of-00003.parquet" for n in range(3)
    ]
    assert sum(shard["samples"] for shard in manifest["shards"]) == 34
    assert manifest["counts"]["kept"] == 34
    assert sorted(path.name for path in written.folder.iterdir()) == [
        "README.md", "_SUCCESS", "data", "manifest.json", "rejected.jsonl",
    ]  # fmt: skip


def test_what_part_sizes_do_not_change(lines, tmp_path, monkeypatch):
    small = run(lines, tmp_path / "small")
    monkeypatch.setattr(stage, "PART_BYTES", 2**24)
    monkeypatch.setattr(stage, "BATCH_RECORDS", 3)
    large = run(lines, tmp_path / "large")
    assert len(large.manifest["shards"]) == 1
    assert large.rows == small.rows
    assert large.rejected == small.rejected
    assert large.manifest["digest"] == small.manifest["digest"]


def test_an_interrupted_run_goes_on_to_the_same_bytes(lines, tmp_path, monkeypatch):
    run(lines, tmp_path / "whole")
    encode, calls = stage.Encoder.encode, []

    def fail(self, name, records):
        calls.append(name)
        if len(calls) == 2:
            raise RuntimeError("pulled the plug")
        return encode(self, name, records)

    monkeypatch.setattr(stage.Encoder, "encode", fail)
    with pytest.raises(RuntimeError, match="pulled the plug"):
        run(lines, tmp_path / "out")
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert [path.name for path in (tmp_path / "out/data").iterdir()] == [
        "train-00000-of-00003.parquet"
    ]
    first = (tmp_path / "out/data/train-00000-of-00003.parquet").stat().st_mtime_ns
    resumed = run(lines, tmp_path / "out")
    assert len(calls) == 4  # the first part was not done again
    assert (tmp_path / "out/data/train-00000-of-00003.parquet").stat().st_mtime_ns == first
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    assert resumed.summary.kept == 34


@pytest.mark.parametrize("damage", ["lost", "short"])
def test_a_finished_part_whose_shard_is_damaged_is_done_again(lines, tmp_path, monkeypatch, damage):
    run(lines, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(stage, "_finish", lambda *_: pytest.fail("pulled the plug"))
        with pytest.raises(pytest.fail.Exception):
            run(lines, tmp_path / "out")
    shard = tmp_path / "out/data/train-00001-of-00003.parquet"
    shard.unlink() if damage == "lost" else os.truncate(shard, 100)
    run(lines, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def stop_half_way(lines, folder, monkeypatch, **options):
    with monkeypatch.context() as patch:
        patch.setattr(stage, "_finish", lambda *_: pytest.fail("pulled the plug"))
        with pytest.raises(pytest.fail.Exception):
            run(lines, folder, **options)


def test_other_options_do_not_go_on(lines, tmp_path, monkeypatch):
    out = tmp_path / "out"
    stop_half_way(lines, out, monkeypatch)
    with pytest.raises(InputError, match=r"other options\.max_length; use the same"):
        run(lines, out, max_length=10)
    with pytest.raises(InputError, match=r"options\.images\.decode"):
        run(lines, out, images=stage_policy(decode=True))
    with pytest.raises(InputError, match="other model"):
        run(lines, out, model="qwen3_5")
    with pytest.raises(UsageError, match="unfinished work"):
        run(lines, out, writing={"resume": False})
    with lines.open("ab") as stream:
        stream.write(json.dumps(chat()).encode())
    with pytest.raises(InputError, match="other inputs; use the same"):
        run(lines, out)
    assert run(lines, out, writing={"overwrite": True}).summary.kept == 35


def stage_policy(**fields):
    from packcli.encode.media.images import ImagePolicy

    return ImagePolicy(**fields)


def test_finished_output_is_replaced_only_on_request(lines, tmp_path):
    out = tmp_path / "out"
    run(lines, out)
    before = tree(out)
    with pytest.raises(UsageError, match="not empty"):
        run(lines, out)
    assert tree(out) == before
    (out / "notes.txt").write_text("mine")
    run(write_lines(tmp_path / "in/lines.jsonl", [chat()]), out, writing={"overwrite": True})
    assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in (out / "data").iterdir()] == ["train-00000-of-00001.parquet"]


def test_a_full_folder_of_somebody_else_is_not_touched(lines, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text("{}")
    for writing in ({}, {"overwrite": True}):
        with pytest.raises(UsageError):
            run(lines, out, writing=writing)
    assert tree(out).keys() == {"manifest.json"}


def test_inputs_of_one_name_are_told_apart(tmp_path):
    paths = [
        write_lines(tmp_path / folder / "x.jsonl", [chat(), b"{"]) for folder in ("a/d", "b/d")
    ]
    written = run(paths, tmp_path / "out")
    assert written.ids == ["a/d/x.jsonl:1", "b/d/x.jsonl:1"]
    assert [line["file"] for line in written.rejected] == ["a/d/x.jsonl", "b/d/x.jsonl"]
    assert [entry["name"] for entry in written.manifest["inputs"]] == ["a/d/x.jsonl", "b/d/x.jsonl"]
    assert written.summary.warnings == {}


def test_media_lie_beside_each_input(tmp_path, sample_data):
    paths = []
    for folder, picture in (("a", "dot.png"), ("b", "shapes.png")):
        record = chat("<image>?", images=["p.png"])
        paths.append(write_lines(tmp_path / folder / f"{folder}.jsonl", [record]))
        (tmp_path / folder / "p.png").write_bytes((sample_data / "media" / picture).read_bytes())
    rows = run(paths, tmp_path / "out").rows
    assert [row["image_grid_thw"] for row in rows] == [[[1, 14, 20]], [[1, 16, 20]]]


def test_an_input_may_be_named_once(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", [chat()])
    (tmp_path / "link.jsonl").symlink_to(path)
    for other in (path, tmp_path / "in" / ".." / "x.jsonl", tmp_path / "link.jsonl"):
        (tmp_path / "in").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=re.escape(f"{other} is named twice; name every")):
            run([path, other], tmp_path / "out")


def test_names_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    one, two = (write_lines(tmp_path / name, []) for name in ("a/x.jsonl", "a/b/x.jsonl"))
    expected = short_names([one, two])
    assert expected == ["a/x.jsonl", "b/x.jsonl"]
    monkeypatch.chdir(tmp_path / "a")
    assert (
        short_names([one.relative_to(tmp_path / "a"), two.relative_to(tmp_path / "a")]) == expected
    )


@pytest.mark.parametrize("name", ["absent.jsonl", "records.csv"])
def test_inputs_that_cannot_be_read_stop_the_run(tmp_path, name):
    if name.endswith("csv"):
        (tmp_path / name).write_text("a,b\n")
    with pytest.raises(InputError, match=name):
        run(tmp_path / name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b"\xef\xbb\xbf"])
def test_an_input_without_records_gives_an_empty_dataset(tmp_path, data):
    (tmp_path / "x.jsonl").write_bytes(data)
    written = run(tmp_path / "x.jsonl", tmp_path / "out")
    assert (written.summary.records, written.rows, written.rejected) == (0, [], [])
    assert (tmp_path / "out/_SUCCESS").exists()


def test_a_part_with_rejected_records_only(tmp_path):
    written = run(write_lines(tmp_path / "x.jsonl", [b"{"] * 3), tmp_path / "out")
    assert (written.summary.records, written.summary.rejected, written.rows) == (3, 3, [])
    assert written.manifest["shards"][0]["rows"] == 0


CHILD = """
import sys
from pathlib import Path
from packcli.encode import run as stage
from packcli.encode.options import EncodeJob, EncodeOptions
stage.PART_BYTES = {part}
job = EncodeJob(Path({model!r}), None, EncodeOptions())
stage.encode([Path({input!r})], job, stage.Writing(Path({output!r}), workers={workers}))
"""


def child(tmp_path, lines, output, *, workers=1, seed="0", cwd=None):
    """Run in another process; the main module is what spawned workers import again."""
    script = tmp_path / f"child_{output}.py"
    body = CHILD.format(
        part=PART,
        model=str(MODELS / "qwen2_5_vl"),
        input=str(lines),
        output=str(tmp_path / output),
        workers=workers,
    )
    head, _, last = body.strip().rpartition("\n")
    script.write_text(f"{head}\nif __name__ == '__main__':\n    {last}\n")
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, script], check=True, env=environment, cwd=cwd)
    return tree(tmp_path / output)


def test_workers_hash_seeds_and_folders_change_no_byte(tmp_path, sample_data):
    media = [chat("<image> <video>", images=["media/dice.jpg"], videos=["media/ball.mp4"])] * 3
    records = [*media, *(chat(f"{n} " * 60, id=n) for n in range(30)), b"{", chat("<image>")]
    lines = write_lines(tmp_path / "in" / "lines.jsonl", records)
    (tmp_path / "in/media").mkdir()
    for name in ("dice.jpg", "ball.mp4"):
        shutil.copy(sample_data / "media" / name, tmp_path / "in/media")
    one = child(tmp_path, lines, "one", seed="1")
    near = lines.relative_to(tmp_path / "in")
    two = child(tmp_path, near, "two", workers=2, seed="2", cwd=tmp_path / "in")
    assert one == two
    assert len([name for name in one if name.endswith(".parquet")]) == 5
    counts = json.loads((tmp_path / "one/manifest.json").read_text())["counts"]
    assert counts["media"] == {"images": 3, "videos": 3}
    assert counts["reasons"] == {"bad_json": 1, "tag_count_mismatch": 1}


def test_order_of_batches_does_not_change_positions(lines, tmp_path):
    for row in run(lines, tmp_path / "out").rows:
        planes = np.array(row["mrope_position_ids"])
        assert (planes == np.arange(row["length"])).all()
