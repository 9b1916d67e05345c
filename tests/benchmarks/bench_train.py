"""Tokens a second of dataset and collator, and the latency of one random pack.

Run: python tests/benchmarks/bench_train.py [MILLION_TOKENS]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from packcli.contract.model import ModelFacts, Rope
from packcli.encode.sample import Sample, packs_of_one
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
from packcli.train import PackCollator, PackDataset, PackStream, StreamOptions

_FACTS = ModelFacts("qwen3_vl", 151_936, Rope.FRAMES, 151_655, 151_656, 2)
_CAPACITY = 8192


def make(folder: Path, tokens: int) -> Path:
    """Write random samples and pack them."""
    rng = np.random.default_rng(0)
    manifest = Manifest("encoded", _FACTS, {}, {}, {}, [])
    directory = OutputDirectory.open(folder / "encoded", manifest)
    with directory.shard("train-00000-of-00001.parquet", _FACTS) as (writer, entries):
        while writer.counts.tokens < tokens:
            samples = []
            for number in range(256):
                ids = rng.integers(0, 150_000, rng.integers(50, 3000), dtype=np.int32)
                labels = np.where(np.arange(ids.size) < ids.size // 3, -100, ids).astype(np.int32)
                name = f"sample-{writer.counts.samples + number}"
                samples.append(Sample(name, f"bench:{number}", ids, labels))
            writer.write(packs_of_one(samples, _FACTS))
    digest = _digest(folder / "encoded" / "data" / "train-00000-of-00001.parquet")
    done = Manifest("encoded", _FACTS, {}, {}, {}, [], {}, digest, tuple(entries))
    directory.finish(done, card="", rejected=iter(()))
    pack([folder / "encoded"], PlanOptions(capacity=_CAPACITY), Writing(folder / "packed"))
    return folder / "packed"


def _digest(path: Path) -> str:
    from packcli.contract.digests import digest_total, spell_total
    from packcli.shards.reader import Shard

    groups = Shard.open(path).groups(_FACTS, ["sample_digests"])
    return spell_total(sum(digest_total(rows.cells["sample_digests"].values) for rows in groups))


def say(line: str) -> None:
    """Print a line of figures."""
    sys.stdout.write(line + "\n")


def rate(name: str, tokens: int, work: object) -> None:
    """Print million tokens a second of a generator that is run to its end."""
    start = time.perf_counter()
    for _ in work:  # type: ignore[attr-defined]
        pass
    say(f"{name:58} {tokens / (time.perf_counter() - start) / 1e6:8.1f} Mtok/s")


def main() -> None:
    """Print all figures."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with TemporaryDirectory() as name:
        packed = make(Path(name), millions * 10**6)
        dataset = PackDataset(packed)
        collator = PackCollator(dataset.facts)
        tokens = int(dataset.lengths().sum())
        say(f"{len(dataset)} packs, {tokens / 1e6:.1f} M tokens, capacity {_CAPACITY}")
        numbers = range(len(dataset))
        rate("PackDataset in order", tokens, (dataset[n] for n in numbers))
        rate("PackDataset in order + collator", tokens, (collator([dataset[n]]) for n in numbers))
        stream = PackStream(packed, StreamOptions(), ranks=(0, 1))
        rate("PackStream shuffled + collator", tokens, (collator(packs) for packs in stream))
        _latency(dataset)
        _datasets(packed, tokens)


def _latency(dataset: PackDataset) -> None:
    order = np.random.default_rng(1).permutation(len(dataset))[:500].tolist()
    times = []
    for number in order:
        start = time.perf_counter()
        dataset[number]
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    middle, late = times[len(times) // 2], times[int(len(times) * 0.95)]
    say(f"{'random pack':58} median {middle:.2f} ms, p95 {late:.2f} ms")


def _datasets(packed: Path, tokens: int) -> None:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()

    files = sorted(str(path) for path in (packed / "data").iterdir())
    cache = str(packed.parent / "cache")
    # its numpy formatter knows no lists of fixed-size bytes
    every = Dataset.from_parquet(files, cache_dir=cache).remove_columns("sample_digests")
    two = every.select_columns(["input_ids", "labels"])
    for name, table in (("all columns but sample_digests", every), ("ids + labels", two)):
        shown = table.with_format("numpy")
        rate(f"datasets with_format('numpy'), {name}", tokens, iter(shown))


if __name__ == "__main__":
    main()
