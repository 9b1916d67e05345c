"""Families that tell slots from sizes alone: one rule for images, at most one for videos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from packcli.contract.errors import Rejection
from packcli.families.family import NO_LIMITS, NO_OPTIONS, Expansion, ImagePlan
from packcli.families.processors.resize import check_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packcli.contract.model import ModelFacts
    from packcli.families.family import (
        CanvasRule,
        PixelLimits,
        Setting,
        VideoMetadata,
        VideoOptions,
        VideoPlan,
    )


@dataclass(frozen=True, slots=True)
class ImageRule:
    """What becomes of an image.

    Attributes:
        placeholder: the text that one image replaces.
        plan: from height and width, pixels, to patches.
        write: the text that takes the placeholder's place.
        among_others: `plan` of an image that is not the only one of its record; None where that
            makes no difference.
    """

    placeholder: str
    plan: Callable[[int, int], ImagePlan]
    write: Callable[[ImagePlan], Expansion]
    among_others: Callable[[int, int], ImagePlan] | None = None


@dataclass(frozen=True, slots=True)
class ClipRule:
    """What becomes of a video.

    Attributes:
        placeholder: the text that one video replaces.
        plan: which frames are taken, and their patches.
        write: the text that takes the placeholder's place.
    """

    placeholder: str
    plan: Callable[[VideoMetadata, VideoOptions], VideoPlan]
    write: Callable[[VideoPlan], Expansion]


@dataclass(frozen=True, slots=True)
class Sized:
    """One opened model directory; see `family.Family` for what each member answers."""

    facts: ModelFacts
    settings: Mapping[str, Setting]
    images: ImageRule
    videos: ClipRule | None = None
    dropped_tail: str = ""
    canvases: CanvasRule | None = None

    @property
    def name(self) -> str:
        """The family file."""
        return self.facts.family

    @property
    def image_placeholder(self) -> str:
        """The text that one image replaces."""
        return self.images.placeholder

    @property
    def video_placeholder(self) -> str | None:
        """The text that one video replaces, None where the family takes none."""
        return None if self.videos is None else self.videos.placeholder

    def image_plan(
        self, height: int, width: int, limits: PixelLimits = NO_LIMITS, *, images: int = 1
    ) -> ImagePlan:
        """Patches of an image.

        Raises:
            Rejection: `media_empty`, `aspect_ratio`, or `bad_record` for limits: these
                processors know none.
        """
        if limits != NO_LIMITS:
            raise Rejection(
                "bad_record",
                f"the {self.name} processor knows no min_pixels and max_pixels; leave them out",
            )
        check_pixels(height, width)
        alone = images == 1 or self.images.among_others is None
        plan = self.images.plan if alone else self.images.among_others
        assert plan is not None  # noqa: S101 - told by the line before
        return plan(height, width)

    def video_plan(self, video: VideoMetadata, options: VideoOptions = NO_OPTIONS) -> VideoPlan:
        """Frames, times and patches of a video.

        Raises:
            Rejection: as the rule's `plan`, or `bad_record` where the family takes no video.
        """
        if self.videos is None:
            self._no_video()
        check_shape(video.height, video.width)
        if not video.fps > 0:
            raise Rejection("media_undecodable", f"video has fps {video.fps}; write it anew")
        return self.videos.plan(video, options)

    def expand_image(self, plan: ImagePlan) -> Expansion:
        """Return the text that replaces `image_placeholder`."""
        return self.images.write(plan)

    def expand_video(self, plan: VideoPlan) -> Expansion:
        """Return the text that replaces `video_placeholder`."""
        if self.videos is None:
            self._no_video()
        return self.videos.write(plan)

    def _no_video(self) -> NoReturn:
        raise Rejection(
            "bad_record",
            f"packcli writes no videos for {self.name} yet; drop the video, or give its frames "
            "as images",
        )


def check_pixels(height: int, width: int) -> None:
    """Refuse an image without pixels.

    Raises:
        Rejection: `media_empty`.
    """
    if min(height, width) < 1:
        raise Rejection("media_empty", f"size {width}x{height} has no pixels; replace the file")


def always(plan: ImagePlan) -> Callable[[int, int], ImagePlan]:
    """Return the rule of a family to which all images are alike."""

    def same(_height: int, _width: int) -> ImagePlan:
        return plan

    return same


def one_run(pad: str, slots: int) -> Expansion:
    """Return the text of slots that stand side by side, with nothing around them."""
    return Expansion(pad, (slots,))


def in_line(slots: int) -> ImagePlan:
    """Return the plan of slots that form no rectangle."""
    return ImagePlan((1, 1, slots))
