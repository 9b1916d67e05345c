"""What a check found: findings, what was skipped, what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one place.

    Attributes:
        code: the rule, e.g. ``boundary.end``.
        message: expected, found, and what it means.
        shard: file name, None when the dataset is meant.
        row: row of the shard, None when the shard is meant.
        sample: sample in the pack.
        token: token in the pack.
        sample_id: id of the sample, as in the record.
        source: ``file:line`` of the record.
    """

    code: str
    message: str
    shard: str | None = None
    row: int | None = None
    sample: int | None = None
    token: int | None = None
    sample_id: str | None = None
    source: str | None = None

    def where(self) -> str:
        """Name the place in one line."""
        parts = [self.shard or "dataset"]
        parts += [f"row {self.row}"] if self.row is not None else []
        if self.sample is not None:
            named = f" ({self.sample_id!r})" if self.sample_id else ""
            parts.append(f"sample {self.sample}{named}")
        parts += [f"token {self.token}"] if self.token is not None else []
        parts += [self.source] if self.source else []
        return ", ".join(parts)


@dataclass(slots=True)
class Verdict:
    """The result of `packcli verify`.

    Attributes:
        level: ``contract``, ``kernel`` or ``model``: how deep the check went.
        findings: the first findings, at most `limit`.
        counts: findings by code, all of them.
        skipped: rules that did not run, and why.
        checked: what was looked at: shards, packs, samples, tokens.
        proofs: one entry a kernel check: kernel, version, device, deviation, controls.
        limit: how many findings are kept in full.
    """

    level: str = "contract"
    findings: list[Finding] = field(default_factory=list[Finding])
    counts: Counter[str] = field(default_factory=Counter[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    checked: Counter[str] = field(default_factory=Counter[str])
    proofs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    limit: int = 100

    @property
    def passed(self) -> bool:
        """Whether nothing was found and something was looked at."""
        return not self.counts and self.checked["packs"] > 0

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it while there is room."""
        self.counts[finding.code] += 1
        if len(self.findings) < self.limit:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``schemas/verdict.schema.json``."""
        return {
            "passed": self.passed,
            "level": self.level,
            "checked": dict(self.checked),
            "counts": dict(sorted(self.counts.items())),
            "findings": [asdict(finding) for finding in self.findings],
            "skipped": dict(sorted(self.skipped.items())),
            "proofs": self.proofs,
        }
