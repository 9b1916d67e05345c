"""Export: packs go to a target, row group by row group; what does not fit is counted and told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from packcli import __version__
from packcli.export.dataset import Dataset
from packcli.export.folder import MANIFEST, REFUSED, describe, staged
from packcli.export.target import Job
from packcli.export.targets import load

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.export.options import ExportOptions
    from packcli.export.refusals import Refused

_NAMED = 5


@dataclass(slots=True)
class ExportSummary:
    """What an export did.

    Attributes:
        target: its name.
        output: the folder.
        packs: packs read.
        samples: samples written.
        refused: how many samples stayed out, by reason and remedy.
        examples: ids of some of them, by reason and remedy.
        recipe: what the trainer has to be told.
    """

    target: str
    output: str
    packs: int = 0
    samples: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    recipe: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints."""
        return {
            "target": self.target,
            "output": self.output,
            "packs": self.packs,
            "samples": self.samples,
            "refused": [
                {"reason": reason, "samples": count, "examples": self.examples[reason]}
                for reason, count in sorted(self.refused.items())
            ],
            "recipe": self.recipe,
            "manifest": MANIFEST,
        }

    def count(self, packs: Packs, refused: Refused, lines: TextIO) -> None:
        """Account for one row group."""
        self.packs += len(packs)
        self.samples += packs.members.total - len(refused)
        for sample, reason in sorted(refused.items()):
            name = str(packs.columns["sample_ids"][sample])
            source = str(packs.columns["sample_sources"][sample])
            told = f"{reason.why}; {reason.remedy}"
            self.refused[told] += 1
            examples = self.examples.setdefault(told, [])
            if len(examples) < _NAMED:
                examples.append(name)
            line = {"sample": name, "source": source, **reason._asdict()}
            lines.write(json.dumps(line, ensure_ascii=False) + "\n")


def export(path: Path, target: str, options: ExportOptions) -> ExportSummary:
    """Write a dataset in the form of another trainer.

    Memory is bounded by one row group. Nothing stands in the output folder before all of it is
    written.

    Args:
        path: the folder that ``packcli pack`` or ``packcli encode`` wrote.
        target: one of `targets.names()`.
        options: how to write.

    Raises:
        UsageError: no such target, or an output folder that must not be touched.
        InputError: the dataset or the records cannot be used.
        IncompleteError: the disk is full or read-only.
    """
    file = load(target)
    dataset = Dataset.open(path)
    summary = ExportSummary(target, str(options.output))
    every = sum(dataset.groups)
    with staged(options.output, overwrite=options.overwrite) as folder:
        sink = file.open_sink(folder, Job(dataset.unpadded, options))
        with (folder / REFUSED).open("w", encoding="utf-8", errors="backslashreplace") as lines:
            for done, packs in enumerate(dataset.portions(), 1):
                summary.count(packs, sink.write(packs), lines)
                options.progress(done, every)
        summary.recipe = sink.finish()
        told = summary.to_json()
        del told["output"], told["manifest"]
        made = {"fingerprint": dataset.manifest.fingerprint, "digest": dataset.manifest.digest}
        fate = {"what": file.WHAT, "carried": [*file.CARRIED], "lost": [*file.LOST]}
        describe(folder, {"packcli": __version__, "dataset": made, **fate, **told})
    return summary
