"""Stage 2: encoded shards become packed shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from math import sqrt
from typing import TYPE_CHECKING, Any

from packcli import __version__, engine
from packcli.contract.digests import spell_total
from packcli.contract.errors import ContractBrokenError, UsageError
from packcli.pack.bound import lower_bound
from packcli.pack.fill import WINDOW_TOKENS, cut_shards, fill_shard
from packcli.pack.histogram import Histogram
from packcli.pack.sources import index, open_sources
from packcli.shards.card import packed_card
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, ShardEntry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packcli.pack.options import PlanOptions


@dataclass(slots=True)
class PackSummary:
    """What a run of pack did.

    Attributes:
        capacity: tokens in a pack, at most.
        strategy: the strategy's name.
        samples: samples in packs.
        rejected: samples that fit into no pack.
        reasons: them by code.
        packs: packs written.
        tokens: tokens in packs.
        lower_bound: packs that no plan can do without.
        excess: packs over the bound.
        fill: tokens over what the packs could hold.
        sum_sq_len_cv: variation of the packs' attention cost.
        shards: shards written.
        seconds: time that planning took.
        output: the dataset's directory.
    """

    capacity: int
    strategy: str
    samples: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    packs: int = 0
    tokens: int = 0
    lower_bound: int = 0
    excess: int = 0
    fill: float = 0.0
    sum_sq_len_cv: float = 0.0
    shards: int = 0
    seconds: float = 0.0
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``schemas/pack_summary.schema.json``."""
        return asdict(self) | {"reasons": dict(sorted(self.reasons.items()))}


@dataclass(frozen=True, slots=True)
class Writing:
    """Where a run writes, and how.

    Attributes:
        output: the dataset's directory.
        shard_bytes: size of a shard, about.
        window_tokens: tokens that are planned and held in memory at once.
        workers: processes.
        overwrite: replace a dataset that packcli wrote there.
        resume: go on with unfinished work there.
        progress: called with the number of finished and of all shards.
    """

    output: Path
    shard_bytes: int = 512 * 2**20
    window_tokens: int = WINDOW_TOKENS
    workers: int = 1
    overwrite: bool = False
    resume: bool = True
    progress: Callable[[int, int], None] = lambda _done, _all: None


def pack(inputs: list[Path], options: PlanOptions, writing: Writing) -> PackSummary:
    """Pack every sample of every input.

    Raises:
        InputError: inputs are incomplete or not alike.
        UsageError: the output must not be touched, or an input is named twice.
        ContractBrokenError: a sample was lost, doubled or changed on the way.
        IncompleteError: stopped half-way; run again to resume.
    """
    _check_apart(inputs, writing.output)
    sources = open_sources(inputs)
    groups = [g for path, source in zip(inputs, sources, strict=True) for g in index(path, source)]
    manifest = _job(sources, options, writing)
    directory = OutputDirectory.open(
        writing.output, manifest, overwrite=writing.overwrite, resume=writing.resume
    )
    tasks = cut_shards(groups, writing.shard_bytes, writing.window_tokens)
    work = partial(fill_shard, options, sources[0], directory)
    reports: list[dict[str, Any]] = []
    for report in engine.run(work, tasks, workers=writing.workers):
        reports.append(report)
        writing.progress(len(reports), len(tasks))
    _check_conserved(sources, reports)
    summary = _summarise(options, reports, writing.output)
    _finish(directory, manifest, summary, reports)
    return summary


def _check_apart(inputs: list[Path], output: Path) -> None:
    """Refuse to overwrite what is read, and to pack a sample twice.

    Raises:
        UsageError: two of the folders are the same.
    """
    folders = [path.resolve() for path in inputs]
    if output.resolve() in folders:
        raise UsageError(f"{output} is an input too; name another folder to write")
    for path, folder in zip(inputs, folders, strict=True):
        if folders.count(folder) > 1:
            raise UsageError(f"{path} is named twice; every sample is packed once")


def _job(sources: list[Manifest], options: PlanOptions, writing: Writing) -> Manifest:
    libraries = {library: metadata.version(library) for library in ("numpy", "pyarrow")}
    return Manifest(
        kind="packed",
        model=sources[0].model,
        versions={"packcli": __version__} | libraries,
        settings=sources[0].settings,
        options=asdict(options)
        | {"shard_bytes": writing.shard_bytes, "window_tokens": writing.window_tokens},
        inputs=[
            {
                "fingerprint": source.fingerprint,
                "digest": source.digest,
                "samples": sum(shard.samples for shard in source.shards),
                "options": source.options,
                "inputs": source.inputs,
            }
            for source in sources
        ],
    )


def _check_conserved(sources: list[Manifest], reports: list[dict[str, Any]]) -> None:
    before = sum(int(source.digest, 16) for source in sources)
    after = sum(int(r["digest"], 16) + int(r["digest_rejected"], 16) for r in reports)
    if spell_total(before) != spell_total(after):
        raise ContractBrokenError(
            "conservation: the samples in the packs are not those of the encoded shards; "
            "run `packcli verify` on the input, then pack again with --overwrite"
        )


def _summarise(options: PlanOptions, reports: list[dict[str, Any]], output: Path) -> PackSummary:
    summary = PackSummary(options.capacity, options.strategy, output=str(output))
    for report in reports:
        summary.packs += report["packs"]
        summary.samples += report["samples"]
        summary.tokens += report["tokens"]
        summary.seconds += report["seconds"]
        summary.rejected += len(report["rejected"])
        summary.reasons.update(line["code"] for line in report["rejected"])
    summary.lower_bound = _bound(options, reports)
    summary.excess = summary.packs - summary.lower_bound
    summary.shards = len(reports)
    if summary.packs:
        summary.fill = summary.tokens / (summary.packs * options.capacity)
        total = sum(report["costs"][0] for report in reports)
        squares = sum(report["costs"][1] for report in reports)
        spread = max(0.0, squares * summary.packs - total * total)
        summary.sum_sq_len_cv = sqrt(spread) / total
    return summary


def _bound(options: PlanOptions, reports: list[dict[str, Any]]) -> int:
    """Bound the packs of the whole dataset, as if it were planned in one window."""
    counts: Counter[int] = Counter()
    for report in reports:
        counts.update(dict(report["lengths"]))
    bounds = [lower_bound(Histogram.of_counts(counts), options.capacity)]
    limits = (options.max_samples, options.max_images, options.max_patches)
    for place, most in enumerate(limits):
        if most is not None:
            bounds.append(-(-sum(report["taken"][place] for report in reports) // most))
    return max(bounds)


def _finish(
    directory: OutputDirectory,
    manifest: Manifest,
    summary: PackSummary,
    reports: list[dict[str, Any]],
) -> None:
    without = {"output", "seconds"}
    done = replace(
        manifest,
        counts={k: v for k, v in summary.to_json().items() if k not in without},
        digest=spell_total(sum(int(report["digest"], 16) for report in reports)),
        shards=tuple(ShardEntry(**report["shard"]) for report in reports),
    )
    rejected = (line for report in reports for line in report["rejected"])
    directory.finish(done, card=packed_card(done), rejected=rejected)
