"""What became of the records of a run, added up over its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

FAULT = "packcli_fault"
"""The warning that counts records on which packcli itself failed."""


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
