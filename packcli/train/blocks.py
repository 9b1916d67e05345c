"""Masks for models whose images attend to themselves in both directions (Gemma 3 and 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packcli.train.row import Pack

_SLIDING = "sliding_attention"
_IMPLEMENTATIONS = ("sdpa", "eager")


def masks_needed(packs: list[Pack], config: Any) -> bool:  # noqa: ANN401 - a transformers class
    """Tell whether the model's own masks would be wrong for a row.

    transformers 5 looks the images of a packed row up by positions that restart in every sample
    (masking_utils: `remap_positions_for_packed_sequence` over the `or_mask_function` of
    `create_masks_for_vision_model`), so in layers with a window later samples get the blocks of
    the first: their text would see what it is to predict.
    """
    alone = sum(len(pack.samples) for pack in packs) == 1
    if alone or not any(pack.media for pack in packs):
        return False
    if config is None:
        return True
    text = config.get_text_config()
    causal = _gemma4(text) and text.use_bidirectional_attention != "vision"
    return not causal and _SLIDING in (getattr(text, "layer_types", None) or [])


def block_masks(batch: Mapping[str, Any], types: torch.Tensor, config: Any) -> dict[str, Any]:  # noqa: ANN401 - a transformers class
    """Return the masks of all layers, ready made.

    Matches transformers' `create_masks_for_vision_model` of models/gemma3, where images attend in
    both directions in all layers, and of models/gemma4, where they do in those with a window only.

    Args:
        batch: a row, with ``seq_idx``.
        types: (1, T) int64, 0 where no slot is.
        config: of the model; tells the window and how attention is computed.

    Returns:
        ``attention_mask``: for each kind of layer (1, 1, T, T), bool for sdpa, 0 and the least
        float32 for eager.

    Raises:
        InputError: no config, or attention that takes no such masks.
    """
    if config is None:
        raise InputError(
            "transformers 5 gives wrong masks to packed images of this family in layers with a "
            "window: give PackCollator(config=model.config), which makes the right ones"
        )
    kind = getattr(config, "_attn_implementation", None) or "sdpa"
    if kind not in _IMPLEMENTATIONS:
        raise InputError(
            f"attention {kind!r} takes no masks of images; load the model with "
            f"attn_implementation {' or '.join(_IMPLEMENTATIONS)}"
        )
    sample, slot = batch["seq_idx"][0], types[0] > 0
    place = torch.arange(sample.numel())
    before = torch.cat([slot.new_zeros(1), slot[:-1]])
    block = torch.where(slot, torch.cumsum(slot & ~before, 0), 0)
    query, key = place[:, None], place[None]
    same_sample = sample[:, None] == sample[None]
    causal = (key <= query) & same_sample
    same_block = (block[:, None] == block[None]) & slot[None]
    both_ways = causal | (same_block & same_sample)
    text = config.get_text_config()
    near = both_ways & (key > query - int(text.sliding_window))
    masks = {"full_attention": causal if _gemma4(text) else both_ways, _SLIDING: near}
    if kind == "eager":
        least = torch.finfo(torch.float32).min
        masks = {n: torch.zeros(m.shape).masked_fill(~m, least) for n, m in masks.items()}
    return {"attention_mask": {name: mask[None, None] for name, mask in masks.items()}}


def _gemma4(text: Any) -> bool:  # noqa: ANN401 - a transformers class
    return getattr(text, "model_type", "") == "gemma4_text"
