"""Aya Vision: tiles of 364 pixels in the image's shape, each behind its number, overview last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import media_facts, sides, text, whole
from packcli.families.processors.sized import ImageRule, Sized
from packcli.families.processors.tiles import Tile, closest_shape

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("aya_vision",)

_FACTS = ModelFacts("aya_vision", 256000, image_token_id=255036, runs=Runs.TILE)
_PIXELS, _PATCH, _DOWNSAMPLE, _SIDE, _LEAST, _MOST = (384, 384), 28, 1, 364, 1, 12


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open an Aya Vision directory.

    Matches transformers' `AyaVisionProcessor` (models/aya_vision), which cuts images up whatever
    `crop_to_patches` in preprocessor_config.json says.

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    own = files.processor
    pixels = sides(files.image, "size", _PIXELS)
    least = whole(files.image, "min_patches", _LEAST)
    most = whole(files.image, "max_patches", _MOST)
    downsample = whole(own, "downsample_factor", _DOWNSAMPLE)
    patch = whole(own, "patch_size", _PATCH)
    side = whole(own, "img_size", _SIDE) // (patch * downsample)
    tile = Tile(side * downsample, side * downsample, downsample)
    pad = text(own, "img_patch_token", "<|IMG_PATCH|>")
    start = text(own, "start_of_img_token", "<|START_OF_IMG|>")
    end = text(own, "end_of_img_token", "<|END_OF_IMG|>")
    numbered = text(own, "tile_token", "TILE")
    overview = text(own, "tile_global_token", "TILE_GLOBAL")

    def plan(height: int, width: int) -> ImagePlan:
        return tile.plan(closest_shape(height, width, pixels, range(least, most + 1)))

    def write(plan: ImagePlan) -> Expansion:
        tiles = plan.grid[0]
        cut = "".join(f"{numbered}_{number}{pad}" for number in range(1, tiles))
        return Expansion(f"{start}{cut}{overview}{pad}{end}", (tile.slots,) * tiles)

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={
            "tile_height": pixels[0],
            "tile_width": pixels[1],
            "tile_slots": tile.slots,
            "min_tiles": least,
            "max_tiles": most,
        },
        images=ImageRule(text(own, "image_token", "<image>"), plan, write),
    )
