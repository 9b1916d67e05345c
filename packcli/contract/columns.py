"""The one table of columns; schemas, join, reader, writer and rules loop over it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packcli.contract.model import ModelFacts


class Axis(StrEnum):
    """What the elements of a column are counted by, in one row (one pack)."""

    PACK = "pack"
    """One value a row."""
    TOKEN = "token"
    """T values, one a token slot."""
    SAMPLE = "sample"
    """B values, one a sample."""
    OFFSET = "offset"
    """B + 1 values, the boundaries of samples."""
    IMAGE = "image"
    """One value an image, in the order in which the slots stand."""
    VIDEO = "video"
    """One value a video, in the order in which the slots stand."""
    MEDIUM = "medium"
    """One value an image or video, in the order in which the slots stand."""
    PADDED = "padded"
    """R + 1 values, the boundaries of the R samples with the padding behind them."""
    WINDOW = "window"
    """One value more than there are windows in the vision tower: their boundaries."""


RAGGED = (Axis.TOKEN, Axis.IMAGE, Axis.VIDEO, Axis.MEDIUM)
"""Axes on which one sample holds any number of elements."""


class Need(StrEnum):
    """Which datasets hold a column."""

    ALWAYS = "always"
    MEDIA = "media"
    MROPE = "mrope"
    SECONDS = "seconds"
    TOKEN_TYPES = "token_types"
    VIT_WINDOWS = "vit_windows"
    LOSS_SCALE = "loss_scale"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column.

    Attributes:
        name: on disk; ``media.uri`` is the field ``uri`` of the struct column ``media``.
        dtype: numpy name of the element, or ``string``, ``digest``, ``list<int32>``,
            ``list<float64>`` for elements that the contract moves without looking inside.
        axis: what its elements are counted by.
        planes: leading dimension in memory: 3 for mRoPE, else 1.
        width: trailing dimension: 3 for grids, else 1.
        need: which datasets hold it.
        derived: computed from the carried columns whenever a row is written.
        shifts: counted from the start of the sample in memory and of the pack on disk.
        meaning: one line for the documentation and the JSON schema.
    """

    name: str
    dtype: str
    axis: Axis
    meaning: str
    planes: int = 1
    width: int = 1
    need: Need = Need.ALWAYS
    derived: bool = False
    shifts: bool = False

    @property
    def element(self) -> str:
        """The numpy name of an element in memory: digests are bytes."""
        return "uint8" if self.dtype == "digest" else self.dtype

    @property
    def opaque(self) -> bool:
        """Whether the contract only moves the elements (text, bytes, lists inside lists)."""
        return self.dtype in {"string", "list<int32>", "list<float64>"}


_T, _S, _P, _M = Axis.TOKEN, Axis.SAMPLE, Axis.PACK, Axis.MEDIUM

COLUMNS: tuple[Column, ...] = (
    Column("input_ids", "int32", _T, "token ids of the model's vocabulary"),
    Column("labels", "int32", _T, "-100 or the token id at its own place, unshifted"),
    Column(
        "loss_scale",
        "float32",
        _T,
        "weight of each label, unshifted: 0 where nothing is learnt, usually 1",
        need=Need.LOSS_SCALE,
    ),
    Column("position_ids", "int32", _T, "text plane: 0, 1, 2, … in every sample", derived=True),
    Column(
        "mrope_position_ids",
        "int32",
        _T,
        "temporal, height and width planes, per sample from 0",
        planes=3,
        need=Need.MROPE,
        derived=True,
    ),
    Column(
        "mm_token_type_ids",
        "int8",
        _T,
        "0 text, 1 image slot, 2 video slot",
        need=Need.MEDIA,
        derived=True,
    ),
    Column(
        "token_type_ids",
        "int8",
        _T,
        "mm_token_type_ids under the name that the model asks for",
        need=Need.TOKEN_TYPES,
        derived=True,
    ),
    Column("seq_lengths", "int32", _S, "tokens of each sample", derived=True),
    Column("cu_seqlens", "int32", Axis.OFFSET, "boundaries: 0, …, T", derived=True),
    Column(
        "cu_seqlens_padded",
        "int32",
        Axis.PADDED,
        "boundaries of samples with the padding behind them: 0, …, T",
        need=Need.PADDING,
        derived=True,
    ),
    Column("seq_start_id", "int32", _S, "cu_seqlens without its last value", derived=True),
    Column("loss_mask", "int8", _T, "labels[i + 1] != -100 inside the sample", derived=True),
    Column("length", "int32", _P, "T, tokens of the pack", derived=True),
    Column("max_seqlen", "int32", _P, "tokens of the longest sample", derived=True),
    Column("num_samples", "int32", _P, "samples in the pack, padding left out", derived=True),
    Column("num_supervised", "int32", _P, "labels that are not -100", derived=True),
    Column("sum_sq_len", "int64", _P, "sum of squared lengths: attention cost", derived=True),
    Column("num_patches", "int64", _P, "ViT patches: vision cost", need=Need.MEDIA, derived=True),
    Column(
        "image_grid_thw",
        "int32",
        Axis.IMAGE,
        "patches of each image: t, h, w",
        width=3,
        need=Need.MEDIA,
    ),
    Column(
        "video_grid_thw",
        "int32",
        Axis.VIDEO,
        "patches of each video: t, h, w",
        width=3,
        need=Need.MEDIA,
    ),
    Column(
        "second_per_grid_ts",
        "float32",
        Axis.VIDEO,
        "seconds between temporal patches",
        need=Need.SECONDS,
    ),
    Column(
        "vit_cu_seqlens",
        "int32",
        Axis.WINDOW,
        "boundaries of the vision tower's windows, patches",
        need=Need.VIT_WINDOWS,
        derived=True,
    ),
    Column("media.kind", "string", _M, "image or video", need=Need.MEDIA),
    Column("media.uri", "string", _M, "path or data URI as in the record", need=Need.MEDIA),
    Column("media.sample_index", "int32", _M, "sample in the pack", need=Need.MEDIA, derived=True),
    Column(
        "media.token_start", "int32", _M, "first slot in the pack", need=Need.MEDIA, shifts=True
    ),
    Column("media.token_count", "int32", _M, "slots of the medium", need=Need.MEDIA),
    Column("media.height", "int32", _M, "pixels, after EXIF orientation", need=Need.MEDIA),
    Column("media.width", "int32", _M, "pixels, after EXIF orientation", need=Need.MEDIA),
    Column("media.frame_indices", "list<int32>", _M, "frames of a video", need=Need.MEDIA),
    Column(
        "media.timestamps", "list<float64>", _M, "seconds, one a temporal patch", need=Need.MEDIA
    ),
    Column("sample_ids", "string", _S, "the record's id, else file:line"),
    Column("sample_sources", "string", _S, "file:line of the record"),
    Column(
        "sample_digests",
        "digest",
        _S,
        "BLAKE2b-128 over name, token ids, labels, grids and media, hex",
        width=16,
    ),
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

FORBIDDEN: dict[str, str] = {
    "attention_mask": "a 2-D mask makes FlashAttention ignore the boundaries, and sdpa the resets",
    "image": "TRL switches to its vision collator",
    "images": "TRL switches to its vision collator",
    "prompt": "TRL takes the row for a prompt-completion pair",
    "completion": "TRL takes the row for a prompt-completion pair",
    "messages": "trainers render and tokenize the row again",
    "text": "trainers tokenize the row again",
    "pixel_values": "pixels do not belong in rows: a 12 MP image is 275 MB of floats",
}
"""Column names that silently change what a trainer does with the row, and why."""


@lru_cache(maxsize=32)
def columns_for(facts: ModelFacts) -> tuple[Column, ...]:
    """Return the columns of a dataset made for a model, in table order."""
    held = {Need.ALWAYS}
    if facts.has_media:
        held.add(Need.MEDIA)
    if facts.has_mrope:
        held.add(Need.MROPE)
    if facts.rope == "timed":
        held.add(Need.SECONDS)
    if facts.token_type_ids:
        held.add(Need.TOKEN_TYPES)
    if facts.vit_windows is not None:
        held.add(Need.VIT_WINDOWS)
    if facts.loss_scale:
        held.add(Need.LOSS_SCALE)
    if facts.pads_samples:
        held.add(Need.PADDING)
    return tuple(column for column in COLUMNS if column.need in held)
