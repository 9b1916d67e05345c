"""Records that kill the process that encodes them, and faults of packcli itself."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from packcli.contract.errors import IncompleteError
from packcli.encode import rescue as rescuing
from packcli.encode import run as stage
from packcli.encode.options import EncodeOptions
from packcli.encode.text.text_encoder import TextEncoder
from packcli.engine import alone
from tests.encode.running import MODELS, Written, chat, run, tree, write_lines

RECORDS = [chat(f"Question {n}?", f"Answer {n}.", id=f"r{n}") for n in range(60)]


@pytest.fixture
def crashing(monkeypatch):
    """The module under a name that spawned processes find too."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
    import crashing

    return crashing


def encode(crashing, path, out, workers):
    job = crashing.CrashingJob(MODELS / "text", None, EncodeOptions())
    return Written(stage.encode([path], job, stage.Writing(out, workers)), out)


def test_the_record_that_kills_its_worker_is_the_only_one_lost(crashing, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "PART_BYTES", 1500)
    records = [*RECORDS[:20]]
    records[7] = chat("abort", "x")
    records[8] = b"kill {broken"
    path = write_lines(tmp_path / "a.jsonl", records)
    written = encode(crashing, path, tmp_path / "out", 2)
    assert written.ids == [f"r{n}" for n in range(20) if n not in {7, 8}]
    assert len(written.manifest["shards"]) == 2
    assert [(line["line"], line["code"]) for line in written.rejected] == [
        (8, "worker_crash"),
        (9, "worker_crash"),
    ]
    assert "killed the process that encoded it (SIGABRT)" in written.rejected[0]["message"]
    assert "(SIGKILL)" in written.rejected[1]["message"]
    raw = path.read_bytes()
    assert raw[written.rejected[1]["offset"] :].startswith(b"kill {broken")
    assert written.summary.reasons == {"worker_crash": 2}


def test_a_run_that_died_in_its_own_process_is_rescued_when_it_is_run_again(
    crashing, tmp_path, monkeypatch
):
    records = [*RECORDS[:20]]
    records[3] = chat("exit", "x")
    path = write_lines(tmp_path / "a.jsonl", records)
    script = (
        "import pickle, sys; from pathlib import Path; import crashing\n"
        "from packcli.encode import run as stage\n"
        "from packcli.encode.options import EncodeOptions\n"
        "job = crashing.CrashingJob(Path(sys.argv[1]), None, EncodeOptions())\n"
        "job = pickle.loads(pickle.dumps(job))\n"
        "stage.encode([Path(sys.argv[2])], job, stage.Writing(Path(sys.argv[3])))"
    )
    arguments = [sys.executable, "-c", script, MODELS / "text", path, tmp_path / "out"]
    died = subprocess.run(arguments, capture_output=True, check=False)
    assert died.returncode == 7
    again = encode(crashing, path, tmp_path / "out", 1)
    assert (again.summary.kept, again.codes) == (19, ["worker_crash"])
    assert "(exit status 7)" in again.rejected[0]["message"]
    assert not (tmp_path / "out" / ".packcli").exists()


def test_an_interrupted_part_that_kills_nobody_gives_the_same_bytes(crashing, tmp_path):
    path = write_lines(tmp_path / "a.jsonl", RECORDS[:10])
    encode(crashing, path, tmp_path / "whole", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_finish", lambda *_: pytest.fail("pulled the plug"))
        with pytest.raises(pytest.fail.Exception):
            encode(crashing, path, tmp_path / "out", 1)
    (tmp_path / "out/.packcli/parts/00000.json").unlink()
    (tmp_path / "out/.packcli/underway/00000").touch()
    encode(crashing, path, tmp_path / "out", 1)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def die(_note):
    os._exit(3)


class Told:
    """Stands in for `alone.run`: processes end as listed."""

    def __init__(self, *ends):
        self.ends = list(ends)

    def __call__(self, _work):
        return self.ends.pop(0)


def dead(last, first=None):
    return alone.Ended(None, died=True, first=first, last=last, status=-9)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ([dead(None), dead(None)], "before any record"),
        (
            [dead(None), alone.Ended(None, died=False, first=1, last=5, status=0), dead(None)],
            "no record is",
        ),
        ([dead(None)] + [dead(n, n) for n in range(60)], "more than 20 of its records"),
    ],
)
def test_a_part_that_dies_of_no_record_is_given_up(tmp_path, monkeypatch, ends, why):
    (part,) = stage.plan_parts([write_lines(tmp_path / "a.jsonl", RECORDS[:2])])
    monkeypatch.setattr(rescuing.alone, "run", Told(*ends))
    with pytest.raises(IncompleteError, match=rf"a\.jsonl, part 1 of 1: .*{why}"):
        rescuing.rescue(part, None, None)


def test_a_fault_of_packcli_costs_one_record_and_is_told(tmp_path, monkeypatch):
    path = write_lines(tmp_path / "a.jsonl", RECORDS[:5])
    render, finish = TextEncoder.render, TextEncoder.finish

    def broken_render(self, conversation):
        if conversation.id == "r1":
            raise ZeroDivisionError("surprise")
        return render(self, conversation)

    def broken_finish(self, drafts):
        if any("Question 3" in "".join(one.pieces) for one in drafts):
            raise KeyError("nothing")
        return finish(self, drafts)

    monkeypatch.setattr(TextEncoder, "render", broken_render)
    monkeypatch.setattr(TextEncoder, "finish", broken_finish)
    written = run(path, tmp_path / "out", model="text")
    assert written.ids == ["r0", "r2", "r4"]
    assert [(line["line"], line["code"], line["id"]) for line in written.rejected] == [
        (2, "worker_crash", "r1"),
        (4, "worker_crash", "r3"),
    ]
    first = written.rejected[0]["message"]
    assert first.startswith("a.jsonl:2: packcli failed on it (ZeroDivisionError at test_crashes.py")
    assert written.summary.warnings == {"packcli_fault": 2}


def noting(note):
    for number in range(5):
        note(number)
    return "done"


def test_one_task_alone(monkeypatch):
    # the fresh process imports this file by name, and this file its neighbours
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import test_crashes

    ended = alone.run(test_crashes.noting)
    assert (ended.result, ended.died, ended.last) == ("done", False, 4)
    ended = alone.run(test_crashes.die)
    assert (ended.result, ended.died, ended.last, ended.status) == (None, True, None, 3)
    with pytest.raises(TypeError):
        alone.run(partial(test_crashes.noting, 1))
