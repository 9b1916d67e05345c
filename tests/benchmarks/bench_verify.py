"""Verify: tokens a second of the contract level, seconds of the kernel level, memory.

    python tests/benchmarks/bench_verify.py [--tokens 1000000] [--runs 3] [--memory]
    python tests/benchmarks/bench_verify.py --lengths ../shared/bench/lengths.py [--drawn e_tiny]

Contract level: `verify` on one core over packs of 8192 (text, Qwen2.5-VL, Qwen3-VL), hashing and
reading included, against two peers on the first shard: `library_verify.py`, the loop over samples
that one writes with datasets and transformers, and `plain_verify.py`, a tuned loop over lists; and
the rules alone against the plain loop alone, on data that is read already. A loop pays for each
sample, so what it is compared on is said: `--lengths`, a script with ``make(name, capacity, n)``,
draws samples of its named sets, chats for a text model and one image or video with a caption for
the others, in place of the chats, long and short, that are drawn here. Seconds
are CPU seconds of the process, the fewest of all runs, taken in turns: other users of the machine
change them less than wall seconds. Kernel level: one pack of 32,768 tokens in 1, 9 and 149 samples,
SDPA on the CPU, sabotage controls included. `--memory` verifies a dataset of 1 shard and one of 20
in processes of their own, and prints the peak of each.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library_verify
import plain_verify

from packcli.contract.digests import digest_total, spell_total
from packcli.contract.model import ModelFacts, Rope
from packcli.contract.offsets import Offsets
from packcli.contract.rows import Rows
from packcli.contract.rules import check
from packcli.encode.sample import Medium, Sample, packs_of_one
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, file_sha256
from packcli.shards.reader import Shard
from packcli.verify import kernels
from packcli.verify.batches import checked_batches
from packcli.verify.bounds import PackBounds
from packcli.verify.isolation import check_isolation
from packcli.verify.oracle import ATTENTION
from packcli.verify.run import verify

CAPACITY = 8192
IMAGE, VIDEO = 151_655, 151_656
MODELS = {
    "text": ModelFacts("text", 151_936),
    "qwen2_5_vl": ModelFacts("qwen2_5_vl", 151_936, Rope.TIMED, IMAGE, VIDEO, 2, 2.0),
    "qwen3_vl": ModelFacts("qwen3_vl", 151_936, Rope.FRAMES, IMAGE, VIDEO, 2),
}


def say(line):
    """Print a line of figures."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def words(rng, count):
    return rng.integers(0, 150_000, count).tolist()


def draw(rng, facts, number):
    """Draw one record: a chat, with images (and now and then a clip) where the model has them."""
    ids, media = words(rng, int(np.clip(rng.lognormal(4.5, 1), 4, 3000))), []
    for _ in range(int(rng.integers(0, 3)) if facts.has_media else 0):
        kind = "image" if rng.random() < 0.8 else "video"
        t = 1 if kind == "image" else int(rng.integers(2, 6))
        h, w = (2 * int(side) for side in rng.integers(6, 24, 2))
        token, size = IMAGE if kind == "image" else VIDEO, h * w // 4
        split = kind == "video" and facts.rope is Rope.FRAMES
        runs = [[1, *[token] * size, 2]] * t if split else [[1, *[token] * (t * size), 2]]
        ids += [one for run in runs for one in run]
        seconds = 0.5 if facts.rope is Rope.TIMED and kind == "video" else None
        times = tuple(n / 2 for n in range(t)) if kind == "video" else ()
        frames = tuple(range(t)) if kind == "video" else ()
        media.append(Medium(kind, "m", h * 14, w * 14, (t, h, w), seconds, frames, times))
    answer = words(rng, int(np.clip(rng.lognormal(5, 1), 2, 3000)))
    labels = np.array([-100] * len(ids) + answer, np.int32)
    return Sample(
        f"s{number}", f"f:{number}", np.array(ids + answer, np.int32), labels, tuple(media)
    )


@dataclass
class Captioned:
    """Samples of given lengths: a chat, or the largest grid that leaves room for a caption.

    Attributes:
        lengths: (n,) tokens of each sample; a sample has 2 at least, a first one and an answer.
        grids: sides in slots, the smallest first; none for chats.
    """

    lengths: np.ndarray
    grids: tuple

    def __call__(self, rng, facts, number):
        size, media, shown = max(2, int(self.lengths[number])), [], []
        for t, h, w in self.grids:
            split = t > 1 and facts.rope is Rope.FRAMES
            kind, token = ("video", VIDEO) if t > 1 else ("image", IMAGE)
            runs = [[1, *[token] * (h * w), 2]] * t if split else [[1, *[token] * (t * h * w), 2]]
            ids = [one for run in runs for one in run]
            if media and len(ids) + 8 > size:
                break
            seconds = 0.5 if facts.rope is Rope.TIMED and t > 1 else None
            times = tuple(n / 2 for n in range(t)) if t > 1 else ()
            frames = tuple(range(t)) if t > 1 else ()
            grid, shown = (t, 2 * h, 2 * w), ids
            media = [Medium(kind, "m", 28 * h, 28 * w, grid, seconds, frames, times)]
        rest = max(2, size - len(shown))
        asked = 1 if media else max(1, 2 * rest // 5)
        ids = np.array(shown + words(rng, rest), np.int32)
        labels = ids.copy()
        labels[: len(shown) + asked] = -100
        return Sample(f"s{number}", f"f:{number}", ids, labels, tuple(media))


GRIDS = {
    "a_sft": (),
    "c_uni": (),
    "e_tiny": (),
    "f_fix576": ((1, 24, 24),),
    "g_grid1024": ((1, 32, 32),),
    "h_gridmix": ((1, 16, 16), (1, 24, 24), (1, 32, 32), (1, 48, 48)),
    "i_video196": ((8, 14, 14), (16, 14, 14), (32, 14, 14)),
}
"""What samples of a named set show, sides in slots."""


SHORT = tuple((1, side, side) for side in range(2, 9))
"""Thumbnails."""


def drawn_sets(args):
    """Yield (title, model, how samples are drawn)."""
    models = [name for name in args.sets if name in MODELS]
    if args.lengths is None:
        yield from ((name, name, draw) for name in models)
        short = 20 + np.random.default_rng(0).geometric(1 / 40, max(1000, args.tokens // 16))
        for name in models:
            grids = SHORT if MODELS[name].has_media else ()
            yield f"{name} short", name, Captioned(short, grids)
        return
    spec = importlib.util.spec_from_file_location("lengths", args.lengths)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in args.drawn:
        lengths = module.make(name, CAPACITY - 256, max(1000, args.tokens // 16))
        for model in models:
            if MODELS[model].has_media == bool(GRIDS[name]):
                yield f"{model} {name}", model, Captioned(lengths, GRIDS[name])


def packs_for(facts, tokens, seed, drawing=draw):
    """Packs of at most CAPACITY tokens, next fit."""
    rng, samples, counts, room, drawn = np.random.default_rng(seed), [], [], 0, 0
    while drawn < tokens:
        sample = drawing(rng, facts, seed * 10**7 + len(samples))
        size = len(sample.input_ids)
        if size > CAPACITY:
            continue
        if size > room:
            counts.append(0)
            room = CAPACITY
        samples.append(sample)
        counts[-1] += 1
        room, drawn = room - size, drawn + size
    return packs_of_one(samples, facts).grouped(Offsets.from_lengths(counts))


def write(folder, facts, tokens, shards=1, drawing=draw):
    """Write a packed dataset of so many shards, each of so many tokens."""
    options = {"capacity": CAPACITY}
    directory = OutputDirectory.open(folder, Manifest("packed", facts, {}, {}, options, []))
    entries, total = [], 0
    counts = {"packs": 0, "samples": 0, "tokens": 0}
    for number in range(shards):
        packs = packs_for(facts, tokens, number, drawing)
        name = f"train-{number:05d}-of-{shards:05d}.parquet"
        with directory.shard(name, facts) as (writer, written):
            writer.write(packs)
        entries += written
        total += digest_total(packs.columns["sample_digests"])
        counts["packs"] += len(packs)
        counts["samples"] += packs.members.total
        counts["tokens"] += packs.tokens.total
    given = [{"samples": counts["samples"]}]
    bound = -(-counts["tokens"] // CAPACITY)
    counts |= {"lower_bound": bound, "excess": counts["packs"] - bound, "padding": 0}
    counts |= {"shards": shards, "capacity": CAPACITY}
    counts["fill"] = counts["tokens"] / (counts["packs"] * CAPACITY)
    done = Manifest(
        "packed", facts, {}, {}, options, given, counts, spell_total(total), tuple(entries)
    )
    directory.finish(done, card="", rejected=iter(()))


def cpu(work):
    """CPU seconds of one run, and what it returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


@dataclass
class Least:
    """The fewest seconds of several works, taken in turns."""

    works: dict
    runs: int

    def measure(self):
        least = dict.fromkeys(self.works, float("inf"))
        for _ in range(self.runs):
            for name, work in self.works.items():
                least[name] = min(least[name], cpu(work)[0])
        return least


def contract(title, name, drawing, args):
    """Whole level and rules alone, against loops."""
    facts = MODELS[name]
    with TemporaryDirectory() as scratch:
        dataset = Path(scratch) / "packed"
        write(dataset, facts, args.tokens, drawing=drawing)
        (path,) = (dataset / "data").glob("*.parquet")
        digest = file_sha256(path)
        groups = [held for held, _ in checked_batches(Shard.open(path), facts, ())]
        rows = plain_verify.rows_of(path)
        tokens = sum(len(row["input_ids"]) for row in rows)
        samples = sum(row["num_samples"] for row in rows)

        def whole():
            verdict = verify([dataset])
            assert verdict.passed, verdict.findings[:3]
            assert verdict.checked["tokens"] == tokens

        def rules():
            for held in groups:  # rows remember what was found in them, so they are made anew
                assert not check(Rows(held.count, held.cells, held.facts)).hits

        def loop():
            seen = set()
            for row in rows:
                plain_verify.check_row(row, facts, seen)

        known = library_verify.opened(path, Path(scratch) / "cache")
        library_verify.verify(known.select([0]), path, facts, digest)  # imports
        works = {"verify": whole, "rules": rules, "loop": loop}
        works["library"] = lambda: library_verify.verify(known, path, facts, digest)
        works["read"] = lambda: file_sha256(path) and list(Shard.open(path).groups(facts))
        works["plain"] = lambda: plain_verify.verify(path, facts, digest)
        least = Least(works, args.runs).measure()
        say(f"{title:10} {tokens:,} tokens, {len(rows)} packs, {samples} samples of "
            f"{tokens / samples:.0f}: "
            f"contract level {tokens / least['verify'] / 1e6:.1f} Mtok/s "
            f"({1e6 * least['verify'] / tokens:.3f} us/token, reading and hashing the file "
            f"{1e6 * least['read'] / tokens:.3f}), "
            f"loop over datasets and transformers {tokens / least['library'] / 1e6:.3f} Mtok/s: "
            f"{least['library'] / least['verify']:.1f}x, "
            f"plain {tokens / least['plain'] / 1e6:.3f} Mtok/s: "
            f"{least['plain'] / least['verify']:.1f}x; rules alone "
            f"{tokens / least['rules'] / 1e6:.1f} Mtok/s, loop alone "
            f"{tokens / least['loop'] / 1e6:.3f} Mtok/s: "
            f"{least['loop'] / least['rules']:.1f}x")  # fmt: skip


def kernel(args):
    """Seconds of the attention check on one long pack."""
    import torch

    torch.set_num_threads(1)
    sdpa = kernels.load("sdpa")
    check_isolation(ATTENTION, bounds_of(2, 64), sdpa)  # imports
    for count in (1, 9, 149):
        bounds = bounds_of(count, 32_768)
        taken = [
            cpu(lambda bounds=bounds: check_isolation(ATTENTION, bounds, sdpa))
            for _ in range(args.runs)
        ]
        assert all(not r.faults and all(c.caught for c in r.controls) for _, r in taken)
        seconds = min(seconds for seconds, _ in taken)
        say(f"kernel     32,768 tokens, {count:3} samples: {seconds:.2f} s")


def bounds_of(count, total):
    cuts = np.random.default_rng(count).choice(total - 1, count - 1, replace=False) + 1
    samples = Offsets.from_values([0, *np.sort(cuts).tolist(), total])
    return PackBounds(samples.values, int(samples.lengths.max()), samples)


def memory(args):
    """Peak of a process that verifies 1 shard, and of one that verifies 20."""
    for shards in (1, 20):
        with TemporaryDirectory() as scratch:
            dataset = Path(scratch) / "packed"
            apart(lambda dataset=dataset, shards=shards: write(
                dataset, MODELS["qwen2_5_vl"], args.tokens, shards))  # fmt: skip
            apart(lambda dataset=dataset, shards=shards: peak(dataset, shards))


def apart(work):
    """Run in a process of its own, whose peak of memory is its own too."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def peak(dataset, shards):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    verdict = verify([dataset])
    assert verdict.passed, verdict.findings[:3]
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    say(f"memory     {shards:2} shards, {verdict.checked['tokens']:,} tokens: "
        f"peak {after:.0f} MiB, {after - before:.0f} MiB above the start")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=[*MODELS, "kernel"])
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--drawn", nargs="*", default=[*GRIDS], choices=GRIDS)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    say(" ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "torch")))
    if args.memory:  # before torch is imported, and on a small heap
        memory(args)
    for title, name, drawing in drawn_sets(args):
        contract(title, name, drawing, args)
    if "kernel" in args.sets and args.lengths is None:
        kernel(args)


if __name__ == "__main__":
    main()
