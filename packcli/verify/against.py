"""A dataset against the one that it was made from: each sample once, and none other."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.errors import InputError
from packcli.contract.padding import SAMPLE_NAMES, named_padding
from packcli.contract.verdict import COMPARED, Finding, Verdict
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.verify.places import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.rows import Rows
    from packcli.verify.places import Part
    from packcli.verify.targets import Target

    _Places = NDArray[np.int64]

_COLUMNS = ("sample_ids", "sample_sources", "sample_digests")


class _Sample(NamedTuple):
    """A sample that one dataset holds and the other does not."""

    shard: str
    row: int
    place: int
    name: str
    source: str
    home: str

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
    by the record's own id, then by its place; `parts_of` says which files are the same. Samples
    whose digests the dataset's own ``rejected.jsonl`` names are not missing. A mixture uses
    samples as often as it says, so there a sample may be missing or a copy.

    Args:
        dataset: packed shards, taken together.
        origin: encoded shards: those that were packed, or the records encoded again.
        verdict: takes the findings.

    Raises:
        InputError: a ``rejected.jsonl`` is not as packcli wrote it.
    """
    lacking = [name for target in (*dataset, *origin) for name in _lacking(target)]
    if lacking:
        reason = f"needs {', '.join(dict.fromkeys(lacking))}"
        verdict.skipped.update(dict.fromkeys(COMPARED, reason))
        return
    parts, sources = parts_of(dataset, origin)
    held, given = _prints(parts, verdict), _prints(sources, verdict)
    mixture = any(m and m.options.get("epochs") for m in (one.manifest for one in dataset))
    without = _unlike if mixture else _unmatched
    alone, gone, moved = without(held, given)
    verdict.checked["compared"] += len(held.placed)
    verdict.checked["moved"] += moved
    rejected = np.concatenate([_rejected(target.path) for target in dataset])
    gone = gone[surplus(given.content[gone], rejected)]
    found = list(_findings(_named(parts, alone), _named(sources, gone)))
    if mixture:
        reason = "needs a dataset that uses every sample once, not a mixture"
        verdict.skipped["sample.missing"] = reason
        found = [one for one in found if one.code != "sample.missing"]
    for finding in sorted(found, key=lambda one: _in_order(one.source or "")):
        verdict.add(finding)


def _unmatched(held: _Prints, given: _Prints) -> tuple[_Places, _Places, int]:
    """Match samples one to one.

    Returns:
        Places of those that are held only and given only, and how many stand elsewhere.
    """
    # of copies with equal digests, those at unknown places are the ones that moved, or are extra
    alone = surplus(held.placed, given.placed)
    gone = surplus(given.placed, held.placed)
    changed = alone[surplus(held.content[alone], given.content[gone])]
    left = gone[surplus(given.content[gone], held.content[alone])]
    return changed, left, len(alone) - len(changed)


def _unlike(held: _Prints, given: _Prints) -> tuple[_Places, _Places, int]:
    """Match samples with their copies, any number of them; returns what `_unmatched` does."""
    contents, first = np.unique(held.content, return_index=True)
    alone = np.sort(first[~np.isin(contents, given.content)])
    gone = np.flatnonzero(~np.isin(given.content, held.content))
    known = np.isin(held.content, given.content)
    return alone, gone, int(np.count_nonzero(known & ~np.isin(held.placed, given.placed)))


def _in_order(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (source, 0)


def _findings(alone: list[_Sample], gone: list[_Sample]) -> Iterator[Finding]:
    """Report samples without a partner: those with a common id, then a common place, changed."""
    keys: tuple[Callable[[_Sample], str], ...] = (
        lambda sample: sample.own_name,
        lambda sample: sample.source,
        lambda sample: sample.home,
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
        message = "is in no pack, and is not one that pack rejected"
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


def _groups(parts: Sequence[Part]) -> Iterator[tuple[Part, str, int, Rows]]:
    for part in parts:
        for path in part.target.shards:
            if not path.is_file():
                continue  # shard.missing says so
            first = 0
            for rows in Shard.open(path).groups(part.target.facts, _COLUMNS):
                yield part, part.target.title(path), first, rows
                first += rows.count


def _padding(rows: Rows) -> NDArray[np.bool_]:
    return named_padding(*(rows.cells[name].values for name in SAMPLE_NAMES))


def _prints(parts: Sequence[Part], verdict: Verdict) -> _Prints:
    none = np.zeros(0, np.int64)
    placed, content = [none], [none]
    try:
        for part, _, _, rows in _groups(parts):
            there = ~_padding(rows)
            digests = rows.cells["sample_digests"].values.reshape(-1, 16)
            sources = rows.cells["sample_sources"].values.tolist()
            if part.names:
                sources = [part.place(source) for source in sources]
            pairs = zip(sources, map(bytes, digests), strict=True)
            placed.append(np.fromiter(map(hash, pairs), np.int64, len(sources))[there])
            content.append(_content(digests)[there])
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


def _named(parts: Sequence[Part], places: NDArray[np.int64]) -> list[_Sample]:
    """Look samples up by their places among all that are no padding."""
    found: list[_Sample] = []
    before, last = 0, int(places.max(initial=-1))
    groups = _groups(parts)
    while before <= last:  # what follows may be damaged, and nobody asks for it
        part, shard, first, rows = next(groups)
        ends = rows.cells["sample_sources"].rows
        assert ends is not None  # noqa: S101 - a list column
        there = np.flatnonzero(~_padding(rows))
        wanted = places[(places >= before) & (places < before + len(there))] - before
        before += len(there)
        for flat in there[wanted].tolist():
            row = int(np.searchsorted(ends, flat, side="right")) - 1
            name, source = (str(rows.cells[one].values[flat]) for one in SAMPLE_NAMES)
            at = (shard, first + row, flat - int(ends[row]))
            found.append(_Sample(*at, name, source, part.place(source)))
    return found


def _content(digests: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(N,) int64, one number for each of (N, 16) uint8."""
    return np.ascontiguousarray(digests).view(np.int64)[:, 0]


def _rejected(folder: Path) -> NDArray[np.int64]:
    """Read which samples pack turned away: by content, as places and ids may be another's.

    Records that encode rejects have no digest: encoded again, they are rejected again.
    """
    path = folder / "rejected.jsonl"
    if not path.is_file():
        return np.zeros(0, np.int64)
    try:
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        told = bytes.fromhex("".join(json.loads(line).get("digest", "") for line in lines))
        return _content(np.frombuffer(told, np.uint8).reshape(-1, 16))
    except (ValueError, TypeError, AttributeError) as error:
        what = "not as packcli wrote it; copy the dataset again"
        raise InputError(f"{path}: {what} ({error})") from error
