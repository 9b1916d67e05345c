from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.contract.errors import IncompleteError, InputError, UsageError
from packcli.shards import directory as module
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, file_sha256, read_manifest
from packcli.shards.reader import Shard
from packcli.shards.writer import ShardWriter
from tests.contract.making import MODELS, make_packs

FACTS = MODELS["qwen2_vl"]
JOB = Manifest(
    kind="encoded",
    model=FACTS,
    versions={"packcli": "0.1.0"},
    settings={"min_pixels": 3136},
    options={"max_length": 4096, "sizes": (1, 2)},
    inputs=[{"name": "train.jsonl", "sha256": "ab" * 32}],
)
NAMES = ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet")


def packs(seed):
    return make_packs(np.random.default_rng(seed), FACTS, packs=3)


def write_part(output, number, seed=None):
    with output.shard(NAMES[number], FACTS) as (writer, entries):
        writer.write(packs(number if seed is None else seed))
    (entry,) = entries
    output.finish_part(number, {"shard": asdict(entry), "kept": entry.samples})
    return entry


def write_all(path, **options):
    output = OutputDirectory.open(path, JOB, **options)
    shards = tuple(write_part(output, n) for n in range(2))
    rejected = iter([{"file": "train.jsonl", "line": 3, "code": "bad_json"}])
    output.finish(replace(JOB, shards=shards), card="# card\n", rejected=rejected)
    return shards


def tree(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


FINISHED = sorted(
    ["README.md", "_SUCCESS", "manifest.json", "rejected.jsonl", *(f"data/{n}" for n in NAMES)]
)


# ------------------------------------------------------------------ a whole run


def test_finished_directory_holds_the_contract_and_nothing_else(tmp_path):
    out = tmp_path / "a" / "out"
    shards = write_all(out)
    assert tree(out) == FINISHED
    assert read_manifest(out) == replace(JOB, options=json_of(JOB.options), shards=shards)
    assert (out / "README.md").read_text() == "# card\n"
    assert (out / "rejected.jsonl").read_text() == (
        '{"file": "train.jsonl", "line": 3, "code": "bad_json"}\n'
    )
    assert (out / "_SUCCESS").read_bytes() == b""


def json_of(options):
    return json.loads(json.dumps(options))


def test_entries_tell_what_the_files_are(tmp_path):
    for number, entry in enumerate(write_all(tmp_path / "out")):
        path, held = tmp_path / "out" / "data" / entry.name, packs(number)
        assert entry.name == NAMES[number]
        assert (entry.rows, entry.samples, entry.tokens) == (
            3,
            held.members.total,
            held.tokens.total,
        )
        assert (entry.bytes, entry.sha256) == (path.stat().st_size, file_sha256(path))
        assert Shard.open(path).rows == 3


def test_two_runs_give_equal_bytes(tmp_path):
    write_all(tmp_path / "a")
    write_all(tmp_path / "b")
    for name in FINISHED:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_success_is_written_last(tmp_path, monkeypatch):
    order = []
    real = Path.replace

    def noted(self, target):
        order.append(Path(target).name)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    write_all(tmp_path / "out")
    assert order[-4:] == ["rejected.jsonl", "README.md", "manifest.json", "_SUCCESS"]
    assert [name for name in order if name.endswith(".parquet")] == list(NAMES)


def test_shard_is_synced_before_it_is_named(tmp_path, monkeypatch):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    events = []
    real_sync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("sync"), real_sync(fd)))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (events.append("rename"), real_replace(self, to))[1]
    )
    with output.shard(NAMES[0], FACTS) as (writer, _):
        writer.write(packs(0))
    assert events == ["sync", "rename", "sync"]


def test_nothing_in_staging_ends_with_parquet_and_data_is_empty_meanwhile(tmp_path):
    out = tmp_path / "out"
    output = OutputDirectory.open(out, JOB)
    with output.shard(NAMES[0], FACTS) as (writer, entries):
        writer.write(packs(0))
        assert entries == []
        assert not [name for name in tree(out) if name.endswith(".parquet")]
        assert [name for name in tree(out) if name.endswith(".tmp")]
    assert [name for name in tree(out) if name.endswith(".parquet")] == [f"data/{NAMES[0]}"]
    assert not [name for name in tree(out) if name.endswith(".tmp")]


def test_lone_surrogates_of_bad_records_can_be_written(tmp_path):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    output.finish(JOB, card="", rejected=iter([{"id": "\ud800ö"}]))
    line = (tmp_path / "out" / "rejected.jsonl").read_text(encoding="utf-8")
    assert line == '{"id": "\\ud800ö"}\n'
    assert json.loads(line) == {"id": "\ud800ö"}


# ------------------------------------------------------------------ claiming


@pytest.mark.parametrize("kind", ["absent", "empty", "only an empty staging folder"])
def test_fresh_folders_are_claimed(tmp_path, kind):
    out = tmp_path / "out"
    if kind != "absent":
        (out / ".packcli" if kind.startswith("only") else out).mkdir(parents=True)
    write_all(out)
    assert tree(out) == FINISHED


@pytest.mark.parametrize("name", ["notes.txt", "data/x.parquet", "manifest.json", "_SUCCESS"])
def test_a_folder_that_is_not_empty_is_refused(tmp_path, name):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        OutputDirectory.open(tmp_path / "out", JOB)
    assert tree(tmp_path / "out") == [name]


def test_a_finished_dataset_is_refused(tmp_path):
    write_all(tmp_path / "out")
    with pytest.raises(UsageError, match="--overwrite"):
        OutputDirectory.open(tmp_path / "out", JOB)
    assert tree(tmp_path / "out") == FINISHED


def test_a_finished_dataset_whose_staging_was_not_swept_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "rmtree", lambda *_a, **_k: None)
    write_all(tmp_path / "out")
    with pytest.raises(UsageError, match="--overwrite"):
        OutputDirectory.open(tmp_path / "out", JOB)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["out", "out/data", "out/.packcli"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path, name, overwrite):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="no folder"):
        OutputDirectory.open(tmp_path / "out", JOB, overwrite=overwrite)
    assert (tmp_path / name).read_text() == "mine"


# ------------------------------------------------------------------ overwriting


def test_overwrite_replaces_a_finished_dataset(tmp_path):
    write_all(tmp_path / "out")
    before = file_sha256(tmp_path / "out" / "data" / NAMES[0])
    output = OutputDirectory.open(tmp_path / "out", JOB, overwrite=True)
    assert [n for n in tree(tmp_path / "out") if not n.startswith(".packcli")] == []
    assert output.part(0) is None
    write_part(output, 0, seed=9)
    assert file_sha256(tmp_path / "out" / "data" / NAMES[0]) != before


def test_overwrite_keeps_what_others_wrote(tmp_path):
    out = tmp_path / "out"
    write_all(out)
    foreign = ["notes.txt", "data/other.parquet", "sub/manifest.json"]
    for name in foreign:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
    write_all(out, overwrite=True)
    assert tree(out) == sorted([*FINISHED, *foreign])
    assert {(out / name).read_text() for name in foreign} == {"mine"}


@pytest.mark.parametrize("name", ["README.md", "manifest.json", "rejected.jsonl", "_SUCCESS"])
def test_overwrite_refuses_files_that_only_look_like_ours(tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text('{"shards": [{"name": "../precious"}]}')
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(UsageError, match=f"{name} was not written by packcli"):
        OutputDirectory.open(out, JOB, overwrite=True)
    assert tree(tmp_path) == sorted([f"out/{name}", "precious"])


def test_overwrite_is_not_led_out_of_data_by_an_edited_manifest(tmp_path):
    out = tmp_path / "out"
    write_all(out)
    document = json.loads((out / "manifest.json").read_text())
    (tmp_path / "precious").write_text("mine")
    for name in ("../../precious", str(tmp_path / "precious"), "..", ""):
        document["shards"].append({"name": name})
    (out / "manifest.json").write_text(json.dumps(document))
    OutputDirectory.open(out, JOB, overwrite=True)
    assert (tmp_path / "precious").read_text() == "mine"
    assert (out / "data").is_dir()
    assert not list((out / "data").iterdir())


def test_overwrite_removes_shards_of_unfinished_work(tmp_path):
    out = tmp_path / "out"
    output = OutputDirectory.open(out, JOB)
    write_part(output, 0)
    with output.shard(NAMES[1], FACTS) as (writer, _):  # committed, and then the process died
        writer.write(packs(1))
    OutputDirectory.open(out, JOB, overwrite=True)
    assert not list((out / "data").iterdir())


def test_overwrite_removes_what_an_interrupted_finish_left(tmp_path, monkeypatch):
    out = tmp_path / "out"
    real = Path.replace

    def full(self, target):
        if Path(target).name == "manifest.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(IncompleteError, match="No space left"):
        write_all(out)
    monkeypatch.setattr(Path, "replace", real)
    assert (out / "README.md").exists()
    assert not (out / "_SUCCESS").exists()
    write_all(out, overwrite=True)
    assert tree(out) == FINISHED


def test_overwrite_removes_success_first_and_the_manifest_last(tmp_path, monkeypatch):
    write_all(tmp_path / "out")
    order = []
    real = Path.unlink

    def noted(self, missing_ok=False):
        order.append(self.name)
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)
    OutputDirectory.open(tmp_path / "out", JOB, overwrite=True)
    assert (order[0], order[-1]) == ("_SUCCESS", "manifest.json")


def test_overwrite_of_nothing_is_a_fresh_start(tmp_path):
    write_all(tmp_path / "out", overwrite=True)
    assert tree(tmp_path / "out") == FINISHED


def test_shard_of_a_foreign_name_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    output = OutputDirectory.open(out, JOB)
    (out / "data" / NAMES[0]).write_text("mine")
    with pytest.raises(UsageError, match="not written by packcli"):
        write_part(output, 0)
    assert (out / "data" / NAMES[0]).read_text() == "mine"


# ------------------------------------------------------------------ resuming


def test_resume_keeps_finished_parts(tmp_path):
    entry = write_part(OutputDirectory.open(tmp_path / "out", JOB), 0)
    again = OutputDirectory.open(tmp_path / "out", JOB)
    assert again.part(0) == {"shard": asdict(entry), "kept": entry.samples}
    assert again.part(1) is None
    shards = (entry, write_part(again, 1))
    again.finish(replace(JOB, shards=shards), card="", rejected=iter([]))
    write_all(tmp_path / "whole")
    assert tree(tmp_path / "out") == FINISHED
    for name in ("manifest.json", *(f"data/{n}" for n in NAMES)):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_part_without_a_shard_is_finished_too(tmp_path):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    output.finish_part(3, {"shard": None, "rejected": 4})
    assert OutputDirectory.open(tmp_path / "out", JOB).part(3) == {"shard": None, "rejected": 4}


@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_part_whose_shard_is_not_whole_is_not_finished(tmp_path, damage):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    write_part(output, 0)
    path = tmp_path / "out" / "data" / NAMES[0]
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    assert output.part(0) is None
    write_part(output, 0)
    assert output.part(0) is not None


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"options": {"max_length": 8192, "sizes": (1, 2)}}, ["options.max_length"]),
        ({"options": {"max_length": 4096}}, ["options.sizes"]),
        ({"versions": {"packcli": "0.2.0"}}, ["versions.packcli"]),
        ({"settings": {"min_pixels": 1}, "kind": "packed"}, ["kind", "settings.min_pixels"]),
        ({"inputs": []}, ["inputs"]),
        ({"model": replace(FACTS, vocab_size=9)}, ["model.vocab_size"]),
    ],
)
def test_resume_with_other_options_is_refused_naming_them(tmp_path, change, fields):
    write_part(OutputDirectory.open(tmp_path / "out", JOB), 0)
    before = tree(tmp_path)
    with pytest.raises(InputError) as told:
        OutputDirectory.open(tmp_path / "out", replace(JOB, **change))
    assert f"with other {', '.join(fields)};" in str(told.value)
    assert tree(tmp_path) == before


def test_no_resume_refuses_unfinished_work(tmp_path):
    write_part(OutputDirectory.open(tmp_path / "out", JOB), 0)
    with pytest.raises(UsageError, match="unfinished work"):
        OutputDirectory.open(tmp_path / "out", JOB, resume=False)


# ------------------------------------------------------------------ failing


def interrupted(output, error):
    with output.shard(NAMES[0], FACTS) as (writer, _):
        writer.write(packs(0))
        raise error


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), IncompleteError("x")])
def test_exception_in_the_block_leaves_nothing(tmp_path, error):
    out = tmp_path / "out"
    output = OutputDirectory.open(out, JOB)
    with pytest.raises(type(error)):
        interrupted(output, error)
    assert not list((out / "data").iterdir())
    assert not [name for name in tree(out) if name.endswith((".tmp", ".parquet"))]
    write_part(output, 0)
    assert output.part(0) is not None


FULL = OSError(errno.ENOSPC, "No space left on device")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")


def failing(error):
    def fail(*_arguments, **_options):
        raise error

    return fail


@pytest.mark.parametrize("error", [FULL, READ_ONLY], ids=["full", "read-only"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(ShardWriter, "write"), (ShardWriter, "_flush"), (Path, "replace"), (os, "fsync")],
    ids=["write", "flush", "rename", "sync"],
)
def test_disk_errors_of_a_shard_are_incomplete_work(tmp_path, monkeypatch, owner, name, error):
    out = tmp_path / "out"
    output = OutputDirectory.open(out, JOB)
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, failing(error))
    with pytest.raises(IncompleteError) as told:
        write_part(output, 0)
    monkeypatch.setattr(owner, name, real)
    assert told.value.exit_code == 5
    assert error.strerror in str(told.value)
    assert str(out) in str(told.value)
    assert not list((out / "data").iterdir())
    assert not [file for file in tree(out) if file.endswith(".tmp")]
    again = OutputDirectory.open(out, JOB)
    assert again.part(0) is None
    write_part(again, 0)


def test_disk_error_while_closing_does_not_leave_the_file_open(tmp_path, monkeypatch):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    monkeypatch.setattr(ShardWriter, "_flush", failing(FULL))
    closed = []

    def close(self):
        closed.append(self)

    monkeypatch.setattr(pq.ParquetWriter, "close", close)
    with pytest.raises(IncompleteError) as told:
        write_part(output, 0)
    assert len(closed) == 1
    assert told.traceback, "the writer is alive, so it was not its destructor that closed it"


@pytest.mark.parametrize("overwrite", [False, True])
def test_folder_that_cannot_be_made_is_incomplete_work(tmp_path, monkeypatch, overwrite):
    monkeypatch.setattr(Path, "mkdir", failing(READ_ONLY))
    with pytest.raises(IncompleteError, match="Read-only file system"):
        OutputDirectory.open(tmp_path / "out", JOB, overwrite=overwrite)


def test_damage_between_writing_and_commit_is_told(tmp_path, monkeypatch):
    output = OutputDirectory.open(tmp_path / "out", JOB)

    def cut(path):
        if path.name.endswith(".tmp") and NAMES[0] in path.name:
            path.write_bytes(path.read_bytes()[:-20])

    monkeypatch.setattr(module, "sync", cut)
    with pytest.raises(IncompleteError, match="cannot be read"):
        write_part(output, 0)
    assert not list((tmp_path / "out" / "data").iterdir())


def test_rows_that_got_lost_are_told(tmp_path, monkeypatch):
    output = OutputDirectory.open(tmp_path / "out", JOB)
    monkeypatch.setattr(Shard, "rows", property(lambda _: 2))
    with pytest.raises(IncompleteError, match="wrote 3 rows, the file has 2"):
        write_part(output, 0)
    assert not list((tmp_path / "out" / "data").iterdir())
