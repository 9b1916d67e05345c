"""Sampling and sizes of one medium: what the run asks for, and the record over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from packcli.contract.errors import Rejection
from packcli.families.family import PixelLimits, VideoOptions

if TYPE_CHECKING:
    from packcli.encode.records.conversation import MediaRef

Limits = TypeVar("Limits", PixelLimits, VideoOptions)

_PIXELS = ("min_pixels", "max_pixels")
_WHOLE = ("num_frames", "min_frames", "max_frames", *_PIXELS, "timestamp_decimals")


def contradiction(limits: PixelLimits | VideoOptions) -> str | None:
    """Say which least is above its most, and what to do; None where none is."""
    for what in ("pixels", "frames"):
        low = getattr(limits, f"min_{what}", None)
        high = getattr(limits, f"max_{what}", None)
        if low is not None and high is not None and low > high:
            return f"min_{what} {low} is above max_{what} {high}; lower the one or raise the other"
    return None


def image_limits(ref: MediaRef, run: PixelLimits) -> PixelLimits:
    """Return the limits of an image: its record's own go before those of the run.

    Raises:
        Rejection: `bad_record`, they contradict each other.
    """
    if not ref.options:
        return run
    own = {name: int(ref.options[name]) for name in _PIXELS if name in ref.options}
    return _agreeing(replace(run, **own))


def video_options(ref: MediaRef, run: VideoOptions) -> VideoOptions:
    """Return sampling and sizes of a video: its record's own go before those of the run.

    Raises:
        Rejection: `bad_record`, they contradict each other.
    """
    if not ref.options:
        return run
    own: dict[str, Any] = {name: int(ref.options[name]) for name in _WHOLE if name in ref.options}
    if ref.options.get("fps") is not None:
        own["fps"] = float(ref.options["fps"])
    return _agreeing(replace(run, **own))


def _agreeing(limits: Limits) -> Limits:
    if told := contradiction(limits):
        raise Rejection("bad_record", told)
    return limits
