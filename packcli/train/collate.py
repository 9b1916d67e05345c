"""Packs to the keyword arguments of a model's `forward`: one flat row, boundaries beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from packcli.batch import model_inputs
from packcli.contract.errors import InputError
from packcli.train.blocks import block_masks, masks_needed
from packcli.train.layouts import LAYOUTS
from packcli.train.row import Pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.train.media import MediaLoader
_GRIDS = ("image_grid_thw", "video_grid_thw")


def collate(
    rows: Sequence[Pack | Mapping[str, Any]],
    facts: ModelFacts | None = None,
    media: MediaLoader | None = None,
    config: Any = None,  # noqa: ANN401 - a transformers class
) -> dict[str, Any]:
    """Merge packs, or encoded samples, into one flat row.

    There is no ``attention_mask`` but where Gemma's images need masks ready made: with one, sdpa
    ignores the restarts and FlashAttention the boundaries. There is no ``cu_seqlens``: Qwen's
    vision tower would take it for its own. Call the model with ``use_cache=False``; the HF
    Trainer does.

    Args:
        rows: packs, or rows as `datasets` gives them.
        facts: the model; with it, media slots are counted.
        media: opens images and videos; not needed where no row has any.
        config: ``model.config``; needed for Gemma 3 and 4 with images, see `blocks`.

    Returns:
        ``input_ids`` and ``labels`` (1, T) int64; ``position_ids`` (1, T) int64, with mRoPE
        (4, 1, T), text plane first; ``cu_seq_lens_q`` and ``cu_seq_lens_k`` (B + 1,) int32;
        ``max_length_q`` and ``max_length_k`` int; ``seq_idx`` (1, T) int32, the sample of each
        token; with media ``pixel_values``, ``image_grid_thw`` (n, 3) int64,
        ``pixel_values_videos``, ``video_grid_thw`` and, for Qwen2.5-VL, ``second_per_grid_ts``.
        Of datasets with weights also ``loss_scale`` (1, T) float32: models ignore it, so take
        it out and weigh the loss.

    Raises:
        InputError: a row is no pack, or media do not fill their slots, naming the sample.
    """
    packs = [_pack(row) for row in rows]
    facts = facts or (None if media is None else media.facts)
    if not packs:
        raise InputError("no rows to collate")
    batch = {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in model_inputs(packs).items()
    }
    weights = [pack.loss_scale for pack in packs if pack.loss_scale is not None]
    if 0 < len(weights) < len(packs):
        raise InputError("some rows have loss_scale and some none; use one dataset")
    if weights:
        batch["loss_scale"] = torch.from_numpy(np.concatenate(weights))[None]
    if facts is not None:
        for pack in packs:
            _count_slots(pack, facts)
    return _beside(batch, packs, facts, config) | _pixels(packs, media)


@dataclass(frozen=True, slots=True)
class PackCollator:
    """`collate` for a dataset; picklable, so DataLoader workers can carry it.

    Attributes:
        facts: the model, ``dataset.facts``.
        media: opens images and videos.
        config: ``model.config``; needed for Gemma 3 and 4 with images.
    """

    facts: ModelFacts | None = None
    media: MediaLoader | None = None
    config: Any = None

    def __call__(self, rows: Sequence[Pack | Mapping[str, Any]]) -> dict[str, Any]:
        """Merge rows into one; see `collate`."""
        return collate(rows, self.facts, self.media, self.config)


def _pack(row: Pack | Mapping[str, Any]) -> Pack:
    if isinstance(row, Pack):
        return row
    if not hasattr(row, "keys"):
        raise InputError(
            f"{type(row).__name__} is no row; PackStream makes its own batches: give the "
            "DataLoader batch_size=None, and the HF Trainer a PackDataset"
        )
    return Pack.from_row(row)


def _count_slots(pack: Pack, facts: ModelFacts) -> None:
    """Compare each sample's pad tokens with the slots of its grids."""
    tokens = {"image": facts.image_token_id, "video": facts.video_token_id}
    left: dict[str, NDArray[np.int64]] = {}
    for kind, token in tokens.items():
        slots = np.flatnonzero(pack.input_ids == (-1 if token is None else token))
        owner = np.searchsorted(pack.samples.ends, slots, side="right")
        left[kind] = np.bincount(owner, minlength=len(pack.samples)).astype(np.int64)
    for medium in pack.media:
        left[medium.kind][medium.place] -= int(facts.slots(np.array([medium.grid]))[0])
    for kind, over in left.items():
        for place in np.flatnonzero(over)[:1].tolist():
            name = pack.sample_ids[place] if pack.sample_ids else f"number {place}"
            source = pack.sample_sources[place] if pack.sample_sources else "unknown source"
            raise InputError(
                f"sample {name!r} ({source}): {int(over[place]):+d} {kind} slots over what its "
                "grids fill; run `packcli verify` on the dataset"
            )


def _beside(
    batch: dict[str, Any],
    packs: list[Pack],
    facts: ModelFacts | None,
    config: Any,  # noqa: ANN401 - a transformers class
) -> dict[str, Any]:
    """Add what the model's `forward` wants besides, and drop grids that it does not take."""
    layout = None if facts is None else LAYOUTS.get(facts.family)
    if layout is None or facts is None:
        return batch
    if not layout.grids:
        batch = {name: value for name, value in batch.items() if name not in _GRIDS}
    batch |= layout.beside(packs, facts)
    if layout.types:
        ids = batch["input_ids"]
        types = (ids == facts.image_token_id).long()
        if facts.video_token_id is not None:
            types += 2 * (ids == facts.video_token_id)
        batch[layout.types] = types
        if layout.blocks and masks_needed(packs, config):
            batch |= block_masks(batch, types, config)
    return batch


def _pixels(packs: list[Pack], loader: MediaLoader | None) -> dict[str, Any]:
    media = [medium for pack in packs for medium in pack.media]
    if not media:
        return {}
    if loader is None:
        raise InputError(
            f"sample {media[0].sample!r} has an {media[0].kind}; give the collator a MediaLoader"
        )
    return loader.batch(media)
