"""Derived columns: what a row repeats in the words of some trainer, computed at writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.model import VitWindows
from packcli.contract.mrope import mrope_planes
from packcli.contract.packs import IGNORED
from packcli.contract.padding import padding_of
from packcli.contract.slot_runs import slot_runs
from packcli.contract.vit import window_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.contract.slot_runs import SlotRuns


def sum_per_pack(packs: Packs, values: NDArray[Any], axis: Axis) -> NDArray[np.int64]:
    """Add up one value per element over each pack.

    Args:
        packs: P packs.
        values: (N,) numbers, one an element on the axis.
        axis: what the values are counted by.

    Returns:
        (P,) int64.
    """
    inner = packs.members if axis is Axis.SAMPLE else packs.members.through(packs.axes[axis])
    held = inner.lengths > 0
    if held.all() and len(inner):
        return np.add.reduceat(values, inner.starts, dtype=np.int64)
    sums = np.zeros(len(inner), dtype=np.int64)
    if held.any():  # a sum runs to the next start, so segments without elements are left out
        sums[held] = np.add.reduceat(values, inner.starts[held], dtype=np.int64)
    return sums


def sample_starts(packs: Packs) -> NDArray[np.int32]:
    """(S,) int32, the first token of each sample, counted from the start of its pack."""
    first = packs.tokens.starts
    return first - np.repeat(first[packs.members.starts], packs.members.lengths)


def _cu_seqlens(packs: Packs) -> NDArray[np.int32]:
    ends = sample_starts(packs) + packs.tokens.lengths
    places = np.arange(packs.members.total) + packs.members.segment_ids() + 1
    values = np.zeros(packs.members.total + len(packs), dtype=np.int32)
    values[places] = ends
    return values


def _num_samples(packs: Packs) -> NDArray[np.int32]:
    return sum_per_pack(packs, ~padding_of(packs), Axis.SAMPLE).astype(np.int32)


def padded_rows(packs: Packs) -> NDArray[np.int32]:
    """(P + 1,) int32, where each pack's boundaries of padded samples start."""
    rows = np.zeros(len(packs) + 1, dtype=np.int32)
    np.cumsum(_num_samples(packs) + 1, out=rows[1:])
    return rows


def _cu_seqlens_padded(packs: Packs) -> NDArray[np.int32]:
    """Where samples start, whatever stands behind them, and the pack's end.

    Matches `cu_seqlens_q_padded` of Megatron's `PackedSeqParams`: padding at the tail of a pack
    belongs to its last sample.
    """
    rows = padded_rows(packs)
    values = np.zeros(int(rows[-1]), dtype=np.int32)
    last = np.zeros(values.size, dtype=bool)
    last[rows[1:] - 1] = True
    values[last] = packs.pack_tokens.lengths
    values[~last] = sample_starts(packs)[~padding_of(packs)]
    return values


def loss_mask(packs: Packs) -> NDArray[np.int8]:
    """(N,) int8, 1 where the next token of the same sample is supervised.

    Matches Megatron-Bridge's packed SFT Parquet, which shifts tokens but not this mask.
    """
    supervised = packs.columns["labels"] != IGNORED
    mask = np.zeros(supervised.size, dtype=np.int8)
    mask[:-1] = supervised[1:]
    mask[packs.tokens.ends - 1] = 0
    return mask


def mrope_of(packs: Packs, slots: Mapping[str, SlotRuns]) -> NDArray[np.int32]:
    """Compute the mRoPE planes of every sample from its slots and grids.

    Returns:
        (3, N) int32, each sample from 0.
    """
    grids = (packs.columns["image_grid_thw"], packs.columns["video_grid_thw"])
    seconds = packs.columns.get("second_per_grid_ts")
    return mrope_planes(slots, packs.tokens, grids, packs.facts, seconds)


def _mrope(packs: Packs) -> NDArray[np.int32]:
    return mrope_of(packs, slot_runs(packs.columns["input_ids"], packs.facts))


def mm_token_types(packs: Packs) -> NDArray[np.int8]:
    """(N,) int8, 1 at image slots, 2 at video slots, else 0."""
    ids = packs.columns["input_ids"]
    types = np.zeros(ids.size, dtype=np.int8)
    for kind, token in packs.facts.slot_tokens.items():
        types[ids == token] = 1 if kind == "image" else 2
    return types


def _max_seqlen(packs: Packs) -> NDArray[np.int32]:
    if not len(packs):
        return np.zeros(0, dtype=np.int32)
    return np.maximum.reduceat(packs.tokens.lengths, packs.members.starts).astype(np.int32)


def _num_supervised(packs: Packs) -> NDArray[np.int32]:
    supervised = packs.columns["labels"] != IGNORED
    return sum_per_pack(packs, supervised, Axis.TOKEN).astype(np.int32)


def _sum_sq_len(packs: Packs) -> NDArray[np.int64]:
    return sum_per_pack(packs, packs.tokens.lengths.astype(np.int64) ** 2, Axis.SAMPLE)


def _num_patches(packs: Packs) -> NDArray[np.int64]:
    patches = {
        axis: packs.columns[name].astype(np.int64).prod(axis=1)
        for axis, name in ((Axis.IMAGE, "image_grid_thw"), (Axis.VIDEO, "video_grid_thw"))
    }
    return sum(
        (sum_per_pack(packs, values, axis) for axis, values in patches.items()),
        start=np.zeros(len(packs), dtype=np.int64),
    )


def _sample_index(packs: Packs) -> NDArray[np.int32]:
    samples = np.arange(packs.members.total, dtype=np.int32)
    in_pack = samples - np.repeat(packs.members.starts, packs.members.lengths)
    return np.repeat(in_pack, packs.axes[Axis.MEDIUM].lengths)


def window_rows(packs: Packs) -> NDArray[np.int32]:
    """(P + 1,) int32, where each pack's boundaries of vision windows start."""
    counts, _ = _windows(packs)
    rows = np.zeros(len(packs) + 1, dtype=np.int32)
    np.cumsum(sum_per_pack(packs, counts, Axis.IMAGE) + 1, out=rows[1:])
    return rows


def _vit_cu_seqlens(packs: Packs) -> NDArray[np.int32]:
    _, sizes = _windows(packs)
    rows = window_rows(packs)
    pack = np.repeat(np.arange(len(packs)), np.diff(rows))
    patches = np.concatenate([[0], np.cumsum(sizes)])
    # every pack holds one boundary more than windows, so place i of pack p ends window i - p
    ends = patches[np.arange(pack.size) - pack]
    return (ends - ends[rows[:-1]][pack]).astype(np.int32)


def _windows(packs: Packs) -> tuple[NDArray[np.int64], ...]:
    reading = packs.facts.vit_windows or VitWindows.FRAMES
    return window_sizes(packs.columns["image_grid_thw"], reading)


DERIVED: dict[str, Callable[[Packs], NDArray[Any]]] = {
    "position_ids": lambda packs: packs.tokens.restarting(),
    "mrope_position_ids": _mrope,
    "mm_token_type_ids": mm_token_types,
    "seq_lengths": lambda packs: packs.tokens.lengths,
    "cu_seqlens": _cu_seqlens,
    "cu_seqlens_padded": _cu_seqlens_padded,
    "seq_start_id": sample_starts,
    "loss_mask": loss_mask,
    "length": lambda packs: packs.pack_tokens.lengths,
    "max_seqlen": _max_seqlen,
    "num_samples": _num_samples,
    "num_supervised": _num_supervised,
    "sum_sq_len": _sum_sq_len,
    "num_patches": _num_patches,
    "token_type_ids": mm_token_types,
    "vit_cu_seqlens": _vit_cu_seqlens,
    "media.sample_index": _sample_index,
}
"""How each derived column follows from the carried ones; the values are flat over all packs."""


def medium_shift(packs: Packs) -> NDArray[np.int32]:
    """(M,) int32, what a medium's place in its sample lacks to be its place in the pack."""
    return np.repeat(sample_starts(packs), packs.axes[Axis.MEDIUM].lengths)
