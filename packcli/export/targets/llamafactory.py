"""LLaMA-Factory: a folder for its `tokenized_path`, with neat packing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packcli.contract.columns import Axis
from packcli.contract.packs import IGNORED
from packcli.export.media_roots import MediaRoots
from packcli.export.refusals import Reason, Refused, UnfitError, weighted, with_video, without
from packcli.export.tables import SavedDataset, lists
from packcli.shards.media_files import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "LLaMA-Factory, tokenized_path with neat_packing: segment ids, packing_params, image paths"
CARRIED = (
    "tokens",
    "labels",
    "boundaries",
    "grouping and order",
    "paths of images, of those too that packcli encode --embed-media stored",
)
LOST = (
    "mRoPE positions: its collator computes them again for each sample",
    "limits of pixels: image_max_pixels and image_min_pixels must let every image pass as it is",
    "videos, and images in records as data URIs: samples that hold them are refused",
)

NO_SAMPLE = 2**32
"""Stands in a list that would be empty: matches `MAX_SU_SEQ_IDX` (data/processor/supervised)."""

_EMBEDDED = Reason(
    "holds an image that is no file, and the target takes paths",
    "write the image to a file, name it in the record and encode again",
)
_PATHS = ("images", "videos", "audios")
_IDS = pa.list_(pa.int64())
_PARAMS = pa.struct(
    [
        ("sequence_boundaries", _IDS),
        ("image_subseq_ids", _IDS),
        ("video_subseq_ids", _IDS),
        ("audio_subseq_ids", _IDS),
        ("right_padding_length", pa.int64()),
    ]
)
_SCHEMA = pa.schema(
    [
        *[
            (name, pa.list_(pa.int32()))
            for name in ("input_ids", "attention_mask", "position_ids", "labels")
        ],
        *[(name, pa.list_(pa.string())) for name in _PATHS],
        ("packing_params", _PARAMS),
    ]
)


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._files = SavedDataset(folder, _SCHEMA, job.options.shard_bytes)
        self._job = job
        self._roots = MediaRoots(job.options.media_root, job.manifest)
        # one more than cutoff_len: LLaMA-Factory pads each row so that its mask is never dropped
        self._width = job.row_tokens + 1

    def write(self, packs: Packs) -> Refused:
        refused = {**weighted(packs), **self._unplaced(packs), **with_video(packs)}
        kept = without(packs, refused)
        if len(kept):
            self._job.check_fits(int(kept.pack_tokens.lengths.max()))
            self._files.write(self._columns(kept))
        return refused

    def _unplaced(self, packs: Packs) -> Refused:
        """Refuse samples whose images are no files, or files in a folder that is not known."""
        refused: Refused = {}
        for sample, uri, source in _images_of(packs):
            if not in_file(uri):
                refused[sample] = _EMBEDDED
                continue
            try:
                self._roots.placed(uri, source)
            except UnfitError as error:
                refused[sample] = error.reason
        return refused

    def _columns(self, packs: Packs) -> dict[str, Any]:
        lengths = packs.pack_tokens.lengths
        inside = np.arange(self._width) < lengths[:, None]
        first = packs.members.starts[packs.members.segment_ids()]
        place = np.arange(packs.members.total) - first + 1
        numbers = np.repeat(place, packs.tokens.lengths)
        bounds = np.arange(len(packs) + 1, dtype=np.int32) * self._width
        values = {
            "input_ids": (packs.columns["input_ids"], self._job.pad_token),
            "attention_mask": (numbers, 0),
            "position_ids": (packs.tokens.restarting(), 0),
            "labels": (packs.columns["labels"], IGNORED),
        }
        columns: dict[str, Any] = {
            name: lists(_filled(inside, *pair), bounds) for name, pair in values.items()
        }
        none = pa.nulls(len(packs), pa.list_(pa.string()))
        images, owners = self._images(packs)
        columns |= {"images": images, "videos": none, "audios": none}
        columns["packing_params"] = [
            self._params(packs, row, owners[row]) for row in range(len(packs))
        ]
        return columns

    def _images(self, packs: Packs) -> tuple[list[list[str] | None], list[list[int]]]:
        """Return paths of images, and the samples in the pack that they stand in."""
        paths: list[list[str] | None] = [None] * len(packs)
        owners: list[list[int]] = [[] for _ in range(len(packs))]
        rows = packs.members.segment_ids().tolist()
        for sample, uri, source in _images_of(packs):
            row = rows[sample]
            paths[row] = [*(paths[row] or []), self._roots.placed(uri, source)]
            owners[row].append(sample - int(packs.members.starts[row]))
        return paths, owners

    def _params(self, packs: Packs, row: int, owners: list[int]) -> dict[str, Any]:
        start, stop = packs.members.values[row : row + 2]
        bounds = packs.tokens.values[start : stop + 1] - packs.tokens.values[start]
        return {
            "sequence_boundaries": [*bounds.tolist(), self._width],
            "image_subseq_ids": owners or [NO_SAMPLE],
            "video_subseq_ids": [NO_SAMPLE],
            "audio_subseq_ids": [NO_SAMPLE],
            "right_padding_length": self._width - int(bounds[-1]),
        }

    def finish(self) -> dict[str, Any]:
        self._files.close()
        told: dict[str, Any] = {
            "cutoff_len": self._width - 1,
            "neat_packing": True,
            "packing": True,
            "per_device_train_batch_size": 1,
        }
        if self._job.manifest.model.has_media:
            told |= {"image_max_pixels": 10**9, "image_min_pixels": 1}
        if self._roots.left_relative:
            told["working directory"] = (
                "the folder that paths of images are relative to (media_dir is not read with "
                "tokenized_path); or export with --media-root"
            )
        return told


def _images_of(packs: Packs) -> Iterator[tuple[int, str, str]]:
    """Yield sample, uri and source of each image."""
    if Axis.MEDIUM in packs.axes:
        samples = packs.axes[Axis.MEDIUM].segment_ids().tolist()
        sources = packs.columns["sample_sources"].tolist()
        for sample, uri in zip(samples, packs.columns["media.uri"].tolist(), strict=True):
            yield sample, str(uri), str(sources[sample])


def _filled(inside: NDArray[np.bool_], values: NDArray[Any], fill: int) -> NDArray[np.int32]:
    full = np.full(inside.shape, fill, dtype=np.int32)
    full[inside] = values
    return full.reshape(-1)


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
