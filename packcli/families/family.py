"""What every model family answers: grids, frames and the text that stands for one medium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from packcli.contract.model import Grid, ModelFacts, VitWindows
    from packcli.families.processors.model_files import ModelFiles

VideoWrapper = Literal["legacy", "hf5"]
"""How a stamped video stands in the text: outer vision tokens replaced (transformers 4.57) or kept
(transformers 5)."""

Setting = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Choices:
    """What whoever opens a model directory decides.

    Attributes:
        video_wrapper: how stamped videos stand in the text.
        vit_windows: how the windows of LLaVA-OneVision-2's vision tower are read.
    """

    video_wrapper: VideoWrapper
    vit_windows: VitWindows


@dataclass(frozen=True, slots=True)
class PixelLimits:
    """Limits that one call or record sets over the processor's own.

    Attributes:
        min_pixels: pixels after resizing, at least; None keeps the processor's.
        max_pixels: pixels after resizing, at most; None keeps the processor's.
    """

    min_pixels: int | None = None
    max_pixels: int | None = None


@dataclass(frozen=True, slots=True)
class VideoMetadata:
    """What is known of a video without decoding it.

    Attributes:
        frames: frames in the file or in the list.
        fps: frames per second; of a frame list, the list's own rate.
        height: pixels.
        width: pixels.
        times: (frames,) seconds, true presentation times, None when they are ``i / fps``.
        listed: the video is a list of frame images: every frame is used, no sampling.
    """

    frames: int
    fps: float
    height: int
    width: int
    times: tuple[float, ...] | None = None
    listed: bool = False


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """Sampling and size that one call or record sets over the processor's own; None keeps it.

    Attributes:
        fps: frames to take per second; switches sampling on.
        min_frames: frames to take when sampling by fps, at least.
        max_frames: frames to take when sampling by fps, at most.
        num_frames: frames to take; switches sampling on, excludes `fps`.
        min_pixels: pixels of a frame (Qwen2) or of the whole clip (Qwen3), at least.
        max_pixels: the same, at most.
        cap_pixels_per_frame: whether a frame's share of the clip's token budget bounds its size.
        timestamp_decimals: decimals of the times in the text (LLaVA-OneVision-2).
    """

    fps: float | None = None
    min_frames: int | None = None
    max_frames: int | None = None
    num_frames: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    cap_pixels_per_frame: bool | None = None
    timestamp_decimals: int | None = None


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """How an image is cut up.

    Attributes:
        grid: patches; the temporal side counts tiles, an overview of the whole image among them.
            Slots that form no rectangle are one line, [1, 1, slots].
        tiles: rows and columns of tiles, the overview left out.
    """

    grid: Grid
    tiles: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VideoPlan:
    """Which frames of a video are seen, how large, and when.

    Attributes:
        grid: patches; the temporal side counts frame pairs, an odd last frame stands twice.
        frame_indices: (frames taken,) int32, frame numbers in the file, without the repeat.
        timestamps: (grid[0],) seconds, the middle of each temporal patch.
        second_per_grid: seconds per temporal patch, None where positions do not need it.
        decimals: decimals of times in the text.
        blocks: slots of each block of the text, where blocks are not the frames of the grid.
    """

    grid: Grid
    frame_indices: NDArray[np.int32]
    timestamps: tuple[float, ...]
    second_per_grid: float | None = None
    decimals: int = 1
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Expansion:
    """The text that replaces one medium's placeholder.

    Attributes:
        text: holds ``len(slots)`` single pad tokens.
        slots: how often each pad token is repeated, in order.
    """

    text: str
    slots: tuple[int, ...]


NO_LIMITS = PixelLimits()
NO_OPTIONS = VideoOptions()


@dataclass(frozen=True, slots=True)
class CanvasRule:
    """What becomes of images that hold patches of a video's frames.

    Attributes:
        merge_size: patches per side of a slot.
        grid: from height and width, pixels, and the number of canvases to patches.
        plan: from the grid and the (t * h * w, 3) positions of its patches, in the order of the
            pixels, to frames and blocks.
        write: the text of all of them, given the text between two canvases of the record.
    """

    merge_size: int
    grid: Callable[[int, int, int], Grid]
    plan: Callable[[Grid, NDArray[np.int64], VideoOptions], VideoPlan]
    write: Callable[[VideoPlan, str], Expansion]


class Family(Protocol):
    """One model directory, opened.

    Attributes:
        name: the family file.
        facts: what the contract has to know.
        settings: every number that decides lengths, for the manifest's fingerprint.
        image_placeholder: the text in a rendered conversation that one image replaces.
        video_placeholder: the same of a video; None where the family takes none. Without a
            `video_token_id`, the frames of a video fill image slots: it is stored as one image
            grid of as many frames.
        canvases: what becomes of images that hold patches of a video's frames; None in families
            that do not train on such.
        dropped_tail: text at the end of a rendered conversation that the model's own trainer
            leaves out; empty in most families.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described in the class docstring
    @property
    def facts(self) -> ModelFacts: ...  # noqa: D102 - described in the class docstring
    @property
    def settings(self) -> Mapping[str, Setting]: ...  # noqa: D102 - as above
    @property
    def image_placeholder(self) -> str | None: ...  # noqa: D102 - as above
    @property
    def video_placeholder(self) -> str | None: ...  # noqa: D102 - as above

    @property
    def canvases(self) -> CanvasRule | None: ...  # noqa: D102 - as above

    @property
    def dropped_tail(self) -> str: ...  # noqa: D102 - as above

    def image_plan(
        self, height: int, width: int, limits: PixelLimits = NO_LIMITS, *, images: int = 1
    ) -> ImagePlan:
        """Patches of an image of this size, pixels; Rejection `aspect_ratio` if too elongated.

        `images` is how many the record holds: some families cut up only a lone one.
        """
        ...

    def video_plan(self, video: VideoMetadata, options: VideoOptions = NO_OPTIONS) -> VideoPlan:
        """Frames, times and patches; Rejection `video_too_short` or `aspect_ratio`."""
        ...

    def expand_image(self, plan: ImagePlan) -> Expansion:
        """Text that replaces `image_placeholder`."""
        ...

    def expand_video(self, plan: VideoPlan) -> Expansion:
        """Text that replaces `video_placeholder`."""
        ...


class FamilyFile(Protocol):
    """What a file in this folder declares.

    Attributes:
        MODEL_TYPES: the `model_type` values of config.json that it opens.
    """

    MODEL_TYPES: tuple[str, ...]

    @staticmethod
    def open_model(files: ModelFiles, choices: Choices) -> Family:
        """Open one model directory; InputError when its files cannot be used."""
        ...
