"""One writer at a time, and none after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from packcli.cli import main
from packcli.contract.errors import UsageError
from packcli.contract.model import ModelFacts
from packcli.export.folder import staged
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.directory import OutputDirectory
from packcli.shards.lock import lock, unlock
from packcli.shards.manifest import Manifest

JOB = Manifest("packed", ModelFacts("text", 100), {}, {}, {}, [])

DATASET = """
from packcli.contract.model import ModelFacts
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
OutputDirectory.open(path, Manifest("packed", ModelFacts("text", 100), {}, {}, {}, []))
"""
EXPORT = """
from packcli.export.folder import staged
block = staged(path, overwrite=False)
block.__enter__()
"""


@pytest.fixture
def writer():
    """Start a process that writes to a folder, and waits."""
    started = []

    def start(body, path):
        lines = ["import sys", "from pathlib import Path", "path = Path(sys.argv[1])", body]
        lines += ["print('writing', flush=True)", "sys.stdin.read()"]
        process = subprocess.Popen(
            [sys.executable, "-c", "\n".join(lines), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_process_is_told_who_writes(writer, tmp_path, overwrite):
    output = tmp_path / "out"
    other = writer(DATASET, output)
    before = sorted(output.rglob("*"))
    with pytest.raises(UsageError, match=f"process {other.pid} on .* is writing there; wait"):
        OutputDirectory.open(output, JOB, overwrite=overwrite)
    assert sorted(output.rglob("*")) == before


def test_a_killed_process_holds_nothing(writer, tmp_path):
    output = tmp_path / "out"
    other = writer(DATASET, output)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert (output / ".packcli" / "lock").exists()
    OutputDirectory.open(output, JOB).close()
    assert not (output / ".packcli" / "lock").exists()


def test_pack_stops_before_it_touches_what_another_writes(writer, tmp_path, encoded, capsys):
    output = tmp_path / "out"
    writer(DATASET, output)
    with pytest.raises(UsageError, match="is writing there"):
        pack([encoded()], PlanOptions(2048), Writing(output, overwrite=True))
    command = ["pack", str(encoded()), "-o", str(output), "--overwrite", "--no-progress"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    assert "is writing there" in capsys.readouterr().err


def test_exports_are_locked_alike(writer, tmp_path):
    output = tmp_path / "out"
    other = writer(EXPORT, output)
    with pytest.raises(UsageError, match="is writing there"), staged(output, overwrite=False):
        pass
    other.kill()
    other.wait()
    with staged(output, overwrite=False) as folder:
        (folder / "file").write_text("x")
    assert (output / "file").read_text() == "x"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".lock")]


def test_a_failed_pack_lets_others_go_on(writer, tmp_path, encoded, monkeypatch):
    def broken(*_args):
        raise RuntimeError

    output = tmp_path / "out"
    monkeypatch.setattr("packcli.pack.run.fill_shard", broken)
    with pytest.raises(RuntimeError):
        pack([encoded()], PlanOptions(2048), Writing(output))
    assert not (output / ".packcli" / "lock").exists()


def test_the_same_process_takes_its_own_lock_again(tmp_path):
    path = tmp_path / "lock"
    lock(path, tmp_path)
    lock(path, tmp_path)
    unlock(path)
    unlock(path)
    assert not path.exists()


def test_a_refused_overwrite_leaves_the_folder_as_it_was(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="not written by packcli"):
        OutputDirectory.open(tmp_path, JOB, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
