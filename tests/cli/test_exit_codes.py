"""One exit status for each kind of end, reached through the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from packcli.contract.errors import IncompleteError


@pytest.fixture
def model(sample_data):
    return sample_data / "models" / "qwen3_vl"


def test_0_good(installed, packed):
    ended = installed("verify", packed, "--level", "contract")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith("verdict  PASSED\n")


def test_1_findings(installed, packed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(packed, copy)
    next((copy / "data").iterdir()).unlink()
    ended = installed("verify", copy, "--level", "contract", "--json")
    assert ended.status == 1
    assert ended.document["counts"] == {"shard.missing": 1}
    assert ended.err == ""


def test_1_more_rejected_than_allowed(call, model, tmp_path):
    source = tmp_path / "chat.jsonl"
    source.write_text('{"messages": []}\n')
    ended = call("encode", source, "--model", model, "-o", tmp_path / "out")
    assert ended.status == 1
    assert "1 of 1 record rejected (100.00 %, allowed 1.00 %)" in ended.err
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_1_no_packs(call, encoded, tmp_path):
    ended = call("pack", encoded(), "-o", tmp_path / "out", "--capacity", 2)
    assert ended.status == 1
    assert "no packs" in ended.err
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify"],
        ["verify", "x", "--level", "atoms"],
        ["verify", "x", "--sample", "0"],
        ["verify", "x", "--sample", "many"],
        ["pack", "x"],
        ["pack", "x", "-o", "out", "--capacity", "0"],
        ["pack", "x", "-o", "out", "--strategy"],
        ["plan", "x", "--capacity", "12,none"],
        ["plan", "x", "--capacity", "0"],
        ["plan", "x", "--capacity", ""],
        ["encode", "x", "-o", "out"],
        ["encode", "x", "-o", "out", "--model", "m", "--max-reject-rate", "2"],
        ["explain", "no.such.code"],
        ["schema", "nothing"],
        ["demo", "--family", "gpt2"],
        ["--config", "nowhere.toml", "schema"],
    ],
    ids=" ".join,
)
def test_2_usage(call, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = call(*arguments)
    assert ended.status == 2
    assert "Error: " in ended.err
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


def test_2_names_that_no_shelf_has(call, packed, encoded, tmp_path):
    ended = call("pack", encoded(), "-o", tmp_path / "out", "--strategy", "magic")
    assert ended.status == 2
    assert "magic" in ended.err
    ended = call("verify", packed, "--kernel", "magic")
    assert ended.status == 2
    assert ended.err.startswith("packcli: no kernel is called 'magic'")


def test_2_an_input_named_twice(call, sample_data, model, tmp_path):
    path = sample_data / "chats.jsonl"
    for more in (["encode", "-o", tmp_path / "out"], ["encode", "--dry-run"], ["lint"]):
        ended = call(*more, path, path, "--model", model)
        assert ended.status == 2
        assert f"{path} is named twice" in ended.err
    assert not (tmp_path / "out").exists()


def test_2_a_folder_in_use(call, encoded, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    ended = call("pack", encoded(), "-o", tmp_path)
    assert ended.status == 2
    assert "not empty" in ended.err


@pytest.mark.parametrize("command", ["pack", "encode", "verify", "plan"])
def test_3_no_such_input(call, command, model, tmp_path):
    more = {"pack": ["-o", tmp_path / "o"], "encode": ["-o", tmp_path / "o", "--model", model]}
    ended = call(command, tmp_path / "nowhere.jsonl", *more.get(command, []))
    assert ended.status == 3
    assert ended.err.startswith("packcli: ")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("content", [b"", b"PA", b"\x00" * 99, b'{"id": 1}\n'])
def test_3_a_file_that_is_no_parquet(call, tmp_path, content):
    (tmp_path / "some.bin").write_bytes(content)
    ended = call("verify", tmp_path / "some.bin")
    assert ended.status == 3
    assert ended.err.startswith(f"packcli: {tmp_path / 'some.bin'}: not a Parquet file; ")
    assert (ended.err.count("\n"), ended.out) == (1, "")


@pytest.mark.parametrize("part", [slice(-8), slice(8, None)])
def test_1_a_shard_that_is_cut(call, packed, tmp_path, part):
    shard = next((packed / "data").iterdir())
    (tmp_path / "cut.bin").write_bytes(shard.read_bytes()[part])
    ended = call("verify", tmp_path / "cut.bin", "--json")
    assert ended.status == 1
    assert ended.document["counts"] == {"shard.checksum": 1}


def test_3_no_such_model(call, sample_data, tmp_path):
    ended = call(
        "encode", sample_data / "chats.jsonl", "-o", tmp_path / "o", "--model", "./nowhere"
    )
    assert ended.status == 3
    assert "no such model directory" in ended.err


@pytest.mark.parametrize("text", ["[1, 2", "[[1]]", '{"sizes": [1]}', "[1.5]", "[" * 5000])
def test_3_lengths_that_are_none(call, tmp_path, text):
    (tmp_path / "lengths.json").write_text(text)
    ended = call("plan", tmp_path / "lengths.json")
    assert ended.status == 3
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["empty.npy", "words.txt", "huge.txt", "negative.txt"])
def test_3_files_that_are_no_lengths(call, tmp_path, name):
    texts = {"words.txt": "a b", "huge.txt": "9" * 30, "negative.txt": "5 -3"}
    (tmp_path / name).write_text(texts.get(name, ""))
    ended = call("plan", tmp_path / name)
    assert ended.status == 3
    assert "Traceback" not in ended.err


def test_4_no_gpu(call, packed, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    ended = call("verify", packed, "--gpu")
    assert ended.status == 4
    assert "CUDA" in ended.err
    assert ended.out == ""


def test_5_incomplete(call, encoded, tmp_path, monkeypatch):
    def full(*_):
        raise IncompleteError("out: disk full; free space, then run again")

    monkeypatch.setattr("packcli.pack.run.fill_shard", full)
    ended = call("pack", encoded(), "-o", tmp_path / "out")
    assert (ended.status, ended.err) == (5, "packcli: out: disk full; free space, then run again\n")


def test_a_fault_of_packcli_does_not_look_like_findings(call, encoded, tmp_path, monkeypatch):
    monkeypatch.setattr("packcli.pack.run.fill_shard", lambda *_: 1 // 0)
    ended = call("pack", encoded(), "-o", tmp_path / "out")
    assert ended.status == 70
    assert "ZeroDivisionError" in ended.err
    assert "please report it" in ended.err


def test_an_interrupt_ends_with_130(call, encoded, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("packcli.pack.run.fill_shard", interrupted)
    ended = call("pack", encoded(), "-o", tmp_path / "out")
    assert ended.status == 130
    assert "resume" in ended.err


SLOW = """
import sys, time
from packcli import cli
from packcli.pack import run
def slow(*arguments):
    print("started", file=sys.stderr, flush=True)
    time.sleep(60)
run.fill_shard = slow
cli.main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_with_its_status_and_the_work_resumes(
    call, encoded, tmp_path, number, status
):
    arguments = ["pack", str(encoded()), "-o", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr.readline() == "started\n"
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == status
    left = [path.name for path in (tmp_path / "out").rglob("*.tmp")]
    assert left == []
    ended = call(*arguments, "--json")
    assert (ended.status, json.loads(ended.out)["samples"]) == (0, 84)


def test_sigterm_also_ends_workers(encoded, tmp_path):
    code = """
import multiprocessing, os, sys, threading, time
from packcli import cli, engine
def main():
    threading.Timer(2.0, lambda: os.kill(os.getpid(), 15)).start()
    cli.cli.callback = lambda: list(engine.run(time.sleep, [60] * 4, workers=2))
    cli.main(["schema"])
if __name__ == "__main__":
    main()
"""
    script = tmp_path / "main.py"
    script.write_text(code)
    start = time.monotonic()
    done = subprocess.run([sys.executable, script], timeout=50, check=False, env=os.environ)
    assert done.returncode == 143
    assert time.monotonic() - start < 40
