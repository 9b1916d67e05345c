"""InternVL 3: tiles of 448 pixels in the image's shape, an overview last; a tile a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan, VideoMetadata, VideoOptions, VideoPlan
from packcli.families.processors.clips import FrameCount, read_frame_count
from packcli.families.processors.frames import even_frames, float_steps, frame_times
from packcli.families.processors.model_files import media_facts, section, sides, token_text, whole
from packcli.families.processors.sized import ClipRule, ImageRule, Sized
from packcli.families.processors.tiles import closest_shape, tile_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("internvl",)

_FACTS = ModelFacts("internvl", 151936, image_token_id=151667, runs=Runs.TILE)
_PIXELS, _PATCH, _SLOTS, _LEAST, _MOST = (384, 384), (14, 14), 256, 1, 12


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open an InternVL directory.

    Matches transformers' `InternVLProcessor` (models/internvl), which cuts images up whatever
    `crop_to_patches` in preprocessor_config.json says.

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    pixels = sides(files.image, "size", _PIXELS)
    patch = sides(section(files.config, "vision_config"), "patch_size", _PATCH)[0]
    slots = whole(files.processor, "image_seq_length", _SLOTS)
    least = whole(files.image, "min_patches", _LEAST)
    most = whole(files.image, "max_patches", _MOST)
    frames = read_frame_count("internvl", files.video, FrameCount("internvl"))
    tile = tile_of(slots, pixels[0], patch)
    pad = token_text(files, "context_image_token", "<IMG_CONTEXT>")
    start = token_text(files, "start_image_token", "<img>")
    end = token_text(files, "end_image_token", "</img>")

    def plan(height: int, width: int) -> ImagePlan:
        return tile.plan(closest_shape(height, width, pixels, range(least, most + 1)))

    def write(plan: ImagePlan) -> Expansion:
        return Expansion(f"{start}{pad}{end}", (plan.grid[0] * tile.slots,))

    def clip(metadata: VideoMetadata, options: VideoOptions) -> VideoPlan:
        taken = _middle_frames(metadata, frames.of(metadata, options))
        return VideoPlan(tile.grid(taken.size), taken, frame_times(metadata, taken))

    def numbered(plan: VideoPlan) -> Expansion:
        count = plan.grid[0]
        text = "\n".join(f"Frame{n}: {start}{pad}{end}" for n in range(1, count + 1))
        return Expansion(text, (tile.slots,) * count)

    return Sized(
        facts=media_facts(files, _FACTS, merge_size=tile.merge_size),
        settings={
            "tile_height": pixels[0],
            "tile_width": pixels[1],
            "tile_slots": slots,
            "min_tiles": least,
            "max_tiles": most,
            **frames.settings,
        },
        images=ImageRule(pad, plan, write),
        videos=ClipRule(token_text(files, "video_token", "<video>"), clip, numbered),
    )


def _middle_frames(video: VideoMetadata, count: int | None) -> NDArray[np.int32]:
    """Take the middle of as many equal parts of the video.

    Matches transformers' `InternVLVideoProcessor.sample_frames` (models/internvl).

    Raises:
        Rejection: `video_too_short` when there are none, or fewer than asked for.
    """
    every = even_frames(video, count)
    if count is None:
        return every
    return float_steps(video.frames, count, video.frames / count / 2)
