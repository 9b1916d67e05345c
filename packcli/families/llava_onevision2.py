"""LLaVA-OneVision-2: Qwen2-VL's images, frames behind their times, windows in the vision tower."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import ModelFacts, Runs, VitWindows
from packcli.families.family import (
    CanvasRule,
    Expansion,
    ImagePlan,
    VideoMetadata,
    VideoOptions,
    VideoPlan,
)
from packcli.families.processors.clips import FrameCount
from packcli.families.processors.frames import even_frames, frame_times
from packcli.families.processors.model_files import media_facts, section, whole
from packcli.families.processors.processor_config import read_image_limits
from packcli.families.processors.resize import fit_image
from packcli.families.processors.sized import ClipRule, ImageRule, Sized, one_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import Grid
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles
    from packcli.families.processors.native import ImageLimits

MODEL_TYPES = ("llava_onevision2",)

_FACTS = ModelFacts("llava_onevision2", 151936, image_token_id=151655, runs=Runs.SLOT)
_PATCH, _MERGE = 14, 2
_EVERY = FrameCount("llava_onevision2")
_SMALLEST_SIDE = 28
_DECIMALS = (1, 2)
_PAD = "<|image_pad|>"
_IMAGE = f"<|vision_start|>{_PAD}<|vision_end|>"
_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a LLaVA-OneVision-2 directory.

    Lengths equal those of its training encoder (`process_sft_qa` of qwen2vl_task_encoder), whose
    template leaves out the newline behind the last turn. Positions are one plane.

    Raises:
        InputError: its files hold a wrong type or contradict each other.
    """
    patch = whole(files.image, "patch_size", _PATCH)
    merge = whole(files.image, "merge_size", _MERGE)
    told = whole(section(files.config, "vision_config"), "spatial_merge_size", merge)
    temporal = whole(files.image, "temporal_patch_size", 1)
    if told != merge or temporal != 1:
        raise InputError(
            f"{files.directory}: merge_size must be spatial_merge_size and temporal_patch_size 1, "
            f"found {merge}, {told} and {temporal}; correct the files"
        )
    limits = read_image_limits(files)
    facts = media_facts(files, _FACTS, merge_size=merge)
    facts = replace(facts, vit_windows=choices.vit_windows)

    def grid(height: int, width: int, frames: int = 1) -> tuple[int, int, int]:
        rows, columns = fitted(height, width, patch * merge, limits)
        return frames, rows // patch, columns // patch

    def clip(video: VideoMetadata, options: VideoOptions) -> VideoPlan:
        frames = even_frames(video, _EVERY.of(video, options))
        return VideoPlan(
            grid(video.height, video.width, frames.size),
            frames,
            frame_times(video, frames),
            decimals=_decimals(options),
        )

    def written(plan: ImagePlan) -> Expansion:
        return one_run(_PAD, int(facts.slots([plan.grid])[0]))

    def stamped(plan: VideoPlan) -> Expansion:
        slots = int(facts.slots([plan.grid])[0]) // plan.grid[0]
        return behind_times(plan.timestamps, (slots,) * plan.grid[0], plan.decimals)

    return Sized(
        facts=facts,
        settings={
            "patch_size": patch,
            "merge_size": merge,
            "min_pixels": limits.min_pixels,
            "max_pixels": limits.max_pixels,
        },
        images=ImageRule(_PAD, lambda height, width: ImagePlan(grid(height, width)), written),
        videos=ClipRule(_VIDEO, clip, stamped),
        dropped_tail="\n",
        canvases=CanvasRule(merge, grid, partial(plan_canvases, facts), write_canvases),
    )


def _decimals(options: VideoOptions) -> int:
    decimals = 1 if options.timestamp_decimals is None else options.timestamp_decimals
    if decimals not in _DECIMALS:
        raise Rejection("bad_record", f"timestamp_decimal is {decimals}; give 1 or 2")
    return decimals


def fitted(height: int, width: int, factor: int, limits: ImageLimits) -> tuple[int, int]:
    """Return the height and width, pixels, that the vision tower sees.

    The training encoder first brings a short side to 28 pixels and leaves the other one, and
    squeezes an image of aspect ratio above 200, which is refused here.

    Raises:
        Rejection: `aspect_ratio`.
    """
    height, width = max(height, _SMALLEST_SIDE), max(width, _SMALLEST_SIDE)
    return fit_image(height, width, factor, limits.min_pixels, limits.max_pixels)


def behind_times(times: Sequence[float], slots: Sequence[int], decimals: int = 1) -> Expansion:
    """Write one block a frame: its time, then its slots.

    Args:
        times: (n,) seconds.
        slots: (n,) token slots of each frame.
        decimals: of the times.
    """
    text = "".join(f"<{time:.{decimals}f} seconds>{_IMAGE}\n" for time in times)
    return Expansion(text, tuple(slots))


def plan_canvases(
    facts: ModelFacts, grid: Grid, positions: NDArray[np.int64], options: VideoOptions
) -> VideoPlan:
    """Tell which frames canvases show, and which blocks of slots they become.

    Matches the training encoder: without `fps` a block is a canvas, with it a run of slots of one
    frame, and frames are stamped in rising order.

    Raises:
        Rejection: `bad_media_ref`, a frame comes back after another one; `bad_record`, windows by
            time are asked for and frames share canvases.
    """
    frames, slots = canvas_frames(positions, facts.merge_size)
    whole = int(facts.slots([grid])[0]) // grid[0]
    apart = slots.tolist() == [whole] * grid[0]
    if facts.vit_windows is VitWindows.TEMPORAL and not apart:
        message = "frames share canvases, and their windows by time are no part of a grid"
        raise Rejection("bad_record", f"{message}; encode with --vit-windows frames")
    if options.fps is None:
        blocks = (whole,) * grid[0]
        return VideoPlan(grid, frames.astype(np.int32), (), blocks=blocks)
    if (np.diff(frames) <= 0).any():
        message = "frames of canvases do not rise, and are stamped as if they did"
        raise Rejection("bad_media_ref", f"{message}; order the patches by time")
    decimals = _decimals(options)
    times = tuple(round(frame / options.fps, decimals) for frame in frames.tolist())
    blocks = tuple(slots.tolist())
    return VideoPlan(grid, frames.astype(np.int32), times, decimals=decimals, blocks=blocks)


def write_canvases(plan: VideoPlan, between: str) -> Expansion:
    """Write one block a frame behind its time, or without times one block a canvas."""
    if plan.timestamps:
        return behind_times(plan.timestamps, plan.blocks, plan.decimals)
    return Expansion(between.join([_IMAGE] * len(plan.blocks)), plan.blocks)


def canvas_frames(
    positions: NDArray[np.integer], merge_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tell which frames a run of canvases shows, where a canvas may hold patches of several.

    Args:
        positions: (N, 3) patch positions in block order; the first column is the frame.
        merge_size: patches per side of a slot.

    Returns:
        (n,) int64 frames as they follow each other, and (n,) int64 slots of each.
    """
    frames = np.asarray(positions, dtype=np.int64)[:: merge_size**2, 0]
    starts = np.flatnonzero(np.diff(frames, prepend=frames[:1] - 1))
    return frames[starts], np.diff(np.append(starts, frames.size))
