"""Gemma 3: every image is one square view with the same number of slots, between blank lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import (
    flag,
    media_facts,
    section,
    sides,
    token_text,
    whole,
)
from packcli.families.processors.sized import ImageRule, Sized, always
from packcli.families.processors.tiles import tile_of

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("gemma3",)

_FACTS = ModelFacts("gemma3", 262208, image_token_id=262144, token_type_ids=True)
_PIXELS, _PATCH, _SLOTS = (224, 224), 16, 256


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Gemma 3 directory.

    Matches transformers' `Gemma3Processor` (models/gemma3) called as it comes: it makes no
    pan-and-scan crops, whatever preprocessor_config.json says.

    Raises:
        InputError: its files hold a wrong type, or ask for crops.
    """
    del choices
    if flag(files.image, "do_pan_and_scan", default=False):
        raise InputError(
            f"{files.directory}: do_pan_and_scan is true, which the processor overrules unless "
            "it is called with it, and packcli writes no crops; set it to false"
        )
    pixels = sides(files.image, "size", _PIXELS)[0]
    slots = whole(files.processor, "image_seq_length", _SLOTS)
    patch = whole(section(files.config, "vision_config"), "patch_size", _PATCH)
    tile = tile_of(slots, pixels, patch)
    start = token_text(files, "boi_token", "<start_of_image>")
    end = token_text(files, "eoi_token", "<end_of_image>")
    pad = token_text(files, "image_token", "<image_soft_token>")
    view = Expansion(f"\n\n{start}{pad}{end}\n\n", (slots,))
    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={"image_slots": slots},
        images=ImageRule(start, always(ImagePlan(tile.grid())), lambda _: view),
    )
