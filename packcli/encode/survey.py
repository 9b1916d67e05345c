"""Encode without writing: what would be kept, what would be rejected, how long samples are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli import engine
from packcli.contract.packs import IGNORED
from packcli.encode.collector import seldom
from packcli.encode.inputs import expand, reader_for
from packcli.encode.options import family_of, quick_enough
from packcli.encode.repeats import identities, repeated
from packcli.encode.run import (
    BATCH_RECORDS,
    encoder_for,
    faithful,
    plan_parts,
    told,
)
from packcli.encode.summary import EncodeSummary

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.rejections import WarnedLine
    from packcli.encode.encoder import Encoder
    from packcli.encode.options import EncodeJob, Part
    from packcli.encode.outcome import Outcome
    from packcli.encode.run import Told


@dataclass(frozen=True, slots=True)
class Survey:
    """What encode would do.

    Attributes:
        summary: its counts.
        rejected: lines of what would be ``rejected.jsonl``, in order.
        warned: what is to be known of the first records of which something is, in order.
        lengths: samples by their length in tokens.
    """

    summary: EncodeSummary
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    warned: list[WarnedLine] = field(default_factory=list["WarnedLine"])
    lengths: Counter[int] = field(default_factory=Counter[int])

    def histogram(self) -> list[tuple[int, int]]:
        """Return the number of samples up to 1, 2, 4, 8, … tokens and over the one before."""
        if not self.lengths:
            return []
        bins = Counter[int]()
        for length, count in self.lengths.items():
            bins[(length - 1).bit_length()] += count
        return [(1 << power, bins[power]) for power in range(min(bins), max(bins) + 1)]


def survey(
    inputs: list[Path],
    job: EncodeJob,
    *,
    workers: int = 1,
    progress: Told | None = None,
    named: int | None = 0,
) -> Survey:
    """Encode every record of every input and keep nothing of it but counts.

    Args:
        inputs: in order.
        job: model directory and options.
        workers: processes.
        progress: as in `packcli.encode.run.Writing`.
        named: warnings to keep with the record's place; None for all.

    Raises:
        InputError: an input or the model directory cannot be used.
        UsageError: an option does not fit the model.
        IncompleteError: a worker process died.
    """
    inputs = expand(inputs)
    parts = plan_parts(inputs, job.options.limit)
    family_of(job)  # what does not fit the model is told before work begins
    job = quick_enough(job, inputs)
    reports: list[dict[str, Any]] = []
    for report in engine.run(partial(survey_part, job, named), parts, workers=workers):
        reports.append(report)
        if progress is not None:
            progress(len(reports), len(parts), *told(reports))
    lengths = Counter[int]()
    for report in reports:
        lengths.update(report["lengths"])
    rejected = [line for report in reports for line in report["rejected"]]
    summary = EncodeSummary.of(reports)
    count, doubles = repeated(parts, [report["ids"] for report in reports], named)
    if count:
        summary.warnings["duplicate_id"] = count
    warned = [line for report in reports for line in report["warned"]] + doubles
    places = {part.name: place for place, part in enumerate(parts)}
    warned.sort(key=lambda line: (places[line["file"]], line["line"]))
    return Survey(summary, rejected, warned[:named], lengths)


def survey_part(job: EncodeJob, named: int | None, part: Part) -> dict[str, Any]:
    """Encode one part; return what `EncodeSummary.of` adds up, warnings, lengths and ids."""
    encoder = encoder_for(job, part)
    encoder.media.store = None
    with seldom():
        return faithful(encoder, lambda: _survey(encoder, part, named))


def _survey(encoder: Encoder, part: Part, named: int | None) -> dict[str, Any]:
    counts, warnings, lengths = Counter[str](), Counter[str](), Counter[int]()
    rejected: list[dict[str, Any]] = []
    warned: list[WarnedLine] = []
    ids = [np.zeros((0, 2), np.int64)]
    records = reader_for(part.path).records(part.path, part.range)
    while batch := list(islice(records, BATCH_RECORDS)):
        outcome = encoder.encode(part.name, batch)
        _count(outcome, counts, lengths)
        warnings += outcome.warnings
        rejected += outcome.rejected
        warned = (warned + outcome.warned)[:named]
        ids.append(identities(outcome.samples))
    told = {"counts": counts, "warnings": warnings, "rejected": rejected, "lengths": lengths}
    return told | {"warned": warned, "ids": np.concatenate(ids)}


def _count(outcome: Outcome, counts: Counter[str], lengths: Counter[int]) -> None:
    counts["kept"] += len(outcome.samples)
    counts["blank"] += outcome.blank
    for sample in outcome.samples:
        lengths[len(sample.input_ids)] += 1
        counts["tokens"] += len(sample.input_ids)
        counts["supervised_tokens"] += int(np.count_nonzero(sample.labels != IGNORED))
        for medium in sample.media:
            counts[f"{medium.kind}s"] += 1
