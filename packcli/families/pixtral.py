"""Pixtral and Mistral Small 3.1: the image at its own shape, a break after every row of slots."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection
from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import edge, media_facts, text, whole
from packcli.families.processors.sized import ImageRule, Sized

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("mistral3", "pixtral")

_FACTS = ModelFacts("pixtral", 131072, image_token_id=10, runs=Runs.ROW)
_LONGEST, _PATCH, _MERGE = 1024, 16, 1


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a directory whose images PixtralProcessor prepares.

    Matches transformers' `PixtralProcessor` (models/pixtral), which puts its own patch size over
    that of the image processor.

    Raises:
        InputError: its files hold a wrong type, or a size without `longest_edge`.
    """
    del choices
    own = files.processor
    longest = edge(files.image, "size", "longest_edge", _LONGEST)
    patch = whole(own, "patch_size", _PATCH)
    merge = whole(own, "spatial_merge_size", _MERGE)
    pad = text(own, "image_token", "[IMG]")
    line_break = text(own, "image_break_token", "[IMG_BREAK]")
    end = text(own, "image_end_token", "[IMG_END]")

    def plan(height: int, width: int) -> ImagePlan:
        rows, columns = slots_in_sides(height, width, longest, patch * merge)
        return ImagePlan((1, rows * merge, columns * merge))

    def write(plan: ImagePlan) -> Expansion:
        _, rows, columns = (side // merge for side in plan.grid)
        return Expansion(f"{line_break.join([pad] * rows)}{end}", (columns,) * rows)

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=merge),
        settings={"longest_edge": longest, "patch_size": patch, "merge_size": merge},
        images=ImageRule(pad, plan, write),
    )


def slots_in_sides(height: int, width: int, longest: int, unit: int) -> tuple[int, int]:
    """Count rows of slots, and slots in a row.

    Matches transformers' `get_resize_output_image_size` (models/pixtral).

    Args:
        height: pixels.
        width: pixels.
        longest: pixels of the longer side, at most.
        unit: pixels per side of a slot.

    Raises:
        Rejection: `aspect_ratio`, shrinking leaves no pixel of the short side, and the processor
            fails.
    """
    told = f"{width}x{height}"
    ratio = max(height / longest, width / longest)
    if ratio > 1:
        height, width = floor(height / ratio), floor(width / ratio)
    if min(height, width) < 1:
        message = (
            f"{told} shrunk to {longest} pixels has a side of none; crop it or drop the record"
        )
        raise Rejection("aspect_ratio", message)
    return (height - 1) // unit + 1, (width - 1) // unit + 1
