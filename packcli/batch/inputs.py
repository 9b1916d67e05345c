"""The keyword arguments under which transformers keeps packed samples apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class PackLike(Protocol):
    """What is needed of a pack.

    Attributes:
        input_ids: (T,) integers, token ids.
        labels: (T,) integers, -100 or the token id at its own place.
        samples: B segments over T tokens, none empty.
        mrope_position_ids: (3, T) integers; None in families without mRoPE.
        image_grid_thw: (n, 3) integers, patches.
        video_grid_thw: (m, 3) integers, patches.
    """

    @property
    def input_ids(self) -> NDArray[np.integer]: ...  # noqa: D102 - told above
    @property
    def labels(self) -> NDArray[np.integer]: ...  # noqa: D102 - told above
    @property
    def samples(self) -> Offsets: ...  # noqa: D102 - told above
    @property
    def mrope_position_ids(self) -> NDArray[np.integer] | None: ...  # noqa: D102 - told above
    @property
    def image_grid_thw(self) -> NDArray[np.integer]: ...  # noqa: D102 - told above
    @property
    def video_grid_thw(self) -> NDArray[np.integer]: ...  # noqa: D102 - told above


def model_inputs(packs: Sequence[PackLike]) -> dict[str, Any]:
    """Lay packs out as one row of a batch, with boundaries in every way that a model reads.

    The text plane comes first in `position_ids`: without it, or with an `attention_mask`, no
    attention of transformers sees the boundaries. The names are `cu_seq_lens_*` because a
    `cu_seqlens` would be taken by the vision tower, and `seq_idx` is what the causal
    convolution of linear attention reads. Matches `DataCollatorWithFlattening(
    return_flash_attn_kwargs=True, return_seq_idx=True)` (transformers, data_collator) in
    names and types.

    Args:
        packs: at least one; all of one model.

    Returns:
        ``input_ids``, ``labels`` (1, T) int64; ``position_ids`` (4, 1, T) int64, or (1, T)
        without mRoPE; ``cu_seq_lens_q``, ``cu_seq_lens_k`` (B + 1,) int32, tokens;
        ``max_length_q``, ``max_length_k`` int, tokens; ``seq_idx`` (1, T) int32; where there
        are any, ``image_grid_thw`` (n, 3) and ``video_grid_thw`` (m, 3) int64, patches.

    Raises:
        InputError: some packs have mRoPE positions and some none.
    """
    samples = Offsets.from_lengths(np.concatenate([pack.samples.lengths for pack in packs]))
    longest = int(samples.lengths.max())
    inputs: dict[str, Any] = {
        "input_ids": _row([pack.input_ids for pack in packs]),
        "labels": _row([pack.labels for pack in packs]),
        "position_ids": _positions(packs, samples),
        "cu_seq_lens_q": samples.values,
        "cu_seq_lens_k": samples.values.copy(),
        "max_length_q": longest,
        "max_length_k": longest,
        "seq_idx": samples.segment_ids()[None],
    }
    for name in ("image_grid_thw", "video_grid_thw"):
        grids = np.concatenate([getattr(pack, name).reshape(-1, 3) for pack in packs])
        if grids.size:
            inputs[name] = grids.astype(np.int64)
    return inputs


def _positions(packs: Sequence[PackLike], samples: Offsets) -> NDArray[np.int64]:
    text = samples.restarting()
    held = [pack.mrope_position_ids for pack in packs if pack.mrope_position_ids is not None]
    if not held:
        return text.astype(np.int64)[None]
    if len(held) < len(packs):
        raise InputError("some rows have mrope_position_ids and some none; use one dataset")
    planes = np.empty((4, 1, samples.total), dtype=np.int64)
    planes[0, 0] = text
    np.concatenate(held, axis=1, out=planes[1:, 0])
    return planes


def _row(parts: list[NDArray[np.integer]]) -> NDArray[np.int64]:
    return np.concatenate(parts, dtype=np.int64)[None]
