"""ms-swift: a folder for `--cached_dataset`: records, and the lengths that its packing asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packcli.export.dialogues import Dialogue, dialogue_of
from packcli.export.media_roots import MediaRoots
from packcli.export.records import Records
from packcli.export.refusals import Refused, UnfitError
from packcli.export.tables import SavedDataset

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "ms-swift 4, cached_dataset: standard rows and the column lengths"
CARRIED = ("records", "paths of images and videos", "lengths", "order")
LOST = (
    "tokens and labels: it renders and tokenizes again, by its own template",
    "grouping: it packs the lengths itself",
    "frames and limits of pixels: its own environment variables decide",
    "tools, thinking, turns without loss: samples that hold them are refused",
    "fps, max_pixels, … of a record, and lists of frames: such samples are refused",
    "several answers encoded with --supervise last: such samples are refused",
)

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
_SCHEMA = pa.schema(
    [
        ("messages", pa.list_(_MESSAGE)),
        ("images", pa.list_(pa.string())),
        ("videos", pa.list_(pa.string())),
        ("lengths", pa.list_(pa.int64())),
    ]
)


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._records = Records(job.options.records, job.manifest)
        self._roots = MediaRoots(job.options.media_root, job.manifest)
        self._capacity = job.manifest.options.get("capacity")
        self._files = SavedDataset(folder, _SCHEMA, job.options.shard_bytes)

    def write(self, packs: Packs) -> Refused:
        refused: Refused = {}
        rows: list[dict[str, Any]] = []
        lengths = packs.tokens.lengths.tolist()
        for sample, length in enumerate(lengths):
            name, source = (str(packs.columns[f"sample_{n}"][sample]) for n in ("ids", "sources"))
            try:
                dialogue = dialogue_of(packs, sample, self._records.find(source, name))
                rows.append(self._row(dialogue, source) | {"lengths": [length]})
            except UnfitError as error:
                refused[sample] = error.reason
        if rows:
            self._files.write({key: [row[key] for row in rows] for key in _SCHEMA.names})
        return refused

    def _row(self, dialogue: Dialogue, source: str) -> dict[str, Any]:
        return {
            "messages": [{"role": role, "content": text} for role, text in dialogue.turns],
            "images": [self._roots.placed(path, source) for path in dialogue.images],
            "videos": [self._roots.placed(path, source) for path in dialogue.videos],
        }

    def finish(self) -> dict[str, Any]:
        self._files.close()
        told: dict[str, Any] = {"cached_dataset": ".", "packing": True}
        if self._capacity is not None:
            told["packing_length"] = self._capacity
        if self._roots.left_relative:
            told["ROOT_IMAGE_DIR"] = "the folder that paths of media are relative to"
        return told


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
