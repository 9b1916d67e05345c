"""Sizes that keep the aspect ratio, fit a pixel budget and divide into whole merged patches."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

from packcli.contract.errors import Rejection

_MAX_ASPECT = 200
_FLOOR_SLACK = 1.05
_BUDGET_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Clip:
    """A video as it is resized: frames taken, and each frame's height and width in pixels."""

    frames: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class ClipBudget:
    """How many pixels a clip may have.

    Attributes:
        factor: pixels per side of a merged patch.
        temporal: frames per temporal patch.
        min_pixels: pixels after resizing, at least.
        max_pixels: pixels after resizing, at most.
        max_video_tokens: tokens from which the cap is computed; None when there is no cap.
    """

    factor: int
    temporal: int
    min_pixels: int
    max_pixels: int
    max_video_tokens: int | None = None


def fit_image(
    height: int, width: int, factor: int, min_pixels: int, max_pixels: int
) -> tuple[int, int]:
    """Return the height and width, pixels, to which an image is resized.

    Matches transformers' `smart_resize` (models/qwen2_vl).

    Raises:
        Rejection: `media_empty`, or `aspect_ratio` beyond 200.
    """
    check_shape(height, width)
    # round() halves to even, as upstream: another rounding moves the grid by a whole row
    new_height = round(height / factor) * factor
    new_width = round(width / factor) * factor
    area = new_height * new_width
    if area > max_pixels:
        shrink = sqrt((height * width) / max_pixels)
        new_height = max(factor, floor(height / shrink / factor) * factor)
        new_width = max(factor, floor(width / shrink / factor) * factor)
    elif area < min_pixels:
        grow = sqrt(min_pixels / (height * width))
        new_height = ceil(height * grow / factor) * factor
        new_width = ceil(width * grow / factor) * factor
    return new_height, new_width


def fit_each_frame(clip: Clip, budget: ClipBudget) -> tuple[int, int]:
    """Return the size of frames whose budget counts for one frame.

    Matches transformers' `Qwen2VLVideoProcessor.resize` (models/qwen2_vl).

    Raises:
        Rejection: as `fit_image`.
    """
    most = budget.max_pixels
    if budget.max_video_tokens is not None:
        total = int(budget.max_video_tokens * budget.factor * budget.factor * _BUDGET_SHARE)
        share = total * budget.temporal // clip.frames
        most = max(min(most, share), int(budget.min_pixels * _FLOOR_SLACK))
    return fit_image(clip.height, clip.width, budget.factor, budget.min_pixels, most)


def fit_volume(clip: Clip, budget: ClipBudget) -> tuple[int, int]:
    """Return the size of frames whose budget counts for the clip: frames x height x width.

    Matches transformers' `smart_resize` and `Qwen3VLVideoProcessor.resize` (models/qwen3_vl).

    Raises:
        Rejection: `media_empty`, or `aspect_ratio` beyond 200.
    """
    factor = budget.factor
    height, width = _at_least_one_patch(clip, factor)
    new_height = round(height / factor) * factor
    new_width = round(width / factor) * factor
    volume = round(clip.frames / budget.temporal) * budget.temporal * new_height * new_width
    most = _volume_cap(clip, budget)
    if volume > most:
        shrink = sqrt((clip.frames * height * width) / most)
        new_height = max(factor, floor(height / shrink / factor) * factor)
        new_width = max(factor, floor(width / shrink / factor) * factor)
    elif volume < budget.min_pixels:
        grow = sqrt(budget.min_pixels / (clip.frames * height * width))
        new_height = ceil(height * grow / factor) * factor
        new_width = ceil(width * grow / factor) * factor
    return new_height, new_width


def check_shape(height: int, width: int) -> None:
    """Refuse what cannot be resized.

    Raises:
        Rejection: `media_empty`, or `aspect_ratio` beyond 200.
    """
    short, long = (height, width) if height < width else (width, height)
    if short < 1:
        raise Rejection("media_empty", f"size {width}x{height} has no pixels; replace the file")
    if long / short > _MAX_ASPECT:
        raise Rejection(
            "aspect_ratio",
            f"{width}x{height} has aspect ratio {long / short:.2f}, at most {_MAX_ASPECT} can be "
            "resized; crop it or drop the record",
        )


def _at_least_one_patch(clip: Clip, factor: int) -> tuple[int, int]:
    height, width = clip.height, clip.width
    if min(height, width) < 1:
        check_shape(height, width)
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    check_shape(height, width)
    return height, width


def _volume_cap(clip: Clip, budget: ClipBudget) -> int:
    if budget.max_video_tokens is None:
        return budget.max_pixels
    frame_cap = budget.max_video_tokens * budget.factor * budget.factor
    share = min(frame_cap, budget.max_pixels // clip.frames)
    return max(share, int(budget.min_pixels * _FLOOR_SLACK)) * clip.frames
