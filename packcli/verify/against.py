"""A dataset against the one that it was made from: each sample once, and none other."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.verdict import Finding, Verdict
from packcli.shards.reader import Shard, ShardUnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


def check_against(dataset: Sequence[Target], origin: Sequence[Target], verdict: Verdict) -> None:
    """Compare what a dataset holds with what it was made from, sample by sample.

    Samples are told apart by source and digest, so order and grouping do not matter. Those that
    the dataset's own ``rejected.jsonl`` accounts for are not missing.

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
    held, given = _hashes(dataset, verdict), _hashes(origin, verdict)
    verdict.checked["compared"] += len(held)
    alone = _named(dataset, _beyond(held, given))
    gone = _named(origin, _beyond(given, held))
    rejected = frozenset[str]().union(*(_rejected(target.path) for target in dataset))
    for source in sorted(alone.keys() | gone.keys(), key=_in_order):
        given_up = gone.get(source, [])
        _tell(alone.get(source, []), given_up, verdict, rejected=source in rejected)


def _in_order(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (source, 0)


def _tell(alone: list[_Sample], gone: list[_Sample], verdict: Verdict, *, rejected: bool) -> None:
    """Report the samples of one source: those in both are changed."""
    changed = min(len(alone), len(gone))
    for sample in alone[:changed]:
        message = "its source gives another digest: ids, labels or grids differ"
        verdict.add(_finding("sample.changed", message, sample))
    for sample in alone[changed:]:
        message = "its source does not give it, or not so often"
        verdict.add(_finding("sample.extra", message, sample))
    for sample in [] if rejected else gone[changed:]:
        message = "is in no pack, and no line of rejected.jsonl says why"
        verdict.add(
            Finding("sample.missing", message, sample_id=sample.name or None, source=sample.source)
        )


def _finding(code: str, message: str, sample: _Sample) -> Finding:
    return Finding(
        code, message, sample.shard, sample.row, sample.place, None, sample.name, sample.source
    )


def _lacking(target: Target) -> list[str]:
    lacking: list[str] = []
    for path in target.shards:
        try:
            columns = Shard.open(path).columns
        except (ShardUnreadableError, FileNotFoundError):
            continue
        lacking += [name for name in _COLUMNS if name not in columns]
    return lacking


def _groups(targets: Sequence[Target]) -> Iterator[tuple[str, int, Rows]]:
    for target in targets:
        for path in target.shards:
            first = 0
            try:
                for rows in Shard.open(path).groups(target.facts, _COLUMNS):
                    yield target.title(path), first, rows
                    first += rows.count
            except FileNotFoundError:
                continue  # shard.missing says so


def _hash(rows: Rows) -> NDArray[np.int64]:
    sources = rows.cells["sample_sources"].values.tolist()
    digests = np.ascontiguousarray(rows.cells["sample_digests"].values).reshape(-1, 16)
    pairs = zip(sources, digests, strict=True)
    hashes = (hash((source, digest.tobytes())) for source, digest in pairs)
    return np.fromiter(hashes, np.int64, len(sources))


def _hashes(targets: Sequence[Target], verdict: Verdict) -> NDArray[np.int64]:
    """(N,) int64, one number for source and digest of each sample: names would not fit memory."""
    parts = [np.zeros(0, np.int64)]
    try:
        parts += [_hash(rows) for _, _, rows in _groups(targets)]
    except ShardUnreadableError as error:
        verdict.skipped["sample.missing"] = f"{error.path.name}: {error.reason}"
    return np.concatenate(parts)


def _beyond(one: NDArray[np.int64], other: NDArray[np.int64]) -> Counter[int]:
    """Count what one multiset holds beyond another."""
    values, counts = np.unique(one, return_counts=True)
    theirs, their_counts = np.unique(other, return_counts=True)
    if theirs.size:
        place = np.minimum(np.searchsorted(theirs, values), theirs.size - 1)
        counts = counts - np.where(theirs[place] == values, their_counts[place], 0)
    more = counts > 0
    return Counter(dict(zip(values[more].tolist(), counts[more].tolist(), strict=True)))


def _named(targets: Sequence[Target], wanted: Counter[int]) -> dict[str, list[_Sample]]:
    """Find the samples behind hashes, by source."""
    found: defaultdict[str, list[_Sample]] = defaultdict(list)
    if not wanted:
        return found
    left = wanted.copy()
    for shard, first, rows in _groups(targets):
        ends = rows.cells["sample_sources"].rows
        assert ends is not None  # noqa: S101 - a list column
        hashes = _hash(rows)
        for flat in np.flatnonzero(np.isin(hashes, list(left))).tolist():
            key = int(hashes[flat])
            if left[key] <= 0:
                continue
            left[key] -= 1
            row = int(np.searchsorted(ends, flat, side="right")) - 1
            names = (rows.cells[name].values[flat] for name in ("sample_ids", "sample_sources"))
            name, source = map(str, names)
            place = flat - int(ends[row])
            found[source].append(_Sample(shard, first + row, place, name, source))
    return found


def _rejected(folder: Path) -> frozenset[str]:
    """Read the sources of the samples that a stage turned away."""
    path = folder / "rejected.jsonl"
    if not path.is_file():
        return frozenset()
    with path.open(encoding="utf-8") as lines:
        told = (json.loads(line) for line in lines if line.strip())
        return frozenset(f"{one.get('file')}:{one.get('line')}" for one in told)
