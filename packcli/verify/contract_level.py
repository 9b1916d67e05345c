"""Contract level: every row of every shard against every rule, and the dataset as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.columns import columns_for
from packcli.contract.digests import digest_bytes, digest_total, spell_total
from packcli.contract.padding import padding_of
from packcli.contract.rows import UNKNOWN_MODEL, declared
from packcli.contract.rules.dataset import DATASET, MANIFEST
from packcli.contract.verdict import Finding, Verdict
from packcli.shards.manifest import file_sha256
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.verify.batches import checked_batches
from packcli.verify.embedded import check_embedded
from packcli.verify.naming import finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows
    from packcli.contract.rules import Checked
    from packcli.shards.manifest import Manifest
    from packcli.verify.targets import Target


@dataclass(slots=True)
class _Identity:
    """What is added up over all shards to tell whether a sample was lost or doubled."""

    packs: int = 0
    samples: int = 0
    tokens: int = 0
    padding: int = 0
    digest: int = 0
    sources: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def add(self, packs: Packs) -> int:
        """Add a batch's; returns how many samples it holds, padding left out."""
        there = ~padding_of(packs)
        digests = packs.columns["sample_digests"][there]
        self.packs += len(packs)
        self.samples += len(digests)
        self.tokens += packs.tokens.total
        self.padding += int(packs.tokens.lengths[~there].sum(dtype=np.int64))
        self.digest += digest_total(digests)
        # files of one name in two folders have equal sources: the digest tells them apart
        sources = packs.columns["sample_sources"][there].tolist()
        pairs = zip(sources, digest_bytes(digests), strict=True)
        self.sources.append(np.fromiter(map(hash, pairs), np.int64, len(digests)))
        return len(digests)

    def beyond(self, uses: int) -> int:
        """Count samples that are there more often than they are used."""
        every = np.concatenate([np.zeros(0, np.int64), *self.sources])
        _, counts = np.unique(every, return_counts=True)
        return int((counts - uses).clip(0).sum())


class _At(NamedTuple):
    """A batch of rows.

    Attributes:
        shard: its title.
        first: its first row, of the shard.
        told: codes that an earlier batch earned for the whole shard.
    """

    shard: str
    first: int
    told: frozenset[str]


def check_contract(target: Target, verdict: Verdict) -> None:
    """Check every shard of a target, and add what is found to the verdict."""
    before, packs = verdict.counts.total(), verdict.checked["packs"]
    _check_manifest(target, verdict)
    identity = _Identity()
    for path in target.shards:
        _check_shard(target, path, verdict, identity)
    check_embedded(target, verdict)
    found = verdict.counts.total() > before
    if verdict.checked["packs"] == packs and not found:
        verdict.add(Finding("dataset.empty", f"{target.path} holds no packs"))
    if target.manifest is not None and not found:
        _check_identity(target, identity, verdict)


def _check_manifest(target: Target, verdict: Verdict) -> None:
    if target.manifest is None:
        without = (rule.code for rule in DATASET if MANIFEST in rule.needs)
        verdict.skipped.update(dict.fromkeys(without, f"needs {MANIFEST}"))
        return
    if target.stored_fingerprint != target.manifest.fingerprint:
        message = f"says {target.stored_fingerprint}, its fields make {target.manifest.fingerprint}"
        verdict.add(Finding("manifest.fingerprint", message))
    known = {path.name for path in target.shards}
    for path in sorted((target.path / "data").glob("*")):
        if path.name not in known:
            verdict.add(Finding("shard.extra", "not in the manifest", shard=target.title(path)))


def _check_shard(target: Target, path: Path, verdict: Verdict, identity: _Identity) -> None:
    title = target.title(path)
    if not path.is_file():
        verdict.add(Finding("shard.missing", "the manifest names it", shard=title))
        return
    verdict.checked["shards"] += 1
    verdict.shards.append(title)
    entry = target.entries.get(path.name)
    if entry is not None and (path.stat().st_size, file_sha256(path)) != (
        entry.bytes,
        entry.sha256,
    ):
        message = f"{path.stat().st_size} bytes, not those that the manifest names"
        verdict.add(Finding("shard.sha256", message, shard=title))
    try:
        shard = Shard.open(path)
        facts, first, told = _facts_of(target, shard), 0, frozenset[str]()
        # a mixture uses samples more than once: how often is counted over all shards
        without = ("sample.duplicate",) if _uses(target) > 1 else ()
        for number, (rows, checked) in enumerate(checked_batches(shard, facts, without)):
            if number == 0:
                _check_declared(target, title, rows, verdict)
            told |= _check_rows(target, _At(title, first, told), (rows, checked), verdict, identity)
            first += rows.count
    except ShardUnreadableError as error:
        verdict.add(Finding("shard.checksum", error.reason, shard=title))


def _facts_of(target: Target, shard: Shard) -> ModelFacts:
    """Tell what a shard is read for; weights are no model's, so a column of them says it."""
    facts = target.facts or UNKNOWN_MODEL
    return facts if target.own else replace(facts, loss_scale="loss_scale" in shard.columns)


def _check_rows(
    target: Target,
    at: _At,
    batch: tuple[Rows, Checked],
    verdict: Verdict,
    identity: _Identity,
) -> set[str]:
    """Tell what is wrong with a batch; returns the codes that it earned for the whole shard."""
    rows, checked = batch
    for rule, hit in checked.hits:
        # what is wrong with a whole shard may show in each row group, and is told of the first
        if hit.row is not None or rule.code not in at.told:
            verdict.add(finding_at(rule.code, hit, at[:2], rows))
    for code, lacks in checked.skipped.items():
        verdict.skipped[code] = f"needs {', '.join(lacks)}"
    verdict.checked["packs"] += rows.count
    if "input_ids" in rows.cells:
        verdict.checked["tokens"] += int(rows.tokens.sum())
    if checked.packs is not None:
        verdict.checked["samples"] += identity.add(checked.packs)
        _check_capacity(target, at, checked.packs, checked.sound, verdict)
    return {rule.code for rule, hit in checked.hits if hit.row is None}


def _check_declared(target: Target, shard: str, rows: Rows, verdict: Verdict) -> None:
    """Packcli's own shards hold every column that is declared for their model, and none other."""
    if not target.own:
        return
    held = [column.name for column in columns_for(rows.facts)]
    if missing := [name for name in held if name not in rows.cells]:
        verdict.add(Finding("columns.missing", f"no column {', '.join(missing)}", shard=shard))
    for name in rows.cells:
        if declared(name) is not None and name not in held:
            message = f"column {name!r} must not be stored: the dataset's own model has none"
            verdict.add(Finding("columns.forbidden", message, shard=shard))


def _check_capacity(
    target: Target, at: _At, packs: Packs, sound: np.ndarray, verdict: Verdict
) -> None:
    capacity = None if target.manifest is None else target.manifest.options.get("capacity")
    if not isinstance(capacity, int):
        return
    for row in np.flatnonzero(packs.pack_tokens.lengths > capacity).tolist():
        message = f"{packs.pack_tokens.lengths[row]} tokens, capacity {capacity}"
        verdict.add(Finding("pack.capacity", message, at.shard, at.first + int(sound[row])))


def _check_identity(target: Target, identity: _Identity, verdict: Verdict) -> None:
    assert target.manifest is not None  # noqa: S101 - the caller asks only then
    if doubled := identity.beyond(_uses(target)):
        often = "twice" if _uses(target) == 1 else f"more than {_uses(target)} times"
        verdict.add(Finding("sample.duplicate", f"{doubled} samples are in the dataset {often}"))
    shards = target.manifest.shards
    expected = [sum(getattr(s, name) for s in shards) for name in ("rows", "samples", "tokens")]
    found = [identity.packs, identity.samples, identity.tokens]
    digest = spell_total(identity.digest)
    if found != expected or digest != target.manifest.digest:
        words = "{} packs, {} samples, {} tokens"
        message = f"{words.format(*found)} with digest {digest}, "
        message += f"the manifest names {words.format(*expected)} with {target.manifest.digest}"
        verdict.add(Finding("conservation", message))
    else:
        _check_counts(target.manifest, identity, verdict)


def _check_counts(manifest: Manifest, identity: _Identity, verdict: Verdict) -> None:
    """What the manifest counts is what is there, and nothing that went in is unaccounted for."""
    counts = manifest.counts
    for name, value in _recounted(manifest, identity):
        if counts.get(name) != value:
            message = f"counts name {counts.get(name)!r:.40} as {name}, the shards make it {value}"
            verdict.add(Finding("conservation", message))
            return
    given = [one.get("samples", 0) for one in manifest.inputs]
    numbers = [*given, counts.get("rejected", 0)]
    if manifest.kind != "packed" or manifest.options.get("epochs"):
        return
    samples = identity.samples
    if not all(isinstance(n, int) for n in numbers) or sum(given) != samples + numbers[-1]:
        message = f"{given} samples went in, {samples} are here, {numbers[-1]} were rejected"
        verdict.add(Finding("conservation", message))


def _recounted(manifest: Manifest, identity: _Identity) -> Iterator[tuple[str, object]]:
    """Yield what the manifest's counts must be, by name, as far as the shards tell it."""
    tokens = identity.tokens - identity.padding
    if manifest.kind != "packed":
        yield from (("kept", identity.packs), ("kept", identity.samples), ("tokens", tokens))
        return
    yield from (("packs", identity.packs), ("samples", identity.samples), ("tokens", tokens))
    yield from (("padding", identity.padding), ("shards", len(manifest.shards)))
    capacity, bound = manifest.options.get("capacity"), manifest.counts.get("lower_bound")
    if not isinstance(capacity, int) or not capacity:
        return
    fill = tokens / (identity.packs * capacity) if identity.packs else 0.0
    yield from (("capacity", capacity), ("fill", fill))
    if not isinstance(bound, int):
        bound = -1
    # the bound is a planner's: what is certain is that it lies between these
    yield "lower_bound", min(max(bound, -(-tokens // capacity)), identity.packs)
    yield "excess", identity.packs - bound


def _uses(target: Target) -> int:
    """How often a sample may be in a dataset: once, or as the epochs of a mixture add up to.

    An input may be part of another one, so their epochs count together.
    """
    epochs = [] if target.manifest is None else target.manifest.options.get("epochs")
    if not isinstance(epochs, list) or not epochs:
        return 1
    return sum(ceil(each) for each in epochs if isinstance(each, int | float) and isfinite(each))
