"""Stage 2: encoded shards become packed shards."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli import __version__, engine
from packcli.contract.digests import spell_total
from packcli.contract.errors import ContractBrokenError, UsageError
from packcli.pack.bound import bound_of
from packcli.pack.fill import WINDOW_TOKENS, cut_shards, fill_shard, window_of
from packcli.pack.material import gathered
from packcli.pack.options import Arrangement, with_padding
from packcli.pack.padding import chosen_padding
from packcli.pack.plan import attention_of, imbalance_of, least_imbalance_of, variation
from packcli.pack.sources import open_sources
from packcli.pack.stored import stored_chunks
from packcli.pack.windows import plan_windows
from packcli.shards.card import packed_card
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest, ShardEntry
from packcli.shards.media_store import EMBEDDED, MediaStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packcli.pack.material import Material
    from packcli.pack.options import PlanOptions
    from packcli.pack.stored import StoredPlan
    from packcli.pack.windows import Chunk


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
        tokens: tokens of samples in packs.
        padding: tokens of padding in packs, beside those.
        lower_bound: packs that no plan can do without.
        excess: packs over the bound.
        fill: tokens of samples over what the packs could hold.
        sum_sq_len_cv: variation of the packs' attention cost.
        ranks: packs in a training step; 1 where nothing is balanced.
        imbalance: time of all steps over that of equal shares; 1.0 is even.
        least_imbalance: what no plan of as many packs can beat; proven of attention alone.
        windows: portions that were planned on their own; 1 is a plan of the whole dataset.
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
    padding: int = 0
    lower_bound: int = 0
    excess: int = 0
    fill: float = 0.0
    sum_sq_len_cv: float = 0.0
    ranks: int = 1
    imbalance: float = 1.0
    least_imbalance: float = 1.0
    windows: int = 0
    shards: int = 0
    seconds: float = 0.0
    output: str = ""

    def add(self, reports: list[dict[str, Any]]) -> None:
        """Add what became of each shard."""
        self.shards = len(reports)
        self.padding = sum(report["padding"] for report in reports)
        self.rejected = sum(len(report["rejected"]) for report in reports)
        self.reasons.update(line["code"] for report in reports for line in report["rejected"])

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


def pack(
    inputs: list[Path],
    options: PlanOptions,
    writing: Writing,
    *,
    epochs: Sequence[float] | None = None,
    stored: StoredPlan | None = None,
) -> PackSummary:
    """Pack every sample of every input.

    Args:
        inputs: encoded (or packed) datasets, made alike.
        options: how to pack.
        writing: where to.
        epochs: (inputs,) how often each is used, parts of an epoch included; the order is then
            shuffled by `options.seed`. None uses each once and in order.
        stored: a plan that `packcli plan -o` wrote, to be filled instead of a new one; `options`
            and `epochs` are then its own.

    Raises:
        InputError: inputs are incomplete or not alike, or the plan was made for others.
        UsageError: the output must not be touched, or an input is named twice.
        ContractBrokenError: a sample was lost, doubled or changed on the way.
        IncompleteError: stopped half-way; run again to resume.
    """
    _check_apart(inputs, writing.output)
    sources = open_sources(inputs)
    material = gathered(inputs, sources, options, epochs=epochs)
    summary, chunks = _planned(material, options, writing, stored)
    manifest = _job(material, options, writing, stored)
    window = window_of(writing.shard_bytes, writing.window_tokens)
    tasks = cut_shards(chunks, material.index, writing.shard_bytes, window)
    opened = OutputDirectory.open(
        writing.output, manifest, overwrite=writing.overwrite, resume=writing.resume
    )
    with closing(opened) as directory:
        fill = partial(fill_shard, options, sources[0], directory)
        reports: list[dict[str, Any]] = []
        for report in engine.run(fill, tasks, workers=writing.workers):
            reports.append(report)
            writing.progress(len(reports), len(tasks))
        _check_conserved(material, reports)
        summary.add(reports)
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
    if any(folder in output.resolve().parents for folder in folders):
        raise UsageError(f"{output} lies inside an input; name another folder to write")
    for path, folder in zip(inputs, folders, strict=True):
        if folders.count(folder) > 1:
            raise UsageError(f"{path} is named twice; name it once, as {path}:EPOCHS for repeats")


def _planned(
    material: Material, options: PlanOptions, writing: Writing, stored: StoredPlan | None
) -> tuple[PackSummary, list[Chunk]]:
    """Plan in windows, or take the packs of a stored plan; and say how good that is."""
    samples = material.index.samples
    window = window_of(writing.shard_bytes, writing.window_tokens)
    if stored is None:
        chunks, seconds = plan_windows(samples, material.uses, options, window)
    else:
        stored.check_made_for(material)
        chunks, seconds = stored_chunks(stored, material, window), 0.0
    order = np.concatenate([np.zeros(0, np.int64), *(chunk.order for chunk in chunks)])
    counts = np.concatenate([np.zeros(0, np.int64), *(chunk.counts for chunk in chunks)])
    placed = samples.take(order)
    bound = bound_of(*with_padding(placed, options))
    plan = Arrangement(np.arange(order.size), counts)
    tokens = int(placed.lengths.sum(dtype=np.int64))
    summary = PackSummary(
        options.capacity,
        options.strategy,
        samples=order.size,
        packs=counts.size,
        tokens=tokens,
        lower_bound=bound,
        excess=counts.size - bound,
        fill=tokens / (counts.size * options.capacity) if counts.size else 0.0,
        sum_sq_len_cv=variation(attention_of(plan, placed)),
        ranks=options.ranks,
        imbalance=imbalance_of(plan, placed, options),
        least_imbalance=least_imbalance_of(plan, placed, options),
        windows=len(chunks) if stored is None else 1,
        seconds=seconds,
        output=str(writing.output),
    )
    return summary, chunks


def _job(
    material: Material, options: PlanOptions, writing: Writing, stored: StoredPlan | None
) -> Manifest:
    source = material.index.manifests[0]
    libraries = {library: metadata.version(library) for library in ("numpy", "pyarrow")}
    more: dict[str, Any] = {
        "shard_bytes": writing.shard_bytes,
        "window_tokens": writing.window_tokens,
    }
    if material.epochs is not None:
        more["epochs"] = list(material.epochs)
    if stored is not None:
        more["plan"] = stored.digest
    return Manifest(
        kind="packed",
        model=replace(source.model, padding=chosen_padding(source, options)),
        versions={"packcli": __version__} | libraries,
        settings=source.settings,
        options=asdict(options) | more,
        inputs=material.told(),
    )


def _check_conserved(material: Material, reports: list[dict[str, Any]]) -> None:
    after = sum(int(r["digest"], 16) + int(r["digest_rejected"], 16) for r in reports)
    if spell_total(sum(material.digests)) != spell_total(after):
        raise ContractBrokenError(
            "conservation: the samples in the packs are not those of the encoded shards; "
            "run `packcli verify` on the input, then pack again with --overwrite"
        )


def _finish(
    directory: OutputDirectory,
    manifest: Manifest,
    summary: PackSummary,
    reports: list[dict[str, Any]],
) -> None:
    without = {"output", "seconds"}
    counts = {k: v for k, v in summary.to_json().items() if k not in without}
    if named := {name for report in reports for name in report["embedded"]}:
        counts[EMBEDDED] = MediaStore(directory.path).settle(named)
    done = replace(
        manifest,
        counts=counts,
        digest=spell_total(sum(int(report["digest"], 16) for report in reports)),
        shards=tuple(ShardEntry(**report["shard"]) for report in reports),
    )
    rejected = (line for report in reports for line in report["rejected"])
    directory.finish(done, card=packed_card(done), rejected=rejected)
