"""GLM-4.1V, 4.5V and 4.6V: the image at its own shape in 14-pixel patches, one run of slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Rope
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import (
    edge,
    media_facts,
    section,
    token_text,
    whole,
)
from packcli.families.processors.resize import Clip, ClipBudget, fit_volume
from packcli.families.processors.sized import ImageRule, Sized, one_run

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("glm4v", "glm4v_moe", "glm46v")

_FACTS = ModelFacts("glm4v", 151552, rope=Rope.FRAMES, image_token_id=151343)
_PATCH, _MERGE, _TEMPORAL = 14, 2, 2
_SHORTEST, _LONGEST = 112 * 112, 28 * 28 * 15000


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a GLM-4.xV directory.

    Matches transformers' `Glm4vProcessor` and `Glm4vImageProcessor` (models/glm4v, models/glm46v).
    Videos are not written: their slots carry the token of images, and only tokens around them
    tell the two apart.

    Raises:
        InputError: its files hold a wrong type, or half a `size`.
    """
    del choices
    patch = whole(files.image, "patch_size", _PATCH)
    temporal = whole(files.image, "temporal_patch_size", _TEMPORAL)
    merge = whole(files.image, "merge_size", _MERGE)
    merge = whole(section(files.config, "vision_config"), "spatial_merge_size", merge)
    budget = ClipBudget(
        factor=patch * merge,
        temporal=temporal,
        min_pixels=edge(files.image, "size", "shortest_edge", _SHORTEST),
        max_pixels=edge(files.image, "size", "longest_edge", _LONGEST),
    )
    facts = media_facts(files, _FACTS, merge_size=merge)
    pad = token_text(files, "image_token", "<|image|>")

    def plan(height: int, width: int) -> ImagePlan:
        # upstream budgets an image as a clip of one temporal patch
        rows, columns = fit_volume(Clip(temporal, height, width), budget)
        return ImagePlan((1, rows // patch, columns // patch))

    def write(plan: ImagePlan) -> Expansion:
        return one_run(pad, int(facts.slots([plan.grid])[0]))

    return Sized(
        facts=facts,
        settings={
            "patch_size": patch,
            "merge_size": merge,
            "temporal_patch_size": temporal,
            "min_pixels": budget.min_pixels,
            "max_pixels": budget.max_pixels,
        },
        images=ImageRule(pad, plan, write),
    )
