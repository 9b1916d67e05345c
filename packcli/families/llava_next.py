"""LLaVA-NeXT: an overview and the tiles of the best canvas, padding cut off, in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts
from packcli.families.processors.anyres import AnyResolution, read_canvases
from packcli.families.processors.clip_features import read_clip_features
from packcli.families.processors.model_files import media_facts
from packcli.families.processors.sized import ImageRule, Sized, in_line, one_run

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family, ImagePlan
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("llava_next",)

_FACTS = ModelFacts("llava_next", 32064, image_token_id=32000)
_CANVASES = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a LLaVA-NeXT directory.

    Matches transformers' `LlavaNextProcessor` (models/llava_next).

    Raises:
        InputError: its files hold a wrong type, or do not tell the size of a tile.
    """
    del choices
    found = read_clip_features(files)
    cut = AnyResolution(read_canvases(files, _CANVASES), found.pixels, found.patches)
    overview = found.patches[0] * found.patches[1] + found.extra

    def plan(height: int, width: int) -> ImagePlan:
        return in_line(overview + cut.features(height, width))

    return Sized(
        facts=media_facts(files, _FACTS),
        settings={"overview_slots": overview, **cut.settings},
        images=ImageRule(
            found.placeholder, plan, lambda plan: one_run(found.placeholder, plan.grid[2])
        ),
    )
