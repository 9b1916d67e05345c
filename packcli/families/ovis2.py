"""Ovis2: an overview first, then the fewest tiles that show the image, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import flag, media_facts, section, sides, whole
from packcli.families.processors.sized import ImageRule, Sized
from packcli.families.processors.tiles import Tiling, closest_shape, covering, tile_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("ovis2",)

_FACTS = ModelFacts("ovis2", 151936, image_token_id=151665, runs=Runs.TILE)
_PIXELS, _PATCH, _SLOTS, _LEAST, _MOST = (384, 384), 14, 256, 1, 12
_PLACEHOLDER, _PAD = "<image>", "<IMG_ATOM>"


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open an Ovis2 directory.

    Matches transformers' `Ovis2Processor` and `Ovis2ImageProcessor` (models/ovis2).

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    pixels = sides(files.image, "size", _PIXELS)
    slots = whole(files.processor, "image_seq_length", _SLOTS)
    least = whole(files.image, "min_patches", _LEAST)
    most = whole(files.image, "max_patches", _MOST)
    cut = flag(files.image, "crop_to_patches", default=False) and most > 1
    by_area = flag(files.image, "use_covering_area_grid", default=True)
    patch = whole(section(files.config, "vision_config"), "patch_size", _PATCH)
    tile = tile_of(slots, pixels[0], patch)

    def tiles(height: int, width: int) -> Tiling:
        if not cut:
            return 1, 1
        if by_area:
            return covering(height, width, pixels[0], most)
        return closest_shape(height, width, pixels, range(least, most + 1))

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={
            "tile_height": pixels[0],
            "tile_width": pixels[1],
            "tile_slots": slots,
            "min_tiles": least,
            "max_tiles": most if cut else 1,
            "covering": by_area,
        },
        images=ImageRule(
            _PLACEHOLDER, lambda height, width: tile.plan(tiles(height, width)), written(slots)
        ),
    )


def written(slots: int) -> Callable[[ImagePlan], Expansion]:
    """Return how an image is written whose tiles have so many slots each."""

    def write(plan: ImagePlan) -> Expansion:
        rows, columns = plan.tiles
        row = "<IMG_COL>".join([_PAD] * columns)
        cut = "<IMG_ROW>".join([row] * rows) if rows * columns > 1 else ""
        text = f"<IMG_START>{_PAD}<IMG_GRID>{cut}<IMG_END>"
        return Expansion(text, (slots,) * plan.grid[0])

    return write
