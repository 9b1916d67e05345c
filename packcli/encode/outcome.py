"""What became of records: every one is a sample, a rejected line, or blank."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import Rejection
from packcli.contract.rejections import FAULT, WARNINGS, WarnedLine

if TYPE_CHECKING:
    from packcli.encode.records.raw import RawRecord
    from packcli.encode.sample import Sample


@dataclass(slots=True)
class Outcome:
    """What became of a run of records; every one is in exactly one place.

    Attributes:
        samples: kept, in order.
        rejected: one line of ``rejected.jsonl`` each.
        blank: lines with nothing on them.
        warned: what is to be known of records, in order.
        faults: records on which packcli itself failed.
    """

    samples: list[Sample] = field(default_factory=list["Sample"])
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    blank: int = 0
    warned: list[WarnedLine] = field(default_factory=list[WarnedLine])
    faults: int = 0

    @property
    def warnings(self) -> Counter[str]:
        """Counts by code."""
        counts = Counter(line["code"] for line in self.warned)
        return counts + Counter({FAULT: self.faults})

    def fault(self, error: Exception) -> Rejection:
        """Count a failure of packcli itself, which costs one record and not the run."""
        self.faults += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        message = f"packcli failed on it ({type(error).__name__} at {where}: {error!s:.200})"
        return Rejection("worker_crash", f"{message}; drop it and report it")


def rejected_line(
    name: str, raw: RawRecord, rejection: Rejection, identity: str | None = None
) -> dict[str, Any]:
    """Return a line of ``rejected.jsonl``."""
    return {
        "file": name,
        "line": raw.line,
        "offset": raw.offset,
        "id": identity,
        "code": rejection.code,
        "message": " ".join(f"{name}:{raw.line}: {rejection.message}".split()),
        "sha256": raw.sha256,
    }


def warned_line(name: str, line: int, code: str, identity: str | None = None) -> WarnedLine:
    """Say of a record what is to be known of it."""
    message = f"{name}:{line}: {WARNINGS[code]}"
    return {"file": name, "line": line, "id": identity, "code": code, "message": message}
