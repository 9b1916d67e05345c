"""Which frames of a video are taken, and the time that each temporal patch stands for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from packcli.families.family import VideoMetadata

_LANES = 8
_UNROLLED = 2 * _LANES


@dataclass(frozen=True, slots=True)
class Sampling:
    """How densely to look.

    Attributes:
        temporal: frames per temporal patch.
        fps: frames to take per second.
        num_frames: frames to take; goes before `fps`.
        min_frames: frames to take by `fps`, at least.
        max_frames: frames to take by `fps`, at most.
    """

    temporal: int
    fps: float | None
    num_frames: int | None
    min_frames: int
    max_frames: int


def stepped_frames(total: int, fps: float, sampling: Sampling) -> NDArray[np.int32]:
    """Take a whole number of temporal patches at a constant, cut-off step.

    Matches transformers' `Qwen2VLVideoProcessor.sample_frames` (models/qwen2_vl).

    Args:
        total: frames in the video.
        fps: the video's own frames per second.
        sampling: how densely to look.

    Returns:
        (frames taken,) int32, frame numbers.

    Raises:
        Rejection: `video_too_short` when fewer frames exist than are asked for.
    """
    unit = sampling.temporal
    if sampling.num_frames is not None:
        count = round(sampling.num_frames / unit) * unit
    elif sampling.fps is not None:
        most = floor(min(sampling.max_frames, total) / unit) * unit
        count = floor(min(max(total / fps * sampling.fps, sampling.min_frames), most) / unit) * unit
    else:
        return np.arange(total, dtype=np.int32)
    if count > total:
        raise Rejection(
            "video_too_short", f"{total} frames, {count} asked for; lower num_frames or drop it"
        )
    return float_steps(total, count) if count else np.empty(0, dtype=np.int32)


def spread_frames(total: int, fps: float, sampling: Sampling) -> NDArray[np.int32]:
    """Take frames evenly from the first to the last one.

    Matches transformers' `Qwen3VLVideoProcessor.sample_frames` (models/qwen3_vl).

    Args:
        total: frames in the video.
        fps: the video's own frames per second.
        sampling: how densely to look.

    Returns:
        (frames taken,) int32, frame numbers; some repeat when more are asked for than exist.
    """
    count = sampling.num_frames
    if count is None:
        wanted = total if sampling.fps is None else int(total / fps * sampling.fps)
        count = min(max(wanted, sampling.min_frames), sampling.max_frames, total)
    return np.linspace(0, total - 1, count).round().astype(np.int32)


def patch_times(times: Sequence[float], temporal: int) -> tuple[float, ...]:
    """Return the middle between each temporal patch's first and last frame.

    Matches transformers' `_calculate_timestamps` (models/qwen3_vl): the last frame is repeated
    until the patch is full.

    Args:
        times: (frames taken,) seconds.
        temporal: frames per temporal patch.

    Returns:
        (ceil(frames / temporal),) seconds.
    """
    last = len(times) - 1
    return tuple(
        (times[first] + times[min(first + temporal - 1, last)]) / 2
        for first in range(0, len(times), temporal)
    )


def even_frames(video: VideoMetadata, count: int | None) -> NDArray[np.int32]:
    """Take frames at equal distances from the first one on.

    Matches transformers' `default_sample_indices_fn` (video_utils).

    Args:
        video: what is known of it.
        count: frames to take, None for all.

    Returns:
        (frames taken,) int32, frame numbers.

    Raises:
        Rejection: `video_too_short` when there are none, or fewer than asked for.
    """
    taken = video.frames if count is None else count
    if video.frames < max(taken, 1):
        raise Rejection(
            "video_too_short",
            f"{video.frames} frames, {taken} asked for; lower num_frames or drop it",
        )
    return (np.arange(taken) * video.frames // taken).astype(np.int32)


def frame_times(video: VideoMetadata, frames: NDArray[np.int32]) -> tuple[float, ...]:
    """Return when frames are shown: true times where they are known, else frame / fps.

    Args:
        video: what is known of it.
        frames: (n,) int32, frame numbers.

    Returns:
        (n,) seconds.
    """
    if video.times is not None:
        return tuple(video.times[index] for index in frames.tolist())
    return tuple(index / video.fps for index in frames.tolist())


def float_steps(total: int, count: int, start: float = 0.0) -> NDArray[np.int32]:
    """Return ``torch.arange(start, total, total / count).int()``, bit for bit.

    torch rounds to float32 the start of every eight values, then each value, and only in whole
    blocks of sixteen; beyond some 5,000 frames that decides which frame is taken. Where rounding
    makes torch add a frame past the end, upstream fails with an IndexError: it is left out here.

    Args:
        total: frames in the video.
        count: frames to take.
        start: the first one, cut off.

    Returns:
        (frames taken,) int32, frame numbers.
    """
    step = total / count
    size = ceil((total - start) / step)
    index = np.arange(size)
    lane = index % _LANES
    starts = (start + (index - lane) * step).astype(np.float32).astype(np.float64)
    values = (starts + lane * step).astype(np.float32)
    tail = size // _UNROLLED * _UNROLLED
    values[tail:] = (start + index[tail:] * step).astype(np.float32)
    frames = values.astype(np.int32)
    return frames[frames < total]
