"""Two workers against one, as whole processes, and the memory of 1x and 20x the input.

    python tests/benchmarks/bench_workers.py --model DIR [--megabytes 300] [--runs 1]

Takes every core that it may. Both runs must write the same bytes. Wall seconds hold the start of
Python, the reading of the model and the writing; peaks are those of the largest process.
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


def encode(source, out, model, workers):
    """Run the command; return wall seconds, CPU seconds and the peak of memory in MiB."""
    flags = ["--model", model, "-o", str(out), "--num-proc", str(workers), "--no-progress"]
    command = [sys.executable, "-c", _CALL, "encode", str(source), *flags, "--json"]
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
            for workers in (1, 2):
                out = folder / f"out-{workers}-{run}"
                seconds, cpu, peak = encode(large, out, given.model, workers)
                best[workers] = min(seconds, best.get(workers, seconds))
                trees[workers] = tree(out)
                print(f"{workers} workers: {seconds:.1f} s wall, {cpu:.1f} s CPU, {peak:.0f} MiB")
                if workers == 1:
                    print(f"peak of 20x the input: {peak:.0f} MiB, of 1x: {least:.0f} MiB")
        assert trees[1] == trees[2], "two workers wrote other bytes"
    print(
        f"two workers: {best[1] / best[2]:.2f}x one, the same bytes; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
