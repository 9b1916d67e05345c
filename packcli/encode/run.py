"""Stage 1: inputs become encoded shards."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from packcli import engine
from packcli.contract.digests import spell_total
from packcli.contract.errors import IncompleteError
from packcli.encode.collector import seldom
from packcli.encode.encoder import Encoder
from packcli.encode.inputs import expand, reader_for
from packcli.encode.media.remote import RemotePolicy
from packcli.encode.media.sources import MediaRoot
from packcli.encode.options import (
    PART_BYTES,
    EncodeJob,
    Part,
    family_of,
    job_manifest,
    quick_enough,
    short_names,
)
from packcli.encode.outcome import rejected_line
from packcli.encode.rescue import Scan, Write, rescue
from packcli.encode.sample import packs_of_one
from packcli.encode.summary import EncodeSummary, PartReport
from packcli.encode.text.quick_template import NotAlikeError
from packcli.shards.card import encoded_card
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, ShardEntry
from packcli.shards.media_store import MediaStore
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packcli.contract.errors import Rejection
    from packcli.encode.records.raw import ByteRange, RawRecord

    _Piece = tuple[Path, str, ByteRange]
    Told = Callable[[int, int, int, int], None]

BATCH_RECORDS = 512


@dataclass(frozen=True, slots=True)
class Writing:
    """Where a run writes, and how.

    Attributes:
        output: the dataset's directory.
        workers: processes.
        overwrite: replace a dataset that packcli wrote there.
        resume: go on with unfinished work there.
        progress: called with the number of finished and of all parts, and of records and rejected
            ones among them.
    """

    output: Path
    workers: int = 1
    overwrite: bool = False
    resume: bool = True
    progress: Told | None = None


def encode(inputs: list[Path], job: EncodeJob, writing: Writing) -> EncodeSummary:
    """Encode every record of every input.

    Raises:
        InputError: an input or the model directory cannot be used.
        UsageError: the output must not be touched.
        IncompleteError: stopped half-way; run again to resume.
    """
    inputs = expand(inputs)
    parts = plan_parts(inputs, job.options.limit)
    family = family_of(job)
    named = list(zip(inputs, short_names(inputs), strict=True))
    manifest = job_manifest(job, family, named)
    opened = OutputDirectory.open(
        writing.output, manifest, overwrite=writing.overwrite, resume=writing.resume
    )
    job = quick_enough(job, inputs)
    with closing(opened) as directory:
        work, rescued = partial(_work, job, directory), partial(_rescue, job, directory)
        directory.claim_place("media root", _root_of(job, inputs))
        reports: list[dict[str, Any]] = []
        for report in engine.run(work, parts, workers=writing.workers, rescue=rescued):
            reports.append(report)
            if writing.progress is not None:
                writing.progress(len(reports), len(parts), *told(reports))
        return _finish(directory, manifest, reports)


def told(reports: list[dict[str, Any]]) -> tuple[int, int]:
    """Count the records, and the rejected ones, of the parts that are finished."""
    rejected = sum(len(report["rejected"]) for report in reports)
    return rejected + sum(report["counts"].get("kept", 0) for report in reports), rejected


def _root_of(job: EncodeJob, inputs: list[Path]) -> str:
    """Return which folders media are looked for in."""
    folders = [job.media_root] if job.media_root else [path.parent for path in inputs]
    return "\n".join(str(folder.resolve()) for folder in folders)


def plan_parts(inputs: list[Path], limit: int | None = None) -> list[Part]:
    """Cut inputs into parts that do not depend on the number of workers.

    Args:
        inputs: in order.
        limit: records to take, the first of all inputs; None for every record.
    """
    pieces: list[_Piece] = []
    for path, name in zip(inputs, short_names(inputs), strict=True):
        pieces += [(path, name, part) for part in reader_for(path).ranges(path, PART_BYTES)]
    if limit is not None:
        pieces = list(_first(pieces, limit))
    return [Part(n, len(pieces), *piece) for n, piece in enumerate(pieces)]


def _first(pieces: list[_Piece], limit: int) -> Iterator[_Piece]:
    """Yield the pieces that hold the first records, the last of them cut behind its last one."""
    for path, name, range_ in pieces:
        for raw in reader_for(path).records(path, range_):
            if limit == 0:
                yield path, name, replace(range_, stop=raw.offset)
                return
            limit -= not raw.blank
        yield path, name, range_
        if limit == 0:
            return


def _work(job: EncodeJob, directory: OutputDirectory, part: Part) -> dict[str, Any]:
    """Encode a part here; if an earlier run died in it, in a process of its own."""
    if directory.broken_off(part.number):
        return _rescue(job, directory, part)
    with directory.underway(part.number):
        return encode_part(job, directory, part)


def _rescue(job: EncodeJob, directory: OutputDirectory, part: Part) -> dict[str, Any]:
    write = cast("Write", partial(_write_alone, job, directory, part))
    report = rescue(part, write, cast("Scan", partial(_scan, job, part)))
    with directory.underway(part.number):
        return report


def _write_alone(
    job: EncodeJob,
    directory: OutputDirectory,
    part: Part,
    _note: Callable[[int], None],
    crashed: Mapping[int, Rejection],
) -> dict[str, Any]:
    return encode_part(job, directory, part, crashed)


def _scan(job: EncodeJob, part: Part, note: Callable[[int], None], start: int) -> None:
    """Encode records one by one, each noted before."""
    encoder = encoder_for(job, part)
    encoder.text.trust(quick=False)
    for raw in reader_for(part.path).records(part.path, part.range):
        if raw.offset >= start:
            note(raw.offset)
            encoder.encode(part.name, [raw])


def encode_part(
    job: EncodeJob,
    directory: OutputDirectory,
    part: Part,
    crashed: Mapping[int, Rejection] = MappingProxyType({}),
) -> dict[str, Any]:
    """Encode one part into one shard, unless that was done before.

    Args:
        job: model directory and options.
        directory: where the shard goes.
        part: which records.
        crashed: records not to touch, by offset, and why.
    """
    if (done := directory.part(part.number)) is not None:
        return done
    encoder = encoder_for(job, part)
    with seldom():
        finished = faithful(encoder, lambda: _write_part(encoder, directory, part, crashed))
    directory.finish_part(part.number, finished)
    return finished


def faithful(encoder: Encoder, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do a part with fast libraries, and again without them if they turn out to differ."""
    try:
        return attempt()
    except NotAlikeError:
        encoder.text.trust(quick=False)
        finished = attempt()
        finished["warnings"]["fast_library_differs"] = 1
        encoder.text.trust(quick=True)
        return finished


def _write_part(
    encoder: Encoder, directory: OutputDirectory, part: Part, crashed: Mapping[int, Rejection]
) -> dict[str, Any]:
    report = PartReport(embeds=encoder.embeds)
    encoder.media.store = MediaStore(directory.path) if encoder.embeds else None
    with (
        directory.shard(part.shard, encoder.facts) as (writer, entries),
        # Arrow compresses without holding the interpreter: meanwhile the next batch is encoded
        ThreadPoolExecutor(1) as thread,
    ):
        records = _spared(part, crashed, report)
        written: list[Future[None]] = []
        while batch := list(islice(records, BATCH_RECORDS)):
            outcome = encoder.encode(part.name, batch)
            if outcome.samples:
                packs = packs_of_one(outcome.samples, encoder.facts)
                report.count(packs)
                _wait(written)
                written = [thread.submit(writer.write, packs)]
            report.add(outcome)
        _wait(written)
    return report.to_json(entries[0])


def _wait(written: list[Future[None]]) -> None:
    for one in written:
        one.result()


def _spared(
    part: Part, crashed: Mapping[int, Rejection], report: PartReport
) -> Iterator[RawRecord]:
    """Yield the records of a part, and report those that must not be touched."""
    for raw in reader_for(part.path).records(part.path, part.range):
        if raw.offset in crashed:
            report.rejected.append(rejected_line(part.name, raw, crashed[raw.offset]))
        else:
            yield raw


def encoder_for(job: EncodeJob, part: Part) -> Encoder:
    """Open the model once a process, media root and set of options."""
    own = part.path if part.path.is_dir() else part.path.parent
    return _encoder(job, job.media_root or own)


@lru_cache(maxsize=8)
def _encoder(job: EncodeJob, root: Path) -> Encoder:
    remote = RemotePolicy() if job.options.allow_remote_media else None
    return Encoder(job, MediaRoot(root, job.options.allow_outside_root, remote))


def _finish(
    directory: OutputDirectory, manifest: Manifest, reports: list[dict[str, Any]]
) -> EncodeSummary:
    summary = EncodeSummary.of(reports, str(directory.path))
    shards = tuple(ShardEntry(**report["shard"]) for report in reports)
    if sum(shard.samples for shard in shards) != summary.kept:
        raise IncompleteError(f"{summary.kept} samples kept, the shards hold another number")
    if duplicates := _duplicate_ids(directory, shards):
        summary.warnings["duplicate_id"] = duplicates
    counts = {k: v for k, v in summary.to_json().items() if k != "output"}
    if manifest.options["embed_media"]:
        named = {name for report in reports for name in report["embedded"]}
        counts["embedded"] = MediaStore(directory.path).settle(named)
    done = replace(
        manifest,
        counts=counts,
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
        names = Shard.open(directory.path / "data" / entry.name).ids().to_pylist()
        hashes.append(np.fromiter(map(hash, names), np.int64, len(names)))
    every = np.concatenate(hashes)
    return len(every) - len(np.unique(every))
