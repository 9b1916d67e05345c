"""Filling packs against `datasets`, on the same rows and columns: seconds, bytes, random packs.

    python tests/benchmarks/bench_fill.py ENCODED [--capacity 8192] [--runs 3]
    python tests/benchmarks/bench_fill.py --tiny 10000000

`packcli pack` reads the encoded shards, plans, gathers and writes. A peer gets the finished rows in
memory, so that its clock holds nothing but the writing: `generator` is `Dataset.from_generator`
with known features and `save_to_disk` (what a packing script does), `table` is `save_to_disk` of
an Arrow table that is already there (the least that it can do). Wall seconds, files synced by
neither, the page cache warm; the fastest of all runs, taken in turns. "Arrow alone" writes the
finished rows as packcli does, and nothing else. `--tiny` writes that many samples of 24 tokens,
packs them, and prints the peak of memory.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import alone
import numpy as np

from packcli.contract.digests import digest_total, spell_total
from packcli.contract.model import ModelFacts
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Axis, Packs, boxed
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
from packcli.shards.reader import Shard


def say(line):
    """Print a line of figures."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def timed(work):
    """Return wall seconds, CPU seconds of all threads, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def size_of(folder):
    """Bytes of a file, or of all files below a folder."""
    if Path(folder).is_file():
        return Path(folder).stat().st_size
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def fill(encoded, folder, args):
    """Pack with packcli."""
    out = folder / "packed"
    writing = Writing(out, workers=args.num_proc, overwrite=True)
    return pack([encoded], PlanOptions(args.capacity), writing)


def rows_of(table):
    """Give the rows of a table as dictionaries of NumPy arrays."""
    for batch in table.to_batches():
        columns = {name: batch.column(name) for name in batch.schema.names}
        for row in range(batch.num_rows):
            yield {
                name: column[row].values.to_numpy(zero_copy_only=False)
                if name in {"input_ids", "labels", "position_ids", "loss_mask"}
                else column[row].as_py()
                for name, column in columns.items()
            }


def peers(packed, folder):
    """Yield (name, work) of what datasets does with the same rows."""
    import pyarrow.parquet as pq
    from datasets import Dataset, Features, disable_progress_bars

    disable_progress_bars()
    table = pq.read_table(packed / "data")
    features = Features.from_arrow_schema(table.schema)

    def from_table():
        shutil.rmtree(folder / "table", ignore_errors=True)
        Dataset(table).save_to_disk(folder / "table")
        return folder / "table"

    def from_generator():
        for name in ("generator", "cache"):
            shutil.rmtree(folder / name, ignore_errors=True)
        made = Dataset.from_generator(
            lambda: rows_of(table), features=features, cache_dir=str(folder / "cache")
        )
        made.save_to_disk(folder / "generator")
        return folder / "generator"

    rows = alone.finished(packed)

    def arrow_alone():
        alone.write(rows, folder / "again.parquet")
        return folder / "again.parquet"

    yield "Arrow alone", arrow_alone
    yield "datasets generator + save_to_disk", from_generator
    yield "datasets table.save_to_disk", from_table


def random_packs(packed):
    """Milliseconds to read one pack at random: median and 95th percentile."""
    from packcli.train import PackDataset

    dataset = PackDataset(packed)
    times = []
    for number in np.random.default_rng(1).integers(0, len(dataset), 300).tolist():
        start = time.perf_counter()
        dataset[number]
        times.append((time.perf_counter() - start) * 1e3)
    return np.percentile(times, [50, 95]).tolist()


def compare(args):
    """Fill with packcli and with datasets, in turns."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        summary = fill(args.encoded, folder, args)
        tokens = summary.tokens
        say(f"{summary.packs} packs of {args.capacity}, {tokens / 1e6:.1f} M tokens, "
            f"excess {summary.excess}, datasets {version('datasets')}")  # fmt: skip
        works = {"packcli pack": lambda: (fill(args.encoded, folder, args), folder / "packed")[1]}
        works |= dict(peers(folder / "packed", folder))
        best = {}
        for _ in range(args.runs):
            for label, work in works.items():
                wall, cpu, out = timed(work)
                size = size_of(out / "data" if label == "packcli pack" else out)
                old = best.get(label, (float("inf"),) * 3)
                best[label] = (min(wall, old[0]), min(cpu, old[1]), size)
        ours = best["packcli pack"]
        for label, (wall, cpu, size) in best.items():
            say(f"{label:34} wall {wall:6.2f} s ({wall / ours[0]:.2f}x)  cpu {cpu:6.2f} s "
                f"({cpu / ours[1]:.2f}x)  {tokens / wall / 1e6:5.1f} Mtok/s  "
                f"{size / tokens:5.2f} B/token ({size / ours[2]:.1f}x)")  # fmt: skip
        middle, late = random_packs(folder / "packed")
        say(f"random pack: median {middle:.2f} ms, p95 {late:.2f} ms")


def write_tiny(folder, samples, tokens=24):
    """Write an encoded dataset of short samples, geometric lengths."""
    facts, rng, first = ModelFacts("text", 151_936), np.random.default_rng(0), 0
    manifest = Manifest("encoded", facts, {}, {}, {}, [])
    directory = OutputDirectory.open(folder, manifest)
    with directory.shard("train-00000-of-00001.parquet", facts) as (writer, entries):
        while first < samples:
            count = min(50_000, samples - first)
            lengths = np.minimum(rng.geometric(1 / tokens, count), 512) + 1
            ids = rng.zipf(1.3, int(lengths.sum())).clip(0, 150_000).astype(np.int32)
            labels = ids.copy()
            labels[np.cumsum(lengths) - lengths] = -100
            names = boxed([f"tiny:{first + number}" for number in range(count)])
            digests = rng.integers(0, 256, (count, 16), dtype=np.uint8)
            columns = {"input_ids": ids, "labels": labels, "sample_ids": names}
            columns |= {"sample_sources": names, "sample_digests": digests}
            axes = {Axis.TOKEN: Offsets.from_lengths(lengths)}
            writer.write(Packs(facts, Offsets.unit(count), axes, columns))
            first += count
    shard = Shard.open(folder / "data" / "train-00000-of-00001.parquet")
    digests = shard.whole(["sample_digests"])
    total = spell_total(digest_total(digests.cells["sample_digests"].values))
    done = Manifest("encoded", facts, {}, {}, {}, [], {}, total, tuple(entries))
    directory.finish(done, card="", rejected=iter(()))


def tiny(args):
    """Pack many short samples, and tell the peak of memory of a fresh process."""
    import os

    with TemporaryDirectory() as name:
        folder = Path(name)
        if os.fork() == 0:  # so that the peak of writing the input is not ours
            write_tiny(folder / "encoded", args.tiny)
            os._exit(0)
        assert os.wait()[1] == 0
        wall, cpu, summary = timed(lambda: fill(folder / "encoded", folder, args))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        say(
            f"{summary.samples} samples, {summary.tokens / 1e6:.0f} M tokens, "
            f"{summary.packs} packs, {summary.windows} windows, excess {summary.excess}: "
            f"wall {wall:.1f} s, cpu {cpu:.1f} s, plan {summary.seconds:.1f} s, "
            f"peak {peak:.2f} GiB"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoded", type=Path, nargs="?")
    parser.add_argument("--capacity", type=int, default=8192)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--num-proc", type=int, default=1)
    parser.add_argument("--tiny", type=int)
    args = parser.parse_args()
    if args.tiny:
        tiny(args)
    else:
        compare(args)


if __name__ == "__main__":
    main()
