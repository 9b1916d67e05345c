"""Families that keep a medium's own resolution: whatever its size, a grid of whole patches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import Rejection
from packcli.families.family import (
    NO_LIMITS,
    NO_OPTIONS,
    Expansion,
    ImagePlan,
    PixelLimits,
    Setting,
    VideoMetadata,
    VideoOptions,
    VideoPlan,
    VideoWrapper,
)
from packcli.families.processors.frames import Sampling, frame_times, patch_times
from packcli.families.processors.resize import Clip, ClipBudget, fit_image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from packcli.contract.model import Grid, ModelFacts

_IMAGE_PAD = "<|image_pad|>"
_VIDEO_PAD = "<|video_pad|>"
_WRAPPED_VIDEO = f"<|vision_start|>{_VIDEO_PAD}<|vision_end|>"


@dataclass(frozen=True, slots=True)
class Patches:
    """How pixels become slots.

    Attributes:
        patch_size: pixels per side of a patch.
        merge_size: patches per side of a slot.
        temporal_patch_size: frames per patch.
    """

    patch_size: int
    merge_size: int
    temporal_patch_size: int


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Pixels of a resized image."""

    min_pixels: int
    max_pixels: int


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Numbers of the video processor.

    Attributes:
        min_pixels: pixels of a frame or of the clip (see `VideoRule.fit`), at least.
        max_pixels: the same, at most.
        fps: frames to take per second, None for no rate.
        num_frames: frames to take, None to follow `fps`.
        min_frames: frames to take by `fps`, at least.
        max_frames: frames to take by `fps`, at most.
        do_sample_frames: whether frames are sampled when nobody asks for it.
        cap_pixels_per_frame: whether the token budget bounds a frame's size.
        max_video_tokens: the budget of that cap, tokens.
    """

    min_pixels: int
    max_pixels: int
    fps: float | None
    num_frames: int | None
    min_frames: int
    max_frames: int
    do_sample_frames: bool
    cap_pixels_per_frame: bool
    max_video_tokens: int


@dataclass(frozen=True, slots=True)
class VideoRule:
    """What differs between generations.

    Attributes:
        sample: takes frames, one of `frames.stepped_frames` and `frames.spread_frames`.
        fit: sizes frames, one of `resize.fit_each_frame` and `resize.fit_volume`.
        timed: whether positions need seconds per temporal patch.
        stamped: whether each temporal patch stands behind its time, in its own vision tokens.
    """

    sample: Callable[[int, float, Sampling], NDArray[np.int32]]
    fit: Callable[[Clip, ClipBudget], tuple[int, int]]
    timed: bool = False
    stamped: bool = False


@dataclass(frozen=True, slots=True)
class NativeResolution:
    """One opened model directory; see `family.Family` for what each member answers."""

    facts: ModelFacts
    patches: Patches
    images: ImageLimits
    videos: VideoLimits
    rule: VideoRule
    video_wrapper: VideoWrapper
    dropped_tail: str = ""
    canvases: None = None

    @property
    def name(self) -> str:
        """The family file."""
        return self.facts.family

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Every number that decides lengths."""
        return {
            **asdict(self.patches),
            **{f"image_{key}": value for key, value in asdict(self.images).items()},
            **{f"video_{key}": value for key, value in asdict(self.videos).items()},
            "video_wrapper": self.video_wrapper if self.rule.stamped else None,
        }

    @property
    def image_placeholder(self) -> str:
        """The text that one image replaces."""
        return _IMAGE_PAD

    @property
    def video_placeholder(self) -> str:
        """The text that one video replaces."""
        replaced = self.rule.stamped and self.video_wrapper == "legacy"
        return _WRAPPED_VIDEO if replaced else _VIDEO_PAD

    def image_plan(
        self, height: int, width: int, limits: PixelLimits = NO_LIMITS, *, images: int = 1
    ) -> ImagePlan:
        """Patches of an image.

        Args:
            height: pixels, after EXIF orientation.
            width: pixels, after EXIF orientation.
            limits: set by this call or record.
            images: of no account here.

        Raises:
            Rejection: `aspect_ratio`, `media_empty`, or `bad_record` for a limit below 1.
        """
        del images
        patch = self.patches.patch_size
        low, high = self.images.min_pixels, self.images.max_pixels
        if limits is not NO_LIMITS:
            low = _override("min_pixels", limits.min_pixels, low)
            high = _override("max_pixels", limits.max_pixels, high)
        rows, columns = fit_image(height, width, patch * self.patches.merge_size, low, high)
        return ImagePlan((1, rows // patch, columns // patch))

    def video_plan(self, video: VideoMetadata, options: VideoOptions = NO_OPTIONS) -> VideoPlan:
        """Frames, times and patches of a video.

        Raises:
            Rejection: `video_too_short`, `aspect_ratio`, `media_empty`, or `bad_record` for
                options that exclude each other.
        """
        temporal, patch = self.patches.temporal_patch_size, self.patches.patch_size
        frames = self._frames(video, options)
        if frames.size < temporal:
            raise Rejection(
                "video_too_short",
                f"{frames.size} of {video.frames} frames taken, a temporal patch needs {temporal}; "
                "use a longer video, raise fps or min_frames, or drop the record",
            )
        clip = Clip(frames=frames.size, height=video.height, width=video.width)
        height, width = self.rule.fit(clip, self._budget(options))
        pairs = -(-frames.size // temporal)
        sampled_fps = frames.size / video.frames * video.fps
        return VideoPlan(
            grid=(pairs, height // patch, width // patch),
            frame_indices=frames,
            timestamps=patch_times(frame_times(video, frames), temporal),
            second_per_grid=temporal / sampled_fps if self.rule.timed else None,
        )

    def expand_image(self, plan: ImagePlan) -> Expansion:
        """Return the text that replaces `image_placeholder`."""
        return Expansion(_IMAGE_PAD, (self._slots(plan.grid),))

    def expand_video(self, plan: VideoPlan) -> Expansion:
        """Return the text that replaces `video_placeholder`.

        Matches transformers' `replace_video_token` (models/qwen2_vl, models/qwen3_vl); times have
        one decimal.
        """
        if not self.rule.stamped:
            return Expansion(_VIDEO_PAD, (self._slots(plan.grid),))
        pairs, rows, columns = plan.grid
        text = "".join(f"<{time:.1f} seconds>{_WRAPPED_VIDEO}" for time in plan.timestamps)
        return Expansion(text, (self._slots((1, rows, columns)),) * pairs)

    def _slots(self, grid: Grid) -> int:
        pairs, rows, columns = grid
        return pairs * rows * columns // self.patches.merge_size**2

    def _frames(self, video: VideoMetadata, options: VideoOptions) -> NDArray[np.int32]:
        if not video.fps > 0:
            raise Rejection("media_undecodable", f"video has fps {video.fps}; write it anew")
        asked = options.fps is not None or options.num_frames is not None
        if video.listed or not (asked or self.videos.do_sample_frames):
            if not video.listed and (options.min_frames, options.max_frames) != (None, None):
                raise Rejection(
                    "bad_record",
                    f"{self.name} takes every frame unless fps is given, so min_frames and "
                    "max_frames mean nothing; give fps too",
                )
            return np.arange(video.frames, dtype=np.int32)
        if video.frames < 1:
            return np.empty(0, dtype=np.int32)
        return self.rule.sample(video.frames, video.fps, self._sampling(options))

    def _sampling(self, options: VideoOptions) -> Sampling:
        if options.fps is not None and options.num_frames is not None:
            raise Rejection("bad_record", "fps and num_frames exclude each other; give one")
        if options.fps is not None and not options.fps > 0:
            raise Rejection("bad_record", f"fps must be above 0, found {options.fps}; correct it")
        own = self.videos
        count = options.num_frames
        if count is None and options.fps is None:
            count = own.num_frames
        return Sampling(
            temporal=self.patches.temporal_patch_size,
            fps=own.fps if options.fps is None else options.fps,
            num_frames=None if count is None else _override("num_frames", count, count),
            min_frames=_override("min_frames", options.min_frames, own.min_frames),
            max_frames=_override("max_frames", options.max_frames, own.max_frames),
        )

    def _budget(self, options: VideoOptions) -> ClipBudget:
        capped = options.cap_pixels_per_frame
        if capped is None:
            capped = self.videos.cap_pixels_per_frame
        return ClipBudget(
            factor=self.patches.patch_size * self.patches.merge_size,
            temporal=self.patches.temporal_patch_size,
            min_pixels=_override("min_pixels", options.min_pixels, self.videos.min_pixels),
            max_pixels=_override("max_pixels", options.max_pixels, self.videos.max_pixels),
            max_video_tokens=self.videos.max_video_tokens if capped else None,
        )


def _override(name: str, value: int | None, own: int) -> int:
    if value is None:
        return own
    if value < 1:
        raise Rejection("bad_record", f"{name} must be at least 1, found {value}; correct it")
    return value
