"""Gemma 4: as many slots of 48 pixels as a budget allows; every frame behind its time."""

from __future__ import annotations

from math import floor, sqrt
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection
from packcli.contract.model import ModelFacts, Runs
from packcli.families.family import Expansion, ImagePlan, VideoMetadata, VideoOptions, VideoPlan
from packcli.families.processors.clips import FrameCount, read_frame_count
from packcli.families.processors.frames import even_frames, frame_times
from packcli.families.processors.model_files import media_facts, token_text, whole
from packcli.families.processors.sized import ClipRule, ImageRule, Sized

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles, Values

MODEL_TYPES = ("gemma4",)

_FACTS = ModelFacts("gemma4", 262144, image_token_id=258880, video_token_id=258884, runs=Runs.TILE)
_PATCH, _POOL, _IMAGE_SLOTS, _FRAME_SLOTS = 16, 3, 280, 70
_FRAMES = FrameCount("gemma4", sampled=True, num_frames=32)


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Gemma 4 directory.

    Matches transformers' `Gemma4Processor` (models/gemma4). Audio is not written.

    Raises:
        InputError: its files hold a wrong type.
    """
    del choices
    patch = whole(files.image, "patch_size", _PATCH)
    pool = whole(files.image, "pooling_kernel_size", _POOL)
    most = whole(files.image, "max_soft_tokens", _IMAGE_SLOTS)
    own = _own_video(files)
    most_in_frame = whole(own, "max_soft_tokens", _FRAME_SLOTS)
    frames = read_frame_count("gemma4", own, _FRAMES)
    facts = media_facts(files, _FACTS, merge_size=pool)
    image = token_text(files, "image_token", "<|image|>")
    video = "<|video|>"
    start = token_text(files, "boi_token", "<|image>")
    end = token_text(files, "eoi_token", "<image|>")

    def plan(height: int, width: int) -> ImagePlan:
        rows, columns = slots_in_sides(height, width, most, patch * pool)
        return ImagePlan((1, rows * pool, columns * pool))

    def clip(metadata: VideoMetadata, options: VideoOptions) -> VideoPlan:
        taken = even_frames(metadata, frames.of(metadata, options))
        rows, columns = slots_in_sides(metadata.height, metadata.width, most_in_frame, patch * pool)
        grid = (taken.size, rows * pool, columns * pool)
        return VideoPlan(grid, taken, frame_times(metadata, taken))

    def written(plan: ImagePlan) -> Expansion:
        return Expansion(f"{start}{image}{end}", (int(facts.slots([plan.grid])[0]),))

    def stamped(plan: VideoPlan) -> Expansion:
        times = (f"{int(time // 60):02d}:{int(time % 60):02d}" for time in plan.timestamps)
        text = " ".join(f"{time} {start}{video}{end}" for time in times)
        slots = int(facts.slots([plan.grid])[0]) // plan.grid[0]
        return Expansion(text, (slots,) * plan.grid[0])

    return Sized(
        facts=facts,
        settings={
            "patch_size": patch,
            "merge_size": pool,
            "max_image_slots": most,
            "max_frame_slots": most_in_frame,
            **frames.settings,
        },
        images=ImageRule(image, plan, written),
        videos=ClipRule(video, clip, stamped),
    )


def slots_in_sides(height: int, width: int, most: int, unit: int) -> tuple[int, int]:
    """Count rows of slots, and slots in a row.

    Matches transformers' `get_aspect_ratio_preserving_size` (models/gemma4).

    Args:
        height: pixels.
        width: pixels.
        most: slots, at most.
        unit: pixels per side of a slot.

    Raises:
        Rejection: `aspect_ratio`, not one slot would be left.
    """
    scale = sqrt(most * unit**2 / (height * width))
    rows, columns = floor(scale * height / unit), floor(scale * width / unit)
    if not rows and not columns:
        message = f"{width}x{height} leaves no slot of {unit} pixels; crop it or drop the record"
        raise Rejection("aspect_ratio", message)
    if not rows:
        return 1, min(width // height, most)
    if not columns:
        return min(height // width, most), 1
    return rows, columns


def _own_video(files: ModelFiles) -> Values:
    """Values of the video processor; the image processor's file says nothing about frames."""
    return {} if files.video is files.image else files.video
