"""What the LLaVA processors say about the features of one view through a CLIP or SigLIP tower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.families.processors.model_files import (
    flag,
    number,
    section,
    sides,
    text,
    token_text,
    whole,
)

if TYPE_CHECKING:
    from packcli.families.processors.model_files import ModelFiles

_PATCH, _EDGE = 14, 224


@dataclass(frozen=True, slots=True)
class ClipFeatures:
    """One view.

    Attributes:
        placeholder: the text that one image replaces, and the token that is repeated.
        pixels: height and width of a view.
        patches: rows and columns of patches.
        extra: features besides patches that are kept; -1 where one patch too few is counted.
    """

    placeholder: str
    pixels: tuple[int, int]
    patches: tuple[int, int]
    extra: int


def read_clip_features(files: ModelFiles) -> ClipFeatures:
    """Read processor_config.json and the view's size.

    Matches `replace_image_token` of transformers' LLaVA processors (models/llava,
    models/llava_next): strategy `default` drops one feature, the class token.

    Raises:
        InputError: a value has the wrong type, or the size of a view is not fixed.
    """
    own, config = files.processor, files.config
    patch = whole(section(config, "vision_config"), "patch_size", _PATCH)
    patch = whole(own, "patch_size", patch)
    strategy = text(config, "vision_feature_select_strategy", "default")
    strategy = text(own, "vision_feature_select_strategy", strategy)
    pixels = _view(files)
    return ClipFeatures(
        placeholder=token_text(files, "image_token", text(own, "image_token", "<image>")),
        pixels=pixels,
        patches=(pixels[0] // patch, pixels[1] // patch),
        extra=int(number(own, "num_additional_image_tokens", 0)) - (strategy == "default"),
    )


def _view(files: ModelFiles) -> tuple[int, int]:
    """Height and width after resizing and cropping."""
    image = files.image
    if flag(image, "do_center_crop", default=image.get("crop_size") is not None):
        return sides(image, "crop_size", (_EDGE, _EDGE))
    if section(image, "size").get("shortest_edge") is not None:
        raise InputError(
            f"{files.directory}: without do_center_crop, size must have height and width, found "
            "shortest_edge, which leaves the longer side open; correct preprocessor_config.json"
        )
    return sides(image, "size", (_EDGE, _EDGE))
