"""Plain text models of any `model_type`: no media, one plane of positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import ModelFacts
from packcli.families.family import NO_LIMITS, NO_OPTIONS
from packcli.families.processors.model_files import linear_attention, section, whole

if TYPE_CHECKING:
    from packcli.families.family import (
        Choices,
        Expansion,
        Family,
        ImagePlan,
        PixelLimits,
        Setting,
        VideoMetadata,
        VideoOptions,
        VideoPlan,
    )
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES: tuple[str, ...] = ()
"""Empty: this file opens what no other file names and what holds no second tower."""

_TOWERS = frozenset({"vision_config", "audio_config", "vision_tower", "mm_vision_tower", "visual"})


@dataclass(frozen=True, slots=True)
class TextOnly:
    """One opened text model; every question about media is refused."""

    facts: ModelFacts
    image_placeholder: None = None
    video_placeholder: None = None
    dropped_tail: str = ""
    canvases: None = None

    @property
    def name(self) -> str:
        """The family file."""
        return self.facts.family

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Empty: no number of the model decides lengths."""
        return {}

    def image_plan(
        self, height: int, width: int, limits: PixelLimits = NO_LIMITS, *, images: int = 1
    ) -> ImagePlan:
        """Refuse.

        Raises:
            Rejection: `bad_record`, always.
        """
        del height, width, limits, images
        _refuse()

    def video_plan(self, video: VideoMetadata, options: VideoOptions = NO_OPTIONS) -> VideoPlan:
        """Refuse.

        Raises:
            Rejection: `bad_record`, always.
        """
        del video, options
        _refuse()

    def expand_image(self, plan: ImagePlan) -> Expansion:
        """Refuse.

        Raises:
            Rejection: `bad_record`, always.
        """
        del plan
        _refuse()

    def expand_video(self, plan: VideoPlan) -> Expansion:
        """Refuse.

        Raises:
            Rejection: `bad_record`, always.
        """
        del plan
        _refuse()


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a text model.

    Raises:
        InputError: config.json names a second tower, or no vocabulary size.
    """
    del choices
    tower = _tower(files.config)
    if tower is not None:
        raise InputError(
            f"{files.directory}: no family knows model_type {files.model_type!r}, and it is no "
            f"plain text model (config.json has {tower}); see packcli.families.names()"
        )
    vocab = whole(files.config, "vocab_size", 1)
    vocab = whole(section(files.config, "text_config"), "vocab_size", vocab)
    if vocab == 1:
        raise InputError(f"{files.directory}: config.json has no vocab_size; add it")
    facts = ModelFacts("text", vocab, linear_attention=linear_attention(files.config))
    return TextOnly(facts)


def _tower(config: Mapping[str, Any]) -> str | None:
    # also one level and more down: Qwen-Omni keeps its towers inside thinker_config
    for key, value in config.items():
        if key in _TOWERS and value is not None:
            return key
        if isinstance(value, Mapping):
            found = _tower(cast("Mapping[str, Any]", value))
            if found is not None:
                return found
    return None


def _refuse() -> NoReturn:
    raise Rejection(
        "bad_record", "this model reads text only; drop the media or name a vision model"
    )
