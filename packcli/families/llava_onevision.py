"""LLaVA-OneVision: a lone image in tiles, of several images one view each, videos pooled."""

from __future__ import annotations

from math import ceil, isqrt
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts
from packcli.families.family import Expansion, ImagePlan, VideoMetadata, VideoOptions, VideoPlan
from packcli.families.processors.anyres import AnyResolution, read_canvases
from packcli.families.processors.clips import FrameCount, read_frame_count
from packcli.families.processors.frames import even_frames, frame_times
from packcli.families.processors.model_files import (
    flag,
    media_facts,
    sides,
    text,
    token_text,
    whole,
)
from packcli.families.processors.sized import ClipRule, ImageRule, Sized, always, in_line, one_run

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("llava_onevision",)

_FACTS = ModelFacts("llava_onevision", 151936, image_token_id=151646, video_token_id=151647)
_PIXELS, _VIEW, _ASPECT = (384, 384), 729, "anyres_max_9"
_SIDES = tuple(384 * n for n in range(1, 7))
_CANVASES = tuple((rows, columns) for rows in _SIDES for columns in _SIDES)


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a LLaVA-OneVision directory.

    Matches transformers' `LlavaOnevisionProcessor` (models/llava_onevision), given images nested
    by sample: only the lone image of a sample is cut up.

    Raises:
        InputError: its files hold a wrong type, or crop images.
    """
    del choices
    own = files.processor
    if flag(files.image, "do_center_crop", default=False):
        raise InputError(f"{files.directory}: do_center_crop makes views of another size; drop it")
    view = whole(own, "num_image_tokens", _VIEW)
    strategy = text(files.config, "vision_feature_select_strategy", "full")
    lost = text(own, "vision_feature_select_strategy", strategy) == "default"
    aspect = text(files.config, "vision_aspect_ratio", _ASPECT)
    most = int(text(own, "vision_aspect_ratio", aspect).removeprefix("anyres_max_"))
    side = isqrt(view)
    cut = AnyResolution(
        read_canvases(files, _CANVASES), sides(files.image, "size", _PIXELS), (side, side), most
    )
    image = token_text(files, "image_token", text(own, "image_token", "<image>"))
    video = token_text(files, "video_token", text(own, "video_token", "<video>"))
    pooled = ceil(side / 2) ** 2
    count = read_frame_count("llava_onevision", files.video, FrameCount("llava_onevision"))

    def plan(height: int, width: int) -> ImagePlan:
        return in_line(view + cut.features(height, width) - lost)

    def clip(metadata: VideoMetadata, options: VideoOptions) -> VideoPlan:
        frames = even_frames(metadata, count.of(metadata, options))
        # behind all frames stands one line end
        grid = (1, 1, frames.size * pooled + 1)
        return VideoPlan(grid, frames, frame_times(metadata, frames))

    def written(plan: ImagePlan) -> Expansion:
        return one_run(image, plan.grid[2])

    return Sized(
        facts=media_facts(files, _FACTS),
        settings={
            "overview_slots": view - lost,
            **cut.settings,
            "frame_slots": pooled,
            **count.settings,
        },
        images=ImageRule(image, plan, written, always(in_line(view + 1 - lost))),
        videos=ClipRule(video, clip, lambda plan: one_run(video, plan.grid[2])),
    )
