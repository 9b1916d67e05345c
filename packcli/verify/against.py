"""A dataset against the one that it was made from: each sample once, and none other."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.padding import SAMPLE_NAMES, named_padding
from packcli.contract.verdict import Finding, Verdict
from packcli.shards.reader import Shard, ShardUnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.rows import Rows
    from packcli.verify.targets import Target

_COLUMNS = ("sample_ids", "sample_sources", "sample_digests")
_CODES = ("sample.missing", "sample.changed", "sample.extra")


class _Sample(NamedTuple):
    """A sample that one dataset holds and the other does not."""

    shard: str
    row: int
    place: int
    name: str
    source: str

    @property
    def own_name(self) -> str:
        """The record's own id; empty where it is named by its place."""
        return "" if self.name == self.source else self.name


class _Prints(NamedTuple):
    """One number a sample, in the order of shards: names would not fit memory.

    Attributes:
        placed: (N,) int64, of source and digest.
        content: (N,) int64, of the digest alone.
    """

    placed: NDArray[np.int64]
    content: NDArray[np.int64]


def check_against(dataset: Sequence[Target], origin: Sequence[Target], verdict: Verdict) -> None:
    """Compare what a dataset holds with what it was made from, sample by sample.

    Samples are told apart by digest, so order, grouping and the places of records do not matter:
    one that stands in another line or file is counted as ``moved``. What is left is put together
    by the record's own id, then by its place. Samples that the dataset's own ``rejected.jsonl``
    accounts for are not missing.

    Args:
        dataset: packed shards, taken together.
        origin: encoded shards: those that were packed, or the records encoded again.
        verdict: takes the findings.
    """
    if any(one.manifest is not None and one.manifest.options.get("epochs") for one in dataset):
        reason = "needs a dataset that uses every sample once, not a mixture"
        verdict.skipped.update(dict.fromkeys(_CODES, reason))
        return
    lacking = [name for target in (*dataset, *origin) for name in _lacking(target)]
    if lacking:
        reason = f"needs {', '.join(dict.fromkeys(lacking))}"
        verdict.skipped.update(dict.fromkeys(_CODES, reason))
        return
    held, given = _prints(dataset, verdict), _prints(origin, verdict)
    # of copies with equal digests, those at unknown places are the ones that moved, or are extra
    alone = surplus(held.placed, given.placed)
    gone = surplus(given.placed, held.placed)
    changed = alone[surplus(held.content[alone], given.content[gone])]
    verdict.checked["compared"] += len(held.placed)
    verdict.checked["moved"] += len(alone) - len(changed)
    gone = gone[surplus(given.content[gone], held.content[alone])]
    rejected = frozenset[str]().union(*(_rejected(target.path) for target in dataset))
    found = _findings(_named(dataset, changed), _named(origin, gone), rejected)
    for finding in sorted(found, key=lambda one: _in_order(one.source or "")):
        verdict.add(finding)


def _in_order(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (source, 0)


def _findings(
    alone: list[_Sample], gone: list[_Sample], rejected: frozenset[str]
) -> Iterator[Finding]:
    """Report samples without a partner: those with a common id, then a common place, changed."""
    keys: tuple[Callable[[_Sample], str], ...] = (
        lambda sample: sample.own_name,
        lambda sample: sample.source,
    )
    for key in keys:
        pairs = list(_together(alone, gone, key))
        for sample, was in pairs:
            now = "" if was.source == sample.source else f", now {was.source},"
            message = f"its record{now} gives another digest: name, ids, labels or media differ"
            yield _finding("sample.changed", message, sample)
        met = {one for pair in pairs for one in pair}
        alone, gone = ([one for one in side if one not in met] for side in (alone, gone))
    for sample in alone:
        message = "its source does not give it, or not so often"
        yield _finding("sample.extra", message, sample)
    for sample in gone:
        if not {sample.source, sample.own_name} & rejected:
            message = "is in no pack, and no line of rejected.jsonl says why"
            name = sample.name or None
            yield Finding("sample.missing", message, sample_id=name, source=sample.source)


def _together(
    alone: list[_Sample], gone: list[_Sample], key: Callable[[_Sample], str]
) -> Iterator[tuple[_Sample, _Sample]]:
    """Pair samples of both sides that have a key in common, each with one of the other side."""
    there: defaultdict[str, list[_Sample]] = defaultdict(list)
    for sample in reversed(gone):
        there[key(sample)].append(sample)
    for sample in alone:
        if key(sample) and there[key(sample)]:
            yield sample, there[key(sample)].pop()


def _finding(code: str, message: str, sample: _Sample) -> Finding:
    return Finding(
        code, message, sample.shard, sample.row, sample.place, None, sample.name, sample.source
    )


def _lacking(target: Target) -> list[str]:
    lacking: list[str] = []
    for path in target.shards:
        try:
            columns = Shard.open(path).columns
        except ShardUnreadableError:
            continue  # the contract level says so
        lacking += [name for name in _COLUMNS if name not in columns]
    return lacking


def _groups(targets: Sequence[Target]) -> Iterator[tuple[str, int, Rows]]:
    for target in targets:
        for path in target.shards:
            if not path.is_file():
                continue  # shard.missing says so
            first = 0
            for rows in Shard.open(path).groups(target.facts, _COLUMNS):
                yield target.title(path), first, rows
                first += rows.count


def _padding(rows: Rows) -> NDArray[np.bool_]:
    return named_padding(*(rows.cells[name].values for name in SAMPLE_NAMES))


def _prints(targets: Sequence[Target], verdict: Verdict) -> _Prints:
    none = np.zeros(0, np.int64)
    placed, content = [none], [none]
    try:
        for _, _, rows in _groups(targets):
            there = ~_padding(rows)
            digests = np.ascontiguousarray(rows.cells["sample_digests"].values).reshape(-1, 16)
            sources = rows.cells["sample_sources"].values.tolist()
            pairs = zip(sources, map(bytes, digests), strict=True)
            placed.append(np.fromiter(map(hash, pairs), np.int64, len(sources))[there])
            content.append(digests.view(np.int64)[there, 0])
    except ShardUnreadableError as error:
        verdict.skipped["sample.missing"] = f"{error.path.name}: {error.reason}"
    return _Prints(np.concatenate(placed), np.concatenate(content))


def surplus(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell what one multiset holds beyond another.

    Args:
        one: (N,) int64.
        other: (M,) int64.

    Returns:
        Places in `one`, ascending; of equal numbers the last ones.
    """
    order = np.argsort(one, kind="stable")
    values, counts = np.unique(one, return_counts=True)
    theirs, their_counts = np.unique(np.append(other, values), return_counts=True)
    met = their_counts[np.searchsorted(theirs, values)] - 1
    rank = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank >= np.repeat(met, counts)])


def _named(targets: Sequence[Target], places: NDArray[np.int64]) -> list[_Sample]:
    """Look samples up by their places among all that are no padding."""
    found: list[_Sample] = []
    before, last = 0, int(places.max(initial=-1))
    groups = _groups(targets)
    while before <= last:  # what follows may be damaged, and nobody asks for it
        shard, first, rows = next(groups)
        ends = rows.cells["sample_sources"].rows
        assert ends is not None  # noqa: S101 - a list column
        there = np.flatnonzero(~_padding(rows))
        wanted = places[(places >= before) & (places < before + len(there))] - before
        before += len(there)
        for flat in there[wanted].tolist():
            row = int(np.searchsorted(ends, flat, side="right")) - 1
            name, source = (str(rows.cells[one].values[flat]) for one in SAMPLE_NAMES)
            found.append(_Sample(shard, first + row, flat - int(ends[row]), name, source))
    return found


def _rejected(folder: Path) -> frozenset[str]:
    """Read places and ids of the samples that a stage turned away."""
    path = folder / "rejected.jsonl"
    if not path.is_file():
        return frozenset()
    with path.open(encoding="utf-8") as lines:
        told = [json.loads(line) for line in lines if line.strip()]
    places = frozenset(f"{one.get('file')}:{one.get('line')}" for one in told)
    return places | frozenset(str(one["id"]) for one in told if one.get("id"))
