"""What became of the records of a run, added up over its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.digests import digest_total, spell_total
from packcli.contract.packs import IGNORED
from packcli.shards.media_store import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packcli.contract.packs import Packs
    from packcli.encode.outcome import Outcome
    from packcli.shards.manifest import ShardEntry


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

    @classmethod
    def of(cls, reports: Iterable[dict[str, Any]], output: str = "") -> EncodeSummary:
        """Add up what parts reported."""
        summary = cls(output=output)
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
        return summary

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``schemas/encode_summary.schema.json``."""
        return asdict(self) | {
            "reasons": dict(sorted(self.reasons.items())),
            "warnings": dict(sorted(self.warnings.items())),
            "media": dict(self.media),
        }


@dataclass(slots=True)
class PartReport:
    """What one part did, as it is kept for a resumed run.

    Attributes:
        embeds: media are stored with the dataset.
        embedded: hashes of those that its samples name.
        counts: kept, blank, tokens, …
        warnings: counts by code.
        rejected: lines of ``rejected.jsonl``.
        digest: sum of the samples' digests.
    """

    embeds: bool = False
    embedded: set[str] = field(default_factory=set[str])

    counts: Counter[str] = field(default_factory=Counter[str])
    warnings: Counter[str] = field(default_factory=Counter[str])
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    digest: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count what became of records."""
        self.counts["kept"] += len(outcome.samples)
        self.counts["blank"] += outcome.blank
        self.warnings += outcome.warnings
        self.rejected += outcome.rejected

    def count(self, packs: Packs) -> None:
        """Count what is written."""
        if self.embeds:
            self.embedded.update(names_in(packs.columns.get("media.uri", ())))
        self.digest += digest_total(packs.columns["sample_digests"])
        self.counts["tokens"] += packs.tokens.total
        supervised = np.count_nonzero(packs.columns["labels"] != IGNORED)
        self.counts["supervised_tokens"] += int(supervised)
        for kind in packs.columns.get("media.kind", ()):
            self.counts[f"{kind}s"] += 1

    def to_json(self, entry: ShardEntry) -> dict[str, Any]:
        """Return what a resumed run reads back."""
        return {
            "shard": asdict(entry),
            "counts": dict(self.counts),
            "warnings": dict(self.warnings),
            "embedded": sorted(self.embedded),
            "rejected": sorted(self.rejected, key=itemgetter("offset")),
            "digest": spell_total(self.digest),
        }
