"""Qwen-VL's own fine-tuning: JSON with one list of records for each pack (`--data_packing`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packcli.export.dialogues import Dialogue, dialogue_of
from packcli.export.media_roots import MediaRoots
from packcli.export.records import Records
from packcli.export.refusals import Refused, UnfitError
from packcli.shards.media_files import in_file, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "QwenLM/Qwen3-VL qwen-vl-finetune, packed JSON: a list of records for each pack"
CARRIED = ("records", "paths of images and videos", "grouping and order")
LOST = (
    "tokens and labels: it renders and tokenizes again, and learns every answer",
    "frames and limits of pixels: its own flags decide",
    "system turns, tools, thinking, turns without loss: samples that hold them are refused",
    "fps, max_pixels, … of a record, and lists of frames: such samples are refused",
    "several answers encoded with --supervise last: such samples are refused",
)

_FROM = {"user": "human", "assistant": "gpt"}


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._records = Records(job.options.records, job.manifest)
        self._roots = MediaRoots(job.options.media_root, job.manifest)
        self._longest = 0
        self._file = (folder / "packed.json").open("w", encoding="utf-8", newline="\n")
        self._before = "[\n"

    def write(self, packs: Packs) -> Refused:
        refused: Refused = {}
        for members in packs.members.slices():
            items: list[dict[str, Any]] = []
            for sample in range(members.start, members.stop):
                try:
                    items.append(self._item(packs, sample))
                except UnfitError as error:
                    refused[sample] = error.reason
            if items:
                self._file.write(self._before + json.dumps(items, ensure_ascii=False))
                self._before = ",\n"
                self._longest = max(self._longest, sum(item["num_tokens"] for item in items))
        return refused

    def _item(self, packs: Packs, sample: int) -> dict[str, Any]:
        name, source = (str(packs.columns[f"sample_{n}"][sample]) for n in ("ids", "sources"))
        dialogue = dialogue_of(packs, sample, self._records.find(source, name))
        if dialogue.system:
            raise UnfitError(
                "has a system turn, which this trainer would learn as an answer",
                "move its text into the first user turn and encode again",
            )
        if not all(map(in_file, (*dialogue.images, *dialogue.videos))):
            raise UnfitError(
                "holds a medium that is no file, and this trainer joins every path to a folder",
                "write it to a file, name it in the record and encode again",
            )
        for paths in (dialogue.images, dialogue.videos):
            paths[:] = [self._placed(path, source) for path in paths]
        item: dict[str, Any] = {"id": name, "num_tokens": int(packs.tokens.lengths[sample])}
        return item | _media(dialogue) | {"conversations": _turns(dialogue)}

    def _placed(self, path: str, source: str) -> str:
        """Leave paths relative to the one folder that the trainer joins them to."""
        whole = self._roots.placed(path, source)
        return whole if self._roots.one is None else path_of(path)

    def finish(self) -> dict[str, Any]:
        self._file.write("[]\n" if self._before.startswith("[") else "\n]\n")
        self._file.close()
        root = self._roots.one
        unknown = "the folder that paths of media are relative to"
        unset = unknown if self._roots.left_relative else ""
        return {
            "annotation_path": "packed.json",
            "data_path": unset if root is None else str(root),
            "data_packing": True,
            "per_device_train_batch_size": 1,
            "model_max_length": self._longest,
        }


def _media(dialogue: Dialogue) -> dict[str, list[str]]:
    held = {"image": dialogue.images, "video": dialogue.videos}
    return {kind: paths for kind, paths in held.items() if paths}


def _turns(dialogue: Dialogue) -> list[dict[str, str]]:
    return [{"from": _FROM[role], "value": text} for role, text in dialogue.turns]


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
