"""Which packs are run: a seeded choice over all shards, and those that findings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from packcli.shards.reader import Shard, ShardUnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packcli.contract.rows import Rows
    from packcli.contract.verdict import Verdict
    from packcli.verify.targets import Target


class Choice(Protocol):
    """How packs are chosen.

    Attributes:
        sample: packs to run; None for every one.
        seed: chooses the packs.
    """

    @property
    def sample(self) -> int | None: ...  # noqa: D102 - told above
    @property
    def seed(self) -> int: ...  # noqa: D102 - told above


class Chosen(NamedTuple):
    """One pack that is to be run.

    Attributes:
        path: its shard.
        row: row of the shard.
        rows: the row group that holds it.
        place: its row there.
    """

    path: Path
    row: int
    rows: Rows
    place: int

    def names(self, sample: int, count: int) -> tuple[str | None, str | None]:
        """Return id and source of a sample; None where they do not name `count` samples."""
        return self._named("sample_ids", sample, count), self._named(
            "sample_sources", sample, count
        )

    def _named(self, column: str, sample: int, count: int) -> str | None:
        cells = self.rows.cells.get(column)
        if cells is None or cells.rows is None or cells.inner is not None:
            return None
        first, last = cells.rows[self.place : self.place + 2].tolist()
        return str(cells.values[first + sample]) if last - first == count else None


def chosen_rows(
    target: Target, choice: Choice, columns: Sequence[str], verdict: Verdict
) -> Iterator[Chosen]:
    """Yield the packs to run, shard by shard.

    Args:
        target: shards.
        choice: how many, and which.
        columns: names of top-level columns to read, where a shard has them.
        verdict: its findings name more packs to run; shards that cannot be read are noted.
    """
    wanted = _choose(target, choice, verdict)
    for path in target.shards:
        inside = wanted.get(path.name, set())
        if not inside:
            continue
        try:
            yield from _rows_of(path, inside, target, columns)
        except ShardUnreadableError as error:
            verdict.skipped[f"isolation in {target.title(path)}"] = error.reason


def _rows_of(
    path: Path, wanted: set[int], target: Target, columns: Sequence[str]
) -> Iterator[Chosen]:
    shard = Shard.open(path)
    held = [name for name in columns if name in shard.columns]
    first = 0
    for number in range(shard.file.num_row_groups):
        count = int(shard.file.metadata.row_group(number).num_rows)
        inside = sorted(row for row in wanted if first <= row < first + count)
        if inside:
            rows = shard.group(number, target.facts, held)
            for row in inside:
                yield Chosen(path, row, rows, row - first)
        first += count


def _choose(target: Target, choice: Choice, verdict: Verdict) -> dict[str, set[int]]:
    counts: list[tuple[str, int]] = []
    for path in target.shards:
        try:
            shard = Shard.open(path)
        except (ShardUnreadableError, FileNotFoundError):
            continue
        if "input_ids" in shard.columns:
            counts.append((path.name, shard.rows))
    total = sum(count for _, count in counts)
    most = total if choice.sample is None else min(choice.sample, total)
    picked = np.sort(np.random.default_rng(choice.seed).choice(total, most, replace=False))
    ends = np.cumsum([count for _, count in counts])
    wanted: dict[str, set[int]] = {name: set() for name, _ in counts}
    for flat in picked.tolist():
        place = int(np.searchsorted(ends, flat, side="right"))
        wanted[counts[place][0]].add(flat - int(ends[place]) + counts[place][1])
    titles = {target.title(path): path.name for path in target.shards}
    for finding in verdict.findings:
        name = titles.get(finding.shard or "")
        if finding.row is not None and name in wanted:
            wanted[name].add(finding.row)
    return wanted
