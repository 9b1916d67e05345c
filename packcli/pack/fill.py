"""Filling: samples move into the packs of their plan, chunk by chunk, shard by shard."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.digests import digest_total, spell_total
from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets
from packcli.contract.padding import rounded
from packcli.pack.options import with_padding
from packcli.pack.overlap import Overlapped
from packcli.pack.padding import padded
from packcli.pack.reading import SampleReader, distinct
from packcli.pack.sources import RowGroup, demands
from packcli.shards.media_store import EMBEDDED, MediaStore, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.pack.options import PlanOptions
    from packcli.pack.reading import Loaded
    from packcli.pack.sources import Index
    from packcli.pack.windows import Chunk
    from packcli.shards.directory import OutputDirectory
    from packcli.shards.manifest import Manifest

BYTES_PER_TOKEN = 3
"""About what a packed token takes on disk, all columns; used to turn shard bytes into tokens."""

WINDOW_TOKENS = 16 * 2**20
"""Tokens that are planned and held in memory at once: ids and labels, 8 bytes each."""

_PORTION = 2**20  # tokens that are gathered, written and forgotten at once


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One shard of the output.

    Attributes:
        number: which shard, from 0.
        count: how many there are.
        chunks: its packs, read and filled a chunk at a time.
        groups: row groups that hold their samples, in order.
    """

    number: int
    count: int
    chunks: list[Chunk]
    groups: list[RowGroup]

    @property
    def name(self) -> str:
        """File name of the shard."""
        return f"train-{self.number:05d}-of-{self.count:05d}.parquet"

    def __str__(self) -> str:
        """Messages call the task by its shard."""
        return self.name


def window_of(shard_bytes: int, window_tokens: int) -> int:
    """Return the tokens of a window, none of which is larger than a shard."""
    return max(1, min(window_tokens, shard_bytes // BYTES_PER_TOKEN))


def cut_shards(
    chunks: list[Chunk], index: Index, shard_bytes: int, window_tokens: int
) -> list[ShardTask]:
    """Put as many chunks into a shard as make its size."""
    each = max(1, shard_bytes // BYTES_PER_TOKEN // window_tokens)
    runs = [chunks[start : start + each] for start in range(0, len(chunks), each)]
    firsts = np.array([group.first for group in index.groups], dtype=np.int64)
    tasks: list[ShardTask] = []
    for number, run in enumerate(runs):
        wanted = np.concatenate([_wanted(chunk) for chunk in run])
        # a group without samples starts where the next one does, which is found instead of it
        places = distinct(np.searchsorted(firsts, wanted, side="right") - 1)
        groups = [index.groups[place] for place in places.tolist()]
        tasks.append(ShardTask(number, len(runs), run, groups))
    return tasks


def _wanted(chunk: Chunk) -> NDArray[np.int64]:
    return distinct(np.concatenate([chunk.order, chunk.left]))


def fill_shard(
    options: PlanOptions, source: Manifest, directory: OutputDirectory, task: ShardTask
) -> dict[str, Any]:
    """Fill one shard, unless that was done before."""
    if (done := directory.part(task.number)) is not None:
        return done
    report, facts = _Report(embeds=EMBEDDED in source.counts), directory.job.model
    reader = SampleReader(source, task.groups)
    wanted = [_wanted(chunk) for chunk in task.chunks] + [np.zeros(0, dtype=np.int64)]
    with (
        directory.shard(task.name, facts) as (writer, entries),
        Overlapped(writer.write) as writing,
    ):
        for place, chunk in enumerate(task.chunks):
            loaded = reader.load(wanted[place], wanted[place + 1])
            report.leave(options, loaded.take(chunk.left))
            for packs in _filled(loaded, chunk, options):
                filled = padded(packs, facts)
                report.add(packs, filled)
                writing.put(filled)
            del loaded
    if report.embedded:
        stores = {group.path.parent.parent: None for group in task.groups}
        MediaStore(directory.path).adopt(sorted(report.embedded), [*map(MediaStore, stores)])
    finished = report.to_json() | {"shard": asdict(entries[0])}
    directory.finish_part(task.number, finished)
    return finished


def _filled(loaded: Loaded, chunk: Chunk, options: PlanOptions) -> Iterator[Packs]:
    """Gather a chunk's packs in portions, straight from where they were read.

    Raises:
        InputError: samples are longer than the index said.
    """
    members = Offsets.from_lengths(chunk.counts)
    lengths = rounded(loaded.lengths(chunk.order), options.pad_sample_multiple)
    ends = np.cumsum(lengths)[members.ends - 1]
    if ends.size and int(np.diff(ends, prepend=0).max()) > options.room:
        source = loaded.take(chunk.order[:1]).columns["sample_sources"][0]
        raise InputError(
            f"{source}: samples are longer than seq_lengths says; run `packcli verify` on the "
            "input, then encode again"
        )
    cuts = np.searchsorted(ends, np.arange(_PORTION, int(ends[-1]) if ends.size else 0, _PORTION))
    bounds = np.unique(np.concatenate([[0], cuts + 1, [len(members)]])).tolist()
    for start, stop in itertools.pairwise(bounds):
        inside = members.span(start, stop)
        first = int(members.values[start])
        yield loaded.take(chunk.order[first : first + inside.total]).grouped(inside)


class _Report:
    """What one shard packed and left out."""

    def __init__(self, *, embeds: bool) -> None:
        self._embeds = embeds
        self._rejected: list[dict[str, Any]] = []
        self._packs = self._samples = self._tokens = self._packed = self._left = 0
        self._padding = 0
        self.embedded: set[str] = set()

    def add(self, packs: Packs, filled: Packs) -> None:
        if self._embeds and "media.uri" in packs.columns:
            self.embedded |= {*names_in(packs.columns["media.uri"])}
        self._padding += filled.tokens.total - packs.tokens.total
        self._packs += len(packs)
        self._samples += packs.members.total
        self._tokens += packs.tokens.total
        self._packed += digest_total(packs.columns["sample_digests"])

    def leave(self, options: PlanOptions, samples: Packs) -> None:
        self._left += digest_total(samples.columns["sample_digests"])
        self._rejected += _rejected(samples, options)

    def to_json(self) -> dict[str, Any]:
        return {
            "packs": self._packs,
            "samples": self._samples,
            "tokens": self._tokens,
            "padding": self._padding,
            "rejected": self._rejected,
            "embedded": sorted(self.embedded),
            "digest": spell_total(self._packed),
            "digest_rejected": spell_total(self._left),
        }


def _rejected(samples: Packs, options: PlanOptions) -> list[dict[str, Any]]:
    """Say of samples that fit into no pack what they need, and what there is."""
    need, options = with_padding(demands(samples), options)
    tokens = "tokens, capacity" if options.unit == 1 else "tokens with padding, a pack holds"
    budgets = (
        (need.lengths, options.capacity, tokens),
        (need.images, options.max_images, "images, --max-images"),
        (need.patches, options.max_patches, "patches, --max-patches"),
    )
    names = (samples.columns[name].tolist() for name in ("sample_ids", "sample_sources"))
    digests = [digest.tobytes().hex() for digest in samples.columns["sample_digests"]]
    lines: list[dict[str, Any]] = []
    for number, (name, source) in enumerate(zip(*names, strict=True)):
        over = [
            f"{int(each[number])} {what} {most}"
            for each, most, what in budgets
            if each is not None and most is not None and each[number] > most
        ]
        file, _, line = str(source).rpartition(":")
        why = "; ".join(over) or "no tokens"
        lines.append(
            {
                "file": file,
                "line": int(line) if line.isdigit() else None,
                "id": str(name),
                "code": "over_pack_length" if need.lengths[number] else "zero_length",
                "message": f"{source}: {why}; raise the limit, or cut the record in parts",
                "digest": digests[number],
            }
        )
    return lines
