"""Idefics3 and SmolVLM: tiles named by row and column, a line a row, the overview last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import edge, flag, media_facts, section, whole
from packcli.families.processors.sized import ImageRule, Sized
from packcli.families.processors.tiles import longest_edge_tiles, tile_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("idefics3", "smolvlm")

_FACTS = ModelFacts("idefics3", 128259, image_token_id=128257, runs=Runs.TILE)
_LONGEST, _TILE, _PATCH, _SLOTS = 4 * 364, 364, 14, 169
_PAD, _AROUND, _OVERVIEW = "<image>", "<fake_token_around_image>", "<global-img>"


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open an Idefics3 or SmolVLM directory.

    Matches transformers' `Idefics3Processor` and `Idefics3ImageProcessor` (models/idefics3), and
    the image side of `SmolVLMProcessor` (models/smolvlm), which is the same.

    Raises:
        InputError: its files hold a wrong type, or a size without `longest_edge`.
    """
    del choices
    longest = edge(files.image, "size", "longest_edge", _LONGEST)
    pixels = edge(files.image, "max_image_size", "longest_edge", _TILE)
    split = flag(files.image, "do_image_splitting", default=True)
    slots = whole(files.processor, "image_seq_len", _SLOTS)
    patch = whole(section(files.config, "vision_config"), "patch_size", _PATCH)
    tile = tile_of(slots, pixels, patch)

    def plan(height: int, width: int) -> ImagePlan:
        return tile.plan(longest_edge_tiles(height, width, longest, pixels) if split else (1, 1))

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={
            "longest_edge": longest,
            "tile_pixels": pixels,
            "tile_slots": slots,
            "do_image_splitting": split,
        },
        images=ImageRule(_PAD, plan, written(slots)),
    )


def written(slots: int) -> Callable[[ImagePlan], Expansion]:
    """Return how an image is written whose tiles have so many slots each."""

    def write(plan: ImagePlan) -> Expansion:
        overview = f"{_AROUND}{_OVERVIEW}{_PAD}{_AROUND}"
        if plan.grid[0] == 1:
            return Expansion(overview, (slots,))
        rows, columns = plan.tiles
        lines = (
            "".join(f"{_AROUND}<row_{row}_col_{column}>{_PAD}" for column in range(1, columns + 1))
            for row in range(1, rows + 1)
        )
        text = "".join(f"{line}\n" for line in lines) + f"\n{overview}"
        return Expansion(text, (slots,) * plan.grid[0])

    return write
