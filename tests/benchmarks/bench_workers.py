"""Two workers against one, as whole processes, and the memory of 1x and 20x the input.

    python tests/benchmarks/bench_workers.py --model DIR [--megabytes 300] [--runs 1]

One worker is run twice: on every core, where Arrow compresses beside it, and on one core alone. All
runs must write the same bytes. Wall seconds hold the start of Python, the reading of the model and
the writing; peaks are those of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import corpus

UNIQUE = 10_000
"""Chats before they repeat, under another number."""

RUNS = {"one worker on one core": (1, {0}), "one worker": (1, ()), "two workers": (2, ())}
"""Workers and cores."""

_CALL = "from packcli.cli import main; main()"


def write_input(path, megabytes):
    """Write chats until the file is large enough; return how many."""
    chats = list(corpus.chat_lines(UNIQUE))
    written = count = 0
    with path.open("w", encoding="utf-8") as stream:
        while written < megabytes * 1e6:
            chat = chats[count % UNIQUE]
            question, answer = chat["messages"]
            text = {**question, "content": f"{count}: {question['content']}"}
            record = {"id": f"chat-{count}", "messages": [text, answer]}
            written += stream.write(json.dumps(record) + "\n")
            count += 1
    return count


def encode(source, out, model, workers, cores=()):
    """Run the command, on some cores; return wall seconds, CPU seconds and the peak in MiB."""
    flags = ["--model", model, "-o", str(out), "--num-proc", str(workers), "--no-progress"]
    command = [sys.executable, "-c", _CALL, "encode", str(source), *flags, "--json"]
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or every)  # what is started here inherits them
    begun = time.perf_counter()
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no path
        process = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )
    _, status, usage = os.wait4(process, 0)
    assert status == 0, status
    seconds = time.perf_counter() - begun
    os.sched_setaffinity(0, every)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def tree(folder):
    """Hash of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


def main():
    """Print a line a run, and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--megabytes", type=float, default=300)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        large, small = folder / "large" / "chats.jsonl", folder / "small" / "chats.jsonl"
        for path, megabytes in ((large, given.megabytes), (small, given.megabytes / 20)):
            path.parent.mkdir()
            print(f"{path.parent.name}: {write_input(path, megabytes):,} chats, {megabytes:g} MB")
        *_, least = encode(small, folder / "out", given.model, 1)
        trees, best = {}, {}
        for run in range(given.runs):
            for name, (workers, cores) in RUNS.items():
                out = folder / f"out-{name.replace(' ', '-')}-{run}"
                seconds, cpu, peak = encode(large, out, given.model, workers, cores)
                best[name] = min(seconds, best.get(name, seconds))
                trees[name] = tree(out)
                print(f"{name}: {seconds:.1f} s wall, {cpu:.1f} s CPU, {peak:.0f} MiB")
                if name == "one worker":
                    print(f"peak of 20x the input: {peak:.0f} MiB, of 1x: {least:.0f} MiB")
        assert all(each == trees["one worker"] for each in trees.values()), "other bytes"
    for name in ("one worker", "one worker on one core"):
        print(f"two workers: {best[name] / best['two workers']:.2f}x {name}, the same bytes")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
