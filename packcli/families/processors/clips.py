"""How many frames are taken by processors that know no more than a rate or a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection
from packcli.families.processors.model_files import Values, flag, number, whole

if TYPE_CHECKING:
    from packcli.families.family import Setting, VideoMetadata, VideoOptions

_UNKNOWN = ("min_frames", "max_frames", "min_pixels", "max_pixels", "cap_pixels_per_frame")


@dataclass(frozen=True, slots=True)
class FrameCount:
    """What a video processor's file says.

    Attributes:
        family: for messages.
        sampled: whether frames are sampled when nobody asks for it.
        fps: frames to take per second.
        num_frames: frames to take; goes before `fps`.
    """

    family: str
    sampled: bool = False
    fps: float | None = None
    num_frames: int | None = None

    @property
    def settings(self) -> dict[str, Setting]:
        """What decides lengths."""
        return {
            "video_do_sample_frames": self.sampled,
            "video_fps": self.fps,
            "video_num_frames": self.num_frames,
        }

    def of(self, video: VideoMetadata, options: VideoOptions) -> int | None:
        """Tell how many frames to take, None for all.

        Matches `BaseVideoProcessor.sample_frames` and `default_sample_indices_fn`
        (video_processing_utils, video_utils).

        Raises:
            Rejection: `bad_record` for options that exclude each other or mean nothing here.
        """
        self._check(options)
        asked = options.fps is not None or options.num_frames is not None
        if video.listed or not (asked or self.sampled):
            return None
        fps = options.fps if asked else self.fps
        count = options.num_frames if asked else self.num_frames
        if count is not None or fps is None:
            return count
        return max(1, int(video.frames / video.fps * fps))

    def _check(self, options: VideoOptions) -> None:
        for name in _UNKNOWN:
            if getattr(options, name) is not None:
                raise Rejection("bad_record", f"{self.family} knows no {name}; leave it out")
        if options.fps is not None and options.num_frames is not None:
            raise Rejection("bad_record", "fps and num_frames exclude each other; give one")
        for name, value in (("fps", options.fps), ("num_frames", options.num_frames)):
            if value is not None and not value > 0:
                raise Rejection("bad_record", f"{name} must be above 0, found {value}; correct it")


def read_frame_count(family: str, values: Values, defaults: FrameCount) -> FrameCount:
    """Read a video processor's file.

    Args:
        family: for messages.
        values: of the file.
        defaults: what it may leave out.

    Raises:
        InputError: a value has the wrong type.
    """
    fps = defaults.fps if values.get("fps") is None else number(values, "fps", 0)
    count = defaults.num_frames
    if values.get("num_frames") is not None:
        count = whole(values, "num_frames", 1)
    sampled = flag(values, "do_sample_frames", default=defaults.sampled)
    return FrameCount(family, sampled, fps, count)
