"""Time and packs of the planner beside its peers, on one core.

    python tests/benchmarks/bench_plan.py --lengths ../shared/bench/lengths.py --n 1000000
    python tests/benchmarks/bench_plan.py --lengths my_lengths.npy --capacity 8192

`--lengths` is a script with ``make(name, capacity, n)``, or an array of lengths. Peers are run
when they are installed: TRL's `bfd` (its own function, no token moved, which flatters it),
`binpacking.to_constant_volume` (what ms-swift packs with), and the textbook.
Each line: median CPU seconds of all runs, packs, excess over the lower bound.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tracemalloc
from bisect import bisect_left, insort
from pathlib import Path
from time import process_time
from unittest.mock import patch

import numpy as np

from packcli.pack.options import PlanOptions
from packcli.pack.plan import make_plan

SETS = ["a_sft", "b_mm", "c_uni", "e_tiny", "f_fix576", "g_grid1024", "h_gridmix", "i_video196"]


def planned(**options):
    """Count the packs of our own plan."""
    return lambda lengths, capacity: make_plan(lengths, PlanOptions(capacity, **options)).packs


def textbook(lengths, capacity):
    """Best fit decreasing, one sample at a time, on a sorted list of rooms."""
    rooms, full = [], 0
    for length in np.sort(lengths)[::-1].tolist():
        at = bisect_left(rooms, length)
        left = (rooms.pop(at) if at < len(rooms) else capacity) - length
        if left:
            insort(rooms, left)
        else:
            full += 1
    return len(rooms) + full


class _Unmoved:
    """Arrow's functions as TRL calls them, without the three that move tokens."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def filter(self, values, _):
        return values

    def list_slice(self, values, *_):
        return values

    def take(self, table, _):
        return table


def trl_bfd(lengths, capacity):
    """TRL's own `_pack_bfd` (trl/data_utils.py) on samples whose tokens take no memory."""
    import pyarrow as pa
    from trl import data_utils

    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    tokens = pa.LargeListArray.from_arrays(pa.array(ends), pa.nulls(int(ends[-1])))
    with patch.object(data_utils, "pc", _Unmoved(data_utils.pc)):
        return len(data_utils._pack_bfd(pa.table({"input_ids": tokens}), capacity))


def ms_swift(lengths, capacity):
    """ms-swift's packing: `to_constant_volume` on windows of 1000 samples, last pack carried."""
    import binpacking

    packs, carried = 0, []
    pairs = list(enumerate(lengths.tolist()))
    for start in range(0, len(pairs), 1000):
        found = binpacking.to_constant_volume(
            carried + pairs[start : start + 1000], capacity, weight_pos=1
        )
        carried = found.pop() if found else []
        packs += len(found)
    return packs + bool(carried)


METHODS = {
    "packcli": (planned(), 1 << 62),
    "packcli best": (planned(quality="best"), 1 << 62),
    "packcli sequential": (planned(strategy="sequential"), 1 << 62),
    "packcli sequential, 16 open": (planned(strategy="sequential", open_packs=16), 10**6),
    "textbook": (textbook, 10**6),
    "trl bfd": (trl_bfd, 10**6),
    "ms-swift binpack": (ms_swift, 10**6),
}


def measured(method, lengths, capacity, runs):
    """Median CPU seconds, and packs."""
    method(lengths[:1], capacity)  # imports
    times = []
    for _ in range(runs):
        started = process_time()
        packs = method(lengths, capacity)
        times.append(process_time() - started)
    return statistics.median(times), packs


def peak_memory(method, lengths, capacity):
    """Peak of Python's and NumPy's memory in MB; slows plain Python five times."""
    tracemalloc.start()
    method(lengths, capacity)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


def sets_of(args):
    """Yield (name, lengths)."""
    if args.lengths.suffix == ".npy":
        yield args.lengths.stem, np.load(args.lengths)
        return
    spec = importlib.util.spec_from_file_location("lengths", args.lengths)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in args.sets:
        yield name, module.make(name, args.capacity, args.n)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=Path, required=True)
    parser.add_argument("--capacity", type=int, default=8192)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--memory", action="store_true", help="one more run each, traced")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name, lengths in sets_of(args):
        bound = make_plan(lengths, PlanOptions(args.capacity)).lower_bound
        ours = None
        for label in args.methods:
            method, most = METHODS[label]
            if lengths.size > most:
                continue
            try:
                seconds, packs = measured(method, lengths, args.capacity, args.runs)
                peak = peak_memory(method, lengths, args.capacity) if args.memory else None
            except ImportError as error:
                sys.stderr.write(f"{name}: {label} left out, {error}\n")
                continue
            ours = ours or seconds
            row = {
                "set": name, "n": lengths.size, "capacity": args.capacity, "method": label,
                "seconds": round(seconds, 4), "ratio": round(seconds / ours, 1), "packs": packs,
                "excess_percent": round(100 * (packs / bound - 1), 3), "peak_mb": peak,
            }  # fmt: skip
            line = json.dumps(row) if args.json else " ".join(f"{k}={v}" for k, v in row.items())
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
