"""LLaVA 1.5: every image has the same number of slots, in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts
from packcli.families import pixtral
from packcli.families.family import ImagePlan
from packcli.families.processors.clip_features import read_clip_features
from packcli.families.processors.model_files import media_facts, section
from packcli.families.processors.sized import ImageRule, Sized, always, in_line, one_run

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("llava", "vipllava")

_FACTS = ModelFacts("llava", 32064, image_token_id=32000)


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a LLaVA directory; one with a Pixtral tower (Pixtral 12B) is that family's.

    Matches transformers' `LlavaProcessor` (models/llava).

    Raises:
        InputError: its files hold a wrong type, or do not tell the size of an image.
    """
    if section(files.config, "vision_config").get("model_type") == "pixtral":
        return pixtral.open_model(files, choices)
    found = read_clip_features(files)
    rows, columns = found.patches
    slots = rows * columns + found.extra
    fixed = ImagePlan((1, rows, columns)) if not found.extra else in_line(slots)
    return Sized(
        facts=media_facts(files, _FACTS),
        settings={"image_slots": slots},
        images=ImageRule(
            found.placeholder, always(fixed), lambda _: one_run(found.placeholder, slots)
        ),
    )
