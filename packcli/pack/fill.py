"""Filling: samples move into the packs of their plan, window by window, shard by shard."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.digests import digest_total, spell_total
from packcli.pack.histogram import Histogram
from packcli.pack.plan import make_plan
from packcli.pack.sources import RowGroup, demands, load

if TYPE_CHECKING:
    from packcli.contract.packs import Packs
    from packcli.pack.options import PlanOptions
    from packcli.pack.plan import Plan
    from packcli.shards.directory import OutputDirectory
    from packcli.shards.manifest import Manifest

BYTES_PER_TOKEN = 3
"""About what a packed token takes on disk, all columns; used to turn shard bytes into tokens."""

WINDOW_TOKENS = 16 * 2**20
"""Tokens that are planned and held in memory at once, about 30 bytes each."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One shard of the output.

    Attributes:
        number: which shard, from 0.
        count: how many there are.
        windows: row groups whose samples are planned together, a window at a time.
    """

    number: int
    count: int
    windows: list[list[RowGroup]]

    @property
    def name(self) -> str:
        """File name of the shard."""
        return f"train-{self.number:05d}-of-{self.count:05d}.parquet"

    def __str__(self) -> str:
        """Messages call the task by its shard."""
        return self.name


def cut_shards(groups: list[RowGroup], shard_bytes: int, window_tokens: int) -> list[ShardTask]:
    """Cut the input into windows, and windows into shards, by token counts alone."""
    shard_tokens = max(1, shard_bytes // BYTES_PER_TOKEN)
    windows = _portions(groups, min(window_tokens, shard_tokens))
    per_shard = max(1, shard_tokens // window_tokens)
    runs = [windows[start : start + per_shard] for start in range(0, len(windows), per_shard)]
    return [ShardTask(number, len(runs), run) for number, run in enumerate(runs)]


def _portions(groups: list[RowGroup], most: int) -> list[list[RowGroup]]:
    portions: list[list[RowGroup]] = []
    tokens = most
    for group in groups:
        if tokens + group.tokens > most:
            portions.append([])
            tokens = 0
        portions[-1].append(group)
        tokens += group.tokens
    return portions


def fill_shard(
    options: PlanOptions, source: Manifest, directory: OutputDirectory, task: ShardTask
) -> dict[str, Any]:
    """Fill one shard, unless that was done before."""
    if (done := directory.part(task.number)) is not None:
        return done
    report = _Report()
    with directory.shard(task.name, source.model) as (writer, entries):
        for window in task.windows:
            samples = load(window, source)
            wanted = demands(samples)
            plan = make_plan(wanted.lengths, options, images=wanted.images, patches=wanted.patches)
            packed = samples.take(plan.order).grouped(plan.members)
            report.add(options, plan, packed, samples)
            for rows in _portions_of(packed):
                writer.write(rows)
    finished = report.to_json() | {"shard": asdict(entries[0])}
    directory.finish_part(task.number, finished)
    return finished


def _portions_of(packed: Packs, tokens: int = 2**20) -> list[Packs]:
    """Hand packs to the writer in portions, so that no column is copied whole."""
    ends = packed.pack_tokens.ends.astype(np.int64)
    cuts = np.searchsorted(ends, np.arange(tokens, packed.tokens.total, tokens), side="left") + 1
    bounds = np.unique(np.concatenate([[0], cuts, [len(packed)]])).tolist()
    return [packed.rows(np.arange(start, stop)) for start, stop in itertools.pairwise(bounds)]


class _Report:
    """What one shard took in, packed and left out."""

    def __init__(self) -> None:
        self._plans: list[Plan] = []
        self._rejected: list[dict[str, Any]] = []
        self._packed = self._left = 0
        self._squares = [0.0, 0.0]
        self._lengths: Counter[int] = Counter()
        self._taken = [0, 0, 0]

    def add(self, options: PlanOptions, plan: Plan, packed: Packs, samples: Packs) -> None:
        self._plans.append(plan)
        placed = demands(packed)
        sizes = Histogram.of(placed.lengths)
        self._lengths.update(dict(zip(sizes.sizes.tolist(), sizes.counts.tolist(), strict=True)))
        for place, need in enumerate((np.ones(len(placed)), placed.images, placed.patches)):
            self._taken[place] += 0 if need is None else int(need.sum(dtype=np.int64))
        self._packed += digest_total(packed.columns["sample_digests"])
        left = np.sort(np.concatenate([plan.rejected, plan.zero]))
        self._left += digest_total(samples.columns["sample_digests"][left])
        for number in left.tolist():
            self._rejected.append(_rejected(samples, number, options))
        costs = _costs(packed)
        self._squares[0] += float(costs.sum())
        self._squares[1] += float((costs**2).sum())

    def to_json(self) -> dict[str, Any]:
        return {
            "packs": sum(plan.packs for plan in self._plans),
            "samples": sum(plan.samples for plan in self._plans),
            "tokens": sum(plan.tokens for plan in self._plans),
            "seconds": sum(plan.seconds for plan in self._plans),
            "costs": self._squares,
            "lengths": sorted(self._lengths.items()),
            "taken": self._taken,
            "rejected": self._rejected,
            "digest": spell_total(self._packed),
            "digest_rejected": spell_total(self._left),
        }


def _costs(packed: Packs) -> np.ndarray:
    """(P,) float64, attention cost of each pack: sum of squared sample lengths."""
    squares = np.concatenate([[0.0], np.cumsum(packed.tokens.lengths.astype(np.float64) ** 2)])
    return squares[packed.members.ends] - squares[packed.members.starts]


def _rejected(samples: Packs, number: int, options: PlanOptions) -> dict[str, Any]:
    source = str(samples.columns["sample_sources"][number])
    length = int(samples.tokens.lengths[number])
    file, _, line = source.rpartition(":")
    one = demands(samples.take(np.array([number])))
    needs = [
        (length, options.capacity, "tokens, capacity"),
        (
            0 if one.images is None else int(one.images[0]),
            options.max_images,
            "images, --max-images",
        ),
        (
            0 if one.patches is None else int(one.patches[0]),
            options.max_patches,
            "patches, --max-patches",
        ),
    ]
    over = [
        f"{need} {what} {most}" for need, most, what in needs if most is not None and need > most
    ]
    why = "; ".join(over) or "no tokens"
    return {
        "file": file,
        "line": int(line) if line.isdigit() else None,
        "id": str(samples.columns["sample_ids"][number]),
        "code": "over_pack_length" if length else "zero_length",
        "message": f"{source}: {why}; raise the limit, or cut the record in parts",
    }
