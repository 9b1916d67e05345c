"""Stage 1: inputs become encoded shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli import engine
from packcli.contract.digests import digest_total, spell_total
from packcli.contract.errors import IncompleteError, InputError
from packcli.encode.encoder import Encoder, Outcome
from packcli.encode.inputs import reader_for
from packcli.encode.media.sources import MediaRoot
from packcli.encode.options import PART_BYTES, EncodeJob, Part, job_manifest, short_names
from packcli.encode.sample import packs_of_one
from packcli.families import open_family
from packcli.shards.card import encoded_card
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, ShardEntry
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BATCH_RECORDS = 512


@dataclass(slots=True)
class EncodeSummary:
    """What a run of encode did; every record is kept or rejected, blank lines are none.

    Attributes:
        records: records read.
        kept: samples written.
        rejected: records that did not become a sample.
        blank: blank lines.
        reasons: rejected records by code.
        warnings: warnings by code.
        tokens: tokens of the samples.
        supervised_tokens: labels that are not -100.
        media: images and videos of the samples.
        output: the dataset's directory.
    """

    records: int = 0
    kept: int = 0
    rejected: int = 0
    blank: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    warnings: Counter[str] = field(default_factory=Counter[str])
    tokens: int = 0
    supervised_tokens: int = 0
    media: Counter[str] = field(default_factory=lambda: Counter(images=0, videos=0))
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``schemas/encode_summary.schema.json``."""
        return asdict(self) | {
            "reasons": dict(sorted(self.reasons.items())),
            "warnings": dict(sorted(self.warnings.items())),
            "media": dict(self.media),
        }


@dataclass(frozen=True, slots=True)
class Writing:
    """Where a run writes, and how.

    Attributes:
        output: the dataset's directory.
        workers: processes.
        overwrite: replace a dataset that packcli wrote there.
        resume: go on with unfinished work there.
        progress: called with the number of finished and of all parts.
    """

    output: Path
    workers: int = 1
    overwrite: bool = False
    resume: bool = True
    progress: Callable[[int, int], None] = lambda _done, _all: None


def encode(inputs: list[Path], job: EncodeJob, writing: Writing) -> EncodeSummary:
    """Encode every record of every input.

    Raises:
        InputError: an input or the model directory cannot be used.
        UsageError: the output must not be touched.
        IncompleteError: stopped half-way; run again to resume.
    """
    parts = plan_parts(inputs)
    family = open_family(job.model, video_wrapper=job.options.video_wrapper)
    named = list(zip(inputs, short_names(inputs), strict=True))
    manifest = job_manifest(job, family, named)
    directory = OutputDirectory.open(
        writing.output, manifest, overwrite=writing.overwrite, resume=writing.resume
    )
    work = partial(encode_part, job, directory)
    reports: list[dict[str, Any]] = []
    for report in engine.run(work, parts, workers=writing.workers):
        reports.append(report)
        writing.progress(len(reports), len(parts))
    return _finish(directory, manifest, reports)


def plan_parts(inputs: list[Path]) -> list[Part]:
    """Cut inputs into parts that do not depend on the number of workers."""
    pieces: list[tuple[Path, str, Any]] = []
    for path, name in zip(inputs, short_names(inputs), strict=True):
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        pieces += [(path, name, part) for part in reader_for(path).ranges(path, PART_BYTES)]
    return [Part(n, len(pieces), *piece) for n, piece in enumerate(pieces)]


def encode_part(job: EncodeJob, directory: OutputDirectory, part: Part) -> dict[str, Any]:
    """Encode one part into one shard, unless that was done before."""
    if (done := directory.part(part.number)) is not None:
        return done
    encoder = _encoder(job, job.media_root or part.path.parent)
    facts = encoder.family.facts
    report = _Report()
    with directory.shard(part.shard, facts) as (writer, entries):
        records = reader_for(part.path).records(part.path, part.range)
        while batch := list(islice(records, BATCH_RECORDS)):
            outcome = encoder.encode(part.name, batch)
            if outcome.samples:
                packs = packs_of_one(outcome.samples, facts)
                report.digest += digest_total(packs.columns["sample_digests"])
                writer.write(packs)
            report.add(outcome)
    finished = report.to_json(entries[0])
    directory.finish_part(part.number, finished)
    return finished


@lru_cache(maxsize=8)
def _encoder(job: EncodeJob, root: Path) -> Encoder:
    return Encoder(job, MediaRoot(root, job.options.allow_outside_root))


@dataclass(slots=True)
class _Report:
    """What one part did, as it is kept for a resumed run."""

    counts: Counter[str] = field(default_factory=Counter[str])
    warnings: Counter[str] = field(default_factory=Counter[str])
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    digest: int = 0

    def add(self, outcome: Outcome) -> None:
        self.counts["kept"] += len(outcome.samples)
        self.counts["blank"] += outcome.blank
        self.warnings += outcome.warnings
        self.rejected += outcome.rejected
        for sample in outcome.samples:
            self.counts["tokens"] += len(sample.input_ids)
            self.counts["supervised_tokens"] += int((sample.labels != -100).sum())  # noqa: PLR2004 - the ignored label
            for medium in sample.media:
                self.counts[f"{medium.kind}s"] += 1

    def to_json(self, entry: ShardEntry) -> dict[str, Any]:
        return {
            "shard": asdict(entry),
            "counts": dict(self.counts),
            "warnings": dict(self.warnings),
            "rejected": self.rejected,
            "digest": spell_total(self.digest),
        }


def _finish(
    directory: OutputDirectory, manifest: Manifest, reports: list[dict[str, Any]]
) -> EncodeSummary:
    summary = EncodeSummary(output=str(directory.path))
    for report in reports:
        counts = Counter(report["counts"])
        summary.kept += counts["kept"]
        summary.blank += counts["blank"]
        summary.tokens += counts["tokens"]
        summary.supervised_tokens += counts["supervised_tokens"]
        summary.media.update(images=counts["images"], videos=counts["videos"])
        summary.rejected += len(report["rejected"])
        summary.reasons.update(line["code"] for line in report["rejected"])
        summary.warnings.update(report["warnings"])
    summary.records = summary.kept + summary.rejected
    shards = tuple(ShardEntry(**report["shard"]) for report in reports)
    if sum(shard.samples for shard in shards) != summary.kept:
        raise IncompleteError(f"{summary.kept} samples kept, the shards hold another number")
    if duplicates := _duplicate_ids(directory, shards):
        summary.warnings["duplicate_id"] = duplicates
    done = replace(
        manifest,
        counts={k: v for k, v in summary.to_json().items() if k != "output"},
        digest=spell_total(sum(int(report["digest"], 16) for report in reports)),
        shards=shards,
    )
    rejected = (line for report in reports for line in report["rejected"])
    directory.finish(done, card=encoded_card(done), rejected=rejected)
    return summary


def _duplicate_ids(directory: OutputDirectory, shards: tuple[ShardEntry, ...]) -> int:
    """Count samples whose id another sample has too, beyond the first."""
    hashes = [np.zeros(0, dtype=np.int64)]
    for entry in shards:
        shard = Shard.open(directory.path / "data" / entry.name)
        for rows in shard.groups(columns=["sample_ids"]):
            names = rows.cells["sample_ids"].values.tolist()
            hashes.append(np.fromiter((hash(name) for name in names), np.int64, len(names)))
    every = np.concatenate(hashes)
    return len(every) - len(np.unique(every))
