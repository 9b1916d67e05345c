"""Tokens a second of dataset and collator, and the latency of one random pack.

Run: taskset -c 0 python tests/benchmarks/bench_train.py [MILLION_TOKENS]; rates are of CPU seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.model import ModelFacts, Rope
from packcli.encode.sample import Medium, Sample, packs_of_one
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
from packcli.train import PackCollator, PackDataset, PackStream, StreamOptions, collate
from packcli.train.source import PackSource

if TYPE_CHECKING:
    from collections.abc import Callable

_FACTS = ModelFacts("qwen3_vl", 151_936, Rope.FRAMES, 151_655, 151_656, 2)
_CAPACITY = 8192
_TOKEN_COLUMNS = [
    "input_ids",
    "labels",
    "position_ids",
    "mrope_position_ids",
    "mm_token_type_ids",
    "loss_mask",
]


def make(folder: Path, tokens: int) -> Path:
    """Write random samples and pack them."""
    rng = np.random.default_rng(0)
    manifest = Manifest("encoded", _FACTS, {}, {}, {}, [])
    directory = OutputDirectory.open(folder / "encoded", manifest)
    with directory.shard("train-00000-of-00001.parquet", _FACTS) as (writer, entries):
        while writer.counts.tokens < tokens:
            before = writer.counts.samples
            samples = [_sample(rng, before + number) for number in range(256)]
            writer.write(packs_of_one(samples, _FACTS))
    digest = _digest(folder / "encoded" / "data" / "train-00000-of-00001.parquet")
    done = Manifest("encoded", _FACTS, {}, {}, {}, [], {}, digest, tuple(entries))
    directory.finish(done, card="", rejected=iter(()))
    pack([folder / "encoded"], PlanOptions(capacity=_CAPACITY), Writing(folder / "packed"))
    return folder / "packed"


def _sample(rng: np.random.Generator, number: int) -> Sample:
    """Make a sample of 50 to 3,000 tokens, every fourth with an image of 200 slots."""
    ids = rng.integers(0, 150_000, rng.integers(50, 3000), dtype=np.int32)
    media: tuple[Medium, ...] = ()
    if number % 4 == 0:
        assert _FACTS.image_token_id is not None
        slots = np.full(200, _FACTS.image_token_id, np.int32)
        ids = np.concatenate([ids[:5], slots, ids[5:]])
        media = (Medium("image", f"photos/{number}.jpg", 320, 640, (1, 20, 40)),)
    labels = np.where(np.arange(ids.size) < max(ids.size // 3, 250), -100, ids).astype(np.int32)
    return Sample(f"sample-{number}", f"bench:{number}", ids, labels, media)


def _digest(path: Path) -> str:
    from packcli.contract.digests import digest_total, spell_total
    from packcli.shards.reader import Shard

    groups = Shard.open(path).groups(_FACTS, ["sample_digests"])
    return spell_total(sum(digest_total(rows.cells["sample_digests"].values) for rows in groups))


class NoPixels:
    """In place of a MediaLoader: decoding images is not what is measured."""

    facts = _FACTS

    def batch(self, _media: object) -> dict[str, object]:
        """Load nothing."""
        return {}


def say(line: str) -> None:
    """Print a line of figures."""
    sys.stdout.write(line + "\n")


def rate(name: str, tokens: int, work: Callable[[], object]) -> float:
    """Print million tokens a CPU second of a generator that is run to its end: best of three."""
    best = min(_seconds(work) for _ in range(3))
    say(f"{name:66} {tokens / best / 1e6:8.1f} Mtok/s")
    return tokens / best


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in work():  # type: ignore[attr-defined]
        pass
    return time.process_time() - start


def main() -> None:
    """Print all figures."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with TemporaryDirectory() as name:
        packed = make(Path(name), millions * 10**6)
        dataset = PackDataset(packed)
        collator = PackCollator(dataset.facts, NoPixels())
        tokens = int(dataset.lengths().sum())
        size = sum(path.stat().st_size for path in (packed / "data").iterdir())
        groups = len(dataset.source.groups())
        say(
            f"{len(dataset)} packs, {tokens / 1e6:.1f} M tokens, capacity {_CAPACITY}, "
            f"{groups} row groups, {size / tokens:.2f} bytes a token"
        )
        _ours(packed, dataset, collator, tokens)
        _latency(dataset)


def _ours(packed: Path, dataset: PackDataset, collator: PackCollator, tokens: int) -> None:
    numbers = range(len(dataset))
    rate("all columns in order", tokens, lambda: (dataset[n] for n in numbers))
    whole = rate(
        "all columns in order + collator", tokens, lambda: (collator([dataset[n]]) for n in numbers)
    )
    text = PackSource(packed, columns=("input_ids", "labels", "cu_seqlens"))
    few = rate("ids + labels + cu in order", tokens, lambda: (text.pack(n) for n in numbers))
    both = rate(
        "ids + labels + cu in order + collator",
        tokens,
        lambda: (collate([text.pack(n)]) for n in numbers),
    )
    stream = PackStream(packed, StreamOptions(), ranks=(0, 1))
    rate(
        "all columns shuffled (PackStream) + collator",
        tokens,
        lambda: (collator(packs) for packs in iter(stream)),
    )
    every, tokens_only, two = _datasets(packed, tokens)
    for label, ours, theirs in (
        ("dataset + collator, all columns / datasets, all columns", whole, every),
        ("ids + labels + cu / datasets, the six token columns", few, tokens_only),
        ("ids + labels + cu + collator / datasets, the six token columns", both, tokens_only),
        ("ids + labels + cu / datasets, ids + labels", few, two),
        ("ids + labels + cu + collator / datasets, ids + labels", both, two),
    ):
        say(f"{label:66} {ours / theirs:8.2f} x")


def _latency(dataset: PackDataset) -> None:
    order = np.random.default_rng(1).permutation(len(dataset))[:200].tolist()
    for number in order:  # every page in the cache of the system
        dataset[number]
    wall: list[float] = []
    cpu: list[float] = []
    for number in order:
        start, used = time.perf_counter(), time.process_time()
        dataset[number]
        wall.append((time.perf_counter() - start) * 1e3)
        cpu.append((time.process_time() - used) * 1e3)
    middle, late = np.quantile(wall, [0.5, 0.95])
    say(
        f"{'random pack, 200 of them, files warm':66} median {middle:.2f} ms (CPU "
        f"{np.median(cpu):.2f}), p95 {late:.2f} ms"
    )


def _datasets(packed: Path, tokens: int) -> tuple[float, float, float]:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    files = sorted(str(path) for path in (packed / "data").iterdir())
    cache = str(packed.parent / "cache")
    # its numpy formatter knows no lists of fixed-size bytes
    every = Dataset.from_parquet(files, cache_dir=cache).remove_columns("sample_digests")
    six = every.select_columns(_TOKEN_COLUMNS)
    two = every.select_columns(["input_ids", "labels"])
    found = []
    for name, table in (
        ("all columns but sample_digests", every),
        ("the six token columns", six),
        ("ids + labels", two),
    ):
        shown = table.with_format("numpy")
        found.append(
            rate(f"datasets with_format('numpy'), {name}", tokens, lambda shown=shown: iter(shown))
        )
    return found[0], found[1], found[2]


if __name__ == "__main__":
    main()
