"""Cohere2 Vision: tiles of 512 pixels, as little enlarged as can be, a line break after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import (
    flag,
    media_facts,
    section,
    sides,
    token_text,
    whole,
)
from packcli.families.processors.sized import ImageRule, Sized
from packcli.families.processors.tiles import least_enlarged, tile_of

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("cohere2_vision",)

_FACTS = ModelFacts("cohere2_vision", 256000, image_token_id=255036, runs=Runs.TILE)
_PIXELS, _SIDE, _PATCH, _MOST = (512, 512), 16, 16, 12


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Cohere2 Vision directory.

    Matches transformers' `Cohere2VisionProcessor` (models/cohere2_vision); its `patch_size` is
    the side of a tile, slots.

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    pixels = sides(files.image, "size", _PIXELS)[0]
    side = whole(files.image, "patch_size", _SIDE)
    most = whole(files.image, "max_patches", _MOST)
    most = most if flag(files.image, "crop_to_patches", default=True) else 1
    patch = whole(section(files.config, "vision_config"), "patch_size", _PATCH)
    tile = tile_of(side * side, pixels, patch)
    pad = token_text(files, "image_token", "<|IMG_PATCH|>")
    start = token_text(files, "boi_token", "<|START_OF_IMG|>")
    end = token_text(files, "eoi_token", "<|END_OF_IMG|>")
    line_break = token_text(files, "img_line_break_token", "<|IMG_LINE_BREAK|>")

    def plan(height: int, width: int) -> ImagePlan:
        return tile.plan(least_enlarged(height, width, pixels, most))

    def write(plan: ImagePlan) -> Expansion:
        tiles = plan.grid[0]
        return Expansion(f"{start}{f'{pad}{line_break}' * tiles}{end}", (tile.slots,) * tiles)

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={"tile_pixels": pixels, "tile_slots": tile.slots, "max_tiles": most},
        images=ImageRule(pad, plan, write),
    )
