"""What a check found: findings, what was skipped, what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, NotRequired, TypedDict

COMPARED = ("sample.missing", "sample.changed", "sample.extra")
"""Rules that compare samples with their source."""


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


class Control(TypedDict):
    """A pack that was broken on purpose, to prove that the kernel's proof would notice.

    Attributes:
        name: what was done to it.
        caught: whether it was noticed, in every pack.
        deviation: the least that it made, at most 1e30.
    """

    name: str
    caught: bool
    deviation: float


class Proof(TypedDict):
    """One kernel over all packs that it ran on.

    Attributes:
        kind: ``attention``, ``windows``, ``state``, ``conv`` or ``model``.
        kernel: its name; of a model its class and attention.
        version: of the library that it comes from.
        device: ``cpu``, or the GPU's name.
        dtype: of its inputs.
        packs: packs that it ran on.
        tokens: tokens in them; of ``windows`` patches.
        max_deviation: the largest difference from every sample run alone.
        max_gradient: of ``model``: the largest gradient of a sample's logits by what another
            sample puts in; any but 0 is a leak.
        tolerance: the difference from which samples count as seeing each other.
        controls: packs broken on purpose.
    """

    kind: str
    kernel: str
    version: str
    device: str
    dtype: str
    packs: int
    tokens: int
    max_deviation: float
    max_gradient: NotRequired[float]
    tolerance: float
    controls: list[Control]


@dataclass(slots=True)
class Verdict:
    """The result of `packcli verify`.

    Attributes:
        level: ``contract``, ``kernel`` or ``model``: how deep the check went.
        findings: the first findings, at most `limit`.
        counts: findings by code, all of them.
        skipped: rules that did not run, and why.
        checked: what was looked at: shards, packs, samples, tokens; where there is an origin,
            samples compared with it, and those of them that moved to another line or file.
        proofs: one entry a kernel that ran.
        limit: how many findings are kept in full.
        shards: names of the shards that were read, as findings call them.
        places: findings by code and shard, all of them.
    """

    level: str = "contract"
    findings: list[Finding] = field(default_factory=list[Finding])
    counts: Counter[str] = field(default_factory=Counter[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    checked: Counter[str] = field(default_factory=Counter[str])
    proofs: list[Proof] = field(default_factory=list[Proof])
    limit: int = 100
    shards: list[str] = field(default_factory=list[str])
    places: Counter[tuple[str, str | None]] = field(default_factory=Counter[tuple[str, str | None]])

    @property
    def passed(self) -> bool:
        """Whether nothing was found and something was looked at."""
        return not self.counts and self.checked["packs"] > 0

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it while there is room."""
        self.counts[finding.code] += 1
        self.places[finding.code, finding.shard] += 1
        if len(self.findings) < self.limit:
            self.findings.append(finding)

    def not_run(self, code: str) -> str | None:
        """Say why a rule did not run: it could not, or was not asked for; None where it did."""
        if code in self.skipped:
            return self.skipped[code]
        group, _, kind = code.partition(".")
        kinds = {proof["kind"] for proof in self.proofs}
        if code == "model.slots" or group == "isolation":
            needed = {"control": kinds, "slots": kinds & {"model"}}.get(kind, kinds & {kind})
            return None if needed else f"no proof of this kind at level {self.level}"
        if code in COMPARED and "compared" not in self.checked:
            return "needs the source, by --input or --against"
        return None

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
