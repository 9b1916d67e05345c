"""Samples: what one record becomes, and how a batch of them becomes packs of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.digests import sample_digests
from packcli.contract.offsets import Offsets
from packcli.contract.packs import IGNORED, Packs, boxed
from packcli.contract.rules.slots import media_spans
from packcli.contract.slot_runs import slot_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import Grid, ModelFacts
    from packcli.encode.records.conversation import Kind


@dataclass(frozen=True, slots=True)
class Medium:
    """One image or video of a sample.

    Attributes:
        kind: what it is.
        uri: as the record names it; a frame list is a JSON array, embedded bytes their sha256.
        height: pixels, upright.
        width: pixels, upright.
        grid: patches: t, h, w.
        second_per_grid: seconds between temporal patches, None where positions do not need it.
        frame_indices: frames of a video that the model sees.
        timestamps: seconds, one a temporal patch of a video.
    """

    kind: Kind
    uri: str
    height: int
    width: int
    grid: Grid
    second_per_grid: float | None = None
    frame_indices: tuple[int, ...] = ()
    timestamps: tuple[float, ...] = ()


@dataclass(slots=True, eq=False)
class Sample:
    """One encoded record.

    Attributes:
        id: the record's own, else file:line.
        source: file:line.
        input_ids: (T,) int32.
        labels: (T,) int32.
        media: in the order of their slots.
        loss_scale: (T,) float32, weight of each label; None where all are 1.
    """

    id: str
    source: str
    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    media: tuple[Medium, ...] = ()
    loss_scale: NDArray[np.float32] | None = None


def packs_of_one(samples: Sequence[Sample], facts: ModelFacts) -> Packs:
    """Lay samples out column by column, places of media and digests computed."""
    axes = {Axis.TOKEN: Offsets.from_lengths([len(sample.input_ids) for sample in samples])}
    columns: dict[str, NDArray[Any]] = {
        "input_ids": _flat([sample.input_ids for sample in samples]),
        "labels": _flat([sample.labels for sample in samples]),
        "sample_ids": boxed([sample.id for sample in samples]),
        "sample_sources": boxed([sample.source for sample in samples]),
        "sample_digests": np.zeros((len(samples), 16), np.uint8),
    }
    if facts.loss_scale:
        columns["loss_scale"] = _weights(samples, columns["labels"])
    if facts.has_media:
        axes |= _media_axes(samples)
        columns |= _media_columns(samples, facts)
    packs = Packs(facts, Offsets.unit(len(samples)), axes, columns)
    if facts.has_media:
        _place_media(packs)
    columns["sample_digests"][:] = sample_digests(packs)
    return packs


def _flat(arrays: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


def _weights(samples: Sequence[Sample], labels: NDArray[np.int32]) -> NDArray[np.float32]:
    weights = np.ones(len(labels), np.float32)
    place = 0
    for sample in samples:
        end = place + len(sample.labels)
        if sample.loss_scale is not None:
            weights[place:end] = sample.loss_scale
        place = end
    weights[labels == IGNORED] = 0
    return weights


def _media_axes(samples: Sequence[Sample]) -> dict[Axis, Offsets]:
    counts = {
        Axis.IMAGE: [sum(m.kind == "image" for m in sample.media) for sample in samples],
        Axis.VIDEO: [sum(m.kind == "video" for m in sample.media) for sample in samples],
        Axis.MEDIUM: [len(sample.media) for sample in samples],
    }
    return {axis: Offsets.from_lengths(lengths) for axis, lengths in counts.items()}


def _media_columns(samples: Sequence[Sample], facts: ModelFacts) -> dict[str, NDArray[Any]]:
    media = [medium for sample in samples for medium in sample.media]
    videos = [medium for medium in media if medium.kind == "video"]
    columns: dict[str, NDArray[Any]] = {
        "image_grid_thw": _grids([medium for medium in media if medium.kind == "image"]),
        "video_grid_thw": _grids(videos),
        "media.kind": boxed([medium.kind for medium in media]),
        "media.uri": boxed([medium.uri for medium in media]),
        "media.token_start": np.zeros(len(media), np.int32),
        "media.token_count": np.zeros(len(media), np.int32),
        "media.height": np.array([medium.height for medium in media], np.int32),
        "media.width": np.array([medium.width for medium in media], np.int32),
        "media.frame_indices": boxed([medium.frame_indices for medium in media]),
        "media.timestamps": boxed([medium.timestamps for medium in media]),
    }
    if facts.rope == "timed":
        seconds = [medium.second_per_grid or 1.0 for medium in videos]
        columns["second_per_grid_ts"] = np.array(seconds, np.float32)
    return columns


def _grids(media: list[Medium]) -> NDArray[np.int32]:
    return np.array([medium.grid for medium in media], np.int32).reshape(-1, 3)


def _place_media(packs: Packs) -> None:
    slots = slot_runs(packs.columns["input_ids"], packs.facts)
    start, count = media_spans(packs, slots)
    first = np.repeat(packs.tokens.starts, packs.axes[Axis.MEDIUM].lengths)
    packs.columns["media.token_start"][:] = start - first
    packs.columns["media.token_count"][:] = count
