"""Kimi K2.5: the image is never enlarged, only filled up to whole slots; one run of slots."""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts
from packcli.families.family import Expansion, ImagePlan
from packcli.families.processors.model_files import edge, media_facts, token_text, whole
from packcli.families.processors.sized import ImageRule, Sized, one_run

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("kimi_k25",)

_FACTS = ModelFacts("kimi_k25", 163840, image_token_id=163605)
_PATCH, _MERGE, _SIDE, _PATCHES = 14, 2, 512, 16384


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Kimi K2.5 directory.

    Matches transformers' `Kimi_K25Processor` (models/kimi_k25). Videos are not written.

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    patch = whole(files.image, "patch_size", _PATCH)
    merge = whole(files.image, "merge_size", _MERGE)
    side = edge(files.image, "size", "max_height", _SIDE) * patch
    patches = whole(files.image, "max_patches", _PATCHES)
    facts = media_facts(files, _FACTS, merge_size=merge)
    pad = token_text(files, "image_token", "<|media_pad|>")

    def plan(height: int, width: int) -> ImagePlan:
        # upstream counts patches of the original cut off, and of the result filled up
        count = max(1, height // patch) * max(1, width // patch)
        scale = min(1.0, sqrt(patches / count), side / height, side / width)
        rows, columns = (
            ceil(min(max(1, int(length * scale)), side) / (patch * merge)) * merge
            for length in (height, width)
        )
        return ImagePlan((1, rows, columns))

    def write(plan: ImagePlan) -> Expansion:
        return one_run(pad, int(facts.slots([plan.grid])[0]))

    return Sized(
        facts=facts,
        settings={
            "patch_size": patch,
            "merge_size": merge,
            "max_side_pixels": side,
            "max_patches": patches,
        },
        images=ImageRule(pad, plan, write),
    )
