"""What transformers will do with a batch: which branch its attention takes, and who sees whom.

Matches transformers' `_flash_attention_forward` and `_is_packed_sequence`
(modeling_flash_attention_utils), `_preprocess_mask_arguments` (masking_utils), the text planes
of `Qwen2VLTextModel` and `Qwen3VLTextModel`, and `Qwen3_5GatedDeltaNet` as of 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.batch import compile_boundaries
from packcli.contract.errors import UsageError
from packcli.contract.model import ModelFacts, Rope
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

VARLEN = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
_MATRIX, _PLANES, _WITH_TEXT = 2, 3, 4
_MASKED_BY_POSITION = frozenset({"eager", "sdpa", "flex_attention"})


class Branch(StrEnum):
    """How attention learns which tokens belong together."""

    PADDED = "padded by mask"
    """FlashAttention unpads by the 2-D mask and looks at no boundary."""
    KWARGS = "varlen by kwargs"
    """FlashAttention takes the four varlen arguments."""
    POSITIONS = "varlen by position_ids"
    """FlashAttention cuts where the text plane is at its minimum."""
    PACKED_MASK = "packed mask from position_ids"
    """sdpa and eager build a block mask where the text plane does not step by one."""
    DENSE = "dense"
    """Every token sees all before it."""


@dataclass(frozen=True, slots=True, eq=False)
class BridgeReport:
    """What will happen to a batch.

    Attributes:
        branch: of the attention layers.
        why: in one line.
        attention: (B' + 1,) int32, tokens, the boundaries that attention keeps.
        state: as `attention`, of the recurrent state; None without linear attention.
        conv: as `attention`, of the causal convolution; None without linear attention.
        refusal: why the model will raise instead; None where it runs.
        positions_right: whether rotary positions are those of the samples run alone.
        vision_right: whether the vision tower cuts its patches itself.
        warnings: what in the batch is ignored, misread or missing, one line each.
    """

    branch: Branch
    why: str
    attention: NDArray[np.int32]
    state: NDArray[np.int32] | None
    conv: NDArray[np.int32] | None
    refusal: str | None
    positions_right: bool
    vision_right: bool
    warnings: tuple[str, ...] = ()

    def apart(self, samples: ArrayLike) -> bool:
        """Whether no sample sees another, in any layer.

        Args:
            samples: (B + 1,) integers, tokens: the boundaries that should hold.
        """
        kept = [part for part in (self.attention, self.state, self.conv) if part is not None]
        return all(np.array_equal(part, np.asarray(samples)) for part in kept)


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch as the checker reads it."""

    facts: ModelFacts
    arrays: dict[str, NDArray[Any]]
    flash: bool
    cached: bool
    tokens: int = 0
    warnings: list[str] = field(default_factory=list[str])

    @property
    def whole(self) -> NDArray[np.int32]:
        return np.array([0, self.tokens], dtype=np.int32)

    @property
    def held(self) -> list[str]:
        return [name for name in VARLEN if name in self.arrays]

    @property
    def media(self) -> bool:
        return any(name in self.arrays for name in ("image_grid_thw", "video_grid_thw"))

    @property
    def mask(self) -> NDArray[Any] | None:
        """The attention mask; FlashAttention never sees one that holds only ones."""
        mask = self.arrays.get("attention_mask")
        return None if mask is None or (self.flash and mask.astype(bool).all()) else mask

    def text_plane(self) -> NDArray[np.int64] | None:
        """Return the positions that attention is shown, (T,)."""
        positions = self.arrays.get("position_ids")
        if positions is None:
            return None
        if positions.ndim == _PLANES:
            return positions[0].reshape(-1) if positions.shape[0] == _WITH_TEXT else None
        dropped = self.facts.rope in {Rope.GRID, Rope.TIMED}
        return None if dropped else positions.reshape(-1)


def check_bridge(
    batch: Mapping[str, Any],
    implementation: str,
    facts: ModelFacts,
    *,
    use_cache: bool | None = None,
    linear_kernels: bool = True,
) -> BridgeReport:
    """Say what transformers will do with a batch of one row.

    Args:
        batch: arguments of the model, NumPy arrays or tensors.
        implementation: ``eager``, ``sdpa``, ``flash_attention_2`` and the like.
        facts: the model, as in a dataset's manifest.
        use_cache: as the model is called; None takes the batch's word, else False, which is
            what the HF Trainer sets.
        linear_kernels: flash-linear-attention and causal-conv1d are installed.

    Raises:
        UsageError: an implementation that is not known, more than one row, or no tokens.
    """
    flash = implementation.startswith("flash_attention")
    if not flash and implementation not in _MASKED_BY_POSITION:
        raise UsageError(f"{implementation!r} is not known; eager, sdpa or flash_attention_2")
    arrays = {name: _array(part) for name, part in batch.items() if part is not None}
    cached = bool(batch.get("use_cache", False)) if use_cache is None else use_cache
    read = _Batch(facts, arrays, flash, cached)
    ids = arrays.get("input_ids", arrays.get("inputs_embeds"))
    if ids is None or ids.ndim < _MATRIX or ids.shape[0] != 1 or not ids.shape[1]:
        raise UsageError("a batch of one row is needed: input_ids of shape (1, T)")
    read.tokens = int(ids.shape[1])
    branch, why, kept = _flash(read) if flash else _masked(read)
    read.warnings += _warnings(read, branch)
    state, conv = _linear(read)
    return BridgeReport(
        branch,
        why,
        kept,
        state,
        conv,
        _refusal(read, implementation, linear_kernels=linear_kernels),
        _positions_right(read),
        not (read.media and "cu_seqlens" in arrays),
        tuple(read.warnings),
    )


def _array(part: Any) -> NDArray[Any]:  # noqa: ANN401 - an array, a tensor or a number
    return part.detach().cpu().numpy() if hasattr(part, "detach") else np.asarray(part)


def _flash(batch: _Batch) -> tuple[Branch, str, NDArray[np.int32]]:
    if batch.mask is not None:
        return Branch.PADDED, "the mask has zeros: varlen arguments are ignored", batch.whole
    if len(batch.held) == len(VARLEN):
        cuts = batch.arrays["cu_seq_lens_q"].reshape(-1).astype(np.int32)
        return Branch.KWARGS, "all four varlen arguments are there", cuts
    plane = batch.text_plane()
    if plane is None or _steps_by_one(plane):
        return Branch.DENSE, _why_no_plane(batch, plane), batch.whole
    return Branch.POSITIONS, "the text plane restarts", compile_boundaries(plane, "minimum")


def _masked(batch: _Batch) -> tuple[Branch, str, NDArray[np.int32]]:
    if batch.mask is not None:
        return Branch.DENSE, "with an attention_mask positions are not looked at", batch.whole
    if batch.cached:
        return Branch.DENSE, "with a cache positions are not looked at", batch.whole
    plane = batch.text_plane()
    if plane is None or _steps_by_one(plane):
        return Branch.DENSE, _why_no_plane(batch, plane), batch.whole
    starts = np.flatnonzero(np.diff(plane) != 1) + 1
    cuts = np.concatenate([[0], starts, [plane.size]]).astype(np.int32)
    return Branch.PACKED_MASK, "the text plane restarts", cuts


def _steps_by_one(plane: NDArray[np.int64]) -> bool:
    return bool((np.diff(plane) == 1).all())


def _why_no_plane(batch: _Batch, plane: NDArray[np.int64] | None) -> str:
    if plane is not None:
        return "the text plane never restarts"
    if "position_ids" not in batch.arrays:
        return "no position_ids: the model counts through"
    return "position_ids hold no text plane that this model shows to attention"


def _linear(batch: _Batch) -> tuple[NDArray[np.int32] | None, NDArray[np.int32] | None]:
    """Return what the recurrent state and the convolution are told."""
    if not batch.facts.linear_attention:
        return None, None
    state, conv = batch.whole, batch.whole
    if "cu_seq_lens_q" in batch.arrays:
        state = batch.arrays["cu_seq_lens_q"].reshape(-1).astype(np.int32)
    else:
        batch.warnings.append("no cu_seq_lens_q: the recurrent state runs on over samples")
    if "seq_idx" in batch.arrays:
        changes = np.flatnonzero(np.diff(batch.arrays["seq_idx"].reshape(-1))) + 1
        conv = np.concatenate([[0], changes, [batch.tokens]]).astype(np.int32)
    else:
        batch.warnings.append("no seq_idx: the convolution reads the sample before")
    return state, conv


def _refusal(batch: _Batch, implementation: str, *, linear_kernels: bool) -> str | None:
    told = "cu_seq_lens_q" in batch.arrays or "seq_idx" in batch.arrays
    if batch.facts.linear_attention and told and not linear_kernels:
        return "linear attention needs flash-linear-attention and causal-conv1d for boundaries"
    if implementation == "flex_attention" and batch.facts.has_mrope:
        return "the model does not support flex_attention"
    bare = "position_ids" not in batch.arrays and "mm_token_type_ids" not in batch.arrays
    if batch.media and bare and batch.facts.rope in {Rope.GRID, Rope.FRAMES}:
        return "media without position_ids need mm_token_type_ids"
    return None


def _positions_right(batch: _Batch) -> bool:
    """Whether media get grid positions; without media all planes count alike."""
    positions = batch.arrays.get("position_ids")
    if not (batch.media and batch.facts.has_mrope):
        # rotary positions are relative: counting through changes nothing where samples are apart
        return True
    if positions is None:
        return "mm_token_type_ids" in batch.arrays
    return positions.ndim == _PLANES


def _warnings(batch: _Batch, branch: Branch) -> Iterator[str]:
    missing = [name for name in VARLEN if name not in batch.held]
    if batch.held and missing:
        yield f"{', '.join(missing)} missing: FlashAttention needs all four, and takes none"
    if batch.held and not batch.flash:
        yield "sdpa and eager ignore cu_seq_lens_*: only the text plane counts"
    if "attention_mask" in batch.arrays:
        yield "an attention_mask: leave it out of packed batches"
    if batch.cached:
        yield "use_cache: call with use_cache=False"
    positions = batch.arrays.get("position_ids")
    if positions is not None and positions.ndim == _PLANES and len(positions) < _WITH_TEXT:
        yield "mRoPE planes without the text plane: put it first, [4, 1, T]"
    if not _positions_right(batch):
        yield "media without mRoPE planes: their positions are those of text"
    if "cu_seqlens" in batch.arrays:
        reaches = "the vision tower takes it for its own" if batch.media else "nothing reads it"
        yield f"cu_seqlens: {reaches}; name it cu_seq_lens_q and cu_seq_lens_k"
    yield from _disagreements(batch, branch)


def _disagreements(batch: _Batch, branch: Branch) -> Iterator[str]:
    """Compare what two carriers of boundaries say."""
    plane = batch.text_plane()
    cuts = batch.arrays.get("cu_seq_lens_q")
    if plane is None or cuts is None:
        return
    starts = np.concatenate([[0], np.flatnonzero(np.diff(plane) != 1) + 1, [plane.size]])
    stated = Offsets(cuts.reshape(-1).astype(np.int32))
    if not np.array_equal(starts, stated.values):
        yield f"cu_seq_lens_q and the text plane differ; {branch} decides"
