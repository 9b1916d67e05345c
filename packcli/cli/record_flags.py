"""Flags that decide what becomes of a record: those of `encode` and `lint`."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from packcli.cli.flags import choice_flag, count_flag
from packcli.cli.models import model_directory
from packcli.encode.records.media_refs import MOST_FRAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.encode.options import EncodeJob

Command = TypeVar("Command", bound="Callable[..., Any]")


def _finite(
    ctx: click.Context | None, param: click.Parameter | None, value: float | None
) -> float | None:
    """Refuse NaN, which no comparison of a range does."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is not a number", ctx, param)
    return value


_FLAGS = (
    click.option("--model", required=True, help="Model directory, or a repository on the hub."),
    click.option(
        "--media-root",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder of relative media paths.  [default: the input's folder]",
    ),
    click.option(
        "--allow-outside-root", is_flag=True, help="Media may lie outside the media root."
    ),
    click.option(
        "--max-length", type=click.IntRange(1), help="Tokens; longer samples are rejected."
    ),
    choice_flag("--over-length", ("reject", "error"), "What an over-long sample does."),
    click.option(
        "--min-pixels", type=click.IntRange(1), help="Pixels of an image after resizing, at least."
    ),
    click.option(
        "--max-pixels", type=click.IntRange(1), help="Pixels of an image after resizing, at most."
    ),
    click.option(
        "--fps",
        type=click.FloatRange(0, 1000, min_open=True),
        callback=_finite,
        help="Frames to take of a second of video.",
    ),
    click.option(
        "--num-frames", type=click.IntRange(1, MOST_FRAMES), help="Frames to take of a video."
    ),
    click.option(
        "--min-frames",
        type=click.IntRange(1, MOST_FRAMES),
        help="Frames to take of a video, at least.",
    ),
    click.option(
        "--max-frames",
        type=click.IntRange(1, MOST_FRAMES),
        help="Frames to take of a video, at most.",
    ),
    click.option(
        "--video-min-pixels", type=click.IntRange(1), help="As the video processor counts them."
    ),
    click.option(
        "--video-max-pixels", type=click.IntRange(1), help="As the video processor counts them."
    ),
    choice_flag(
        "--video-wrapper",
        ("auto", "legacy", "hf5"),
        "Qwen3 videos: outer vision tokens replaced (transformers 4) or kept (5).",
    ),
    click.option(
        "--vit-windows",
        type=click.Choice(["frames", "temporal"]),
        help="LLaVA-OneVision-2: windows of four frames, or of one temporal index.  "
        "[default: frames]",
    ),
    choice_flag(
        "--exif",
        ("apply", "ignore"),
        "Whether EXIF orientation turns an image before it is measured.",
    ),
    click.option("--max-image-pixels", type=click.IntRange(1), help="Larger images are rejected."),
    choice_flag(
        "--check-media", ("header", "decode"), "Decode images and videos to prove that they can be."
    ),
    choice_flag("--supervise", ("all", "last"), "Which assistant turns are learnt."),
    click.option(
        "--loss-scale", is_flag=True, help="Keep loss weights of turns in a column loss_scale."
    ),
    click.option(
        "--embed-media", is_flag=True, help="Store the bytes of media in OUTPUT/media, once each."
    ),
    click.option(
        "--allow-remote-media",
        is_flag=True,
        help="Fetch media from http(s) addresses, if they are public.",
    ),
    choice_flag(
        "--tokenizer",
        ("auto", "fast", "hf"),
        "fastokens where it gives the same ids; fastokens or nothing; tokenizers.",
    ),
    click.option("--limit", type=click.IntRange(1), help="Records to read, the first of all."),
    click.option(
        "--max-reject-rate",
        type=click.FloatRange(0, 1),
        callback=_finite,
        default=0.01,
        show_default=True,
        help="Share of rejected records above which the exit status is 1.",
    ),
    count_flag("--num-proc", "Processes."),
)


def record_flags(command: Command) -> Command:
    """Give a command the flags of this module."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def job_of(flags: dict[str, Any]) -> EncodeJob:
    """Build what encode needs from flags by name."""
    from packcli.encode.options import EncodeJob

    directory = model_directory(flags["model"])
    return EncodeJob(directory, flags["media_root"], _options(flags), flags["tokenizer"])


def _options(flags: dict[str, Any]) -> Any:  # noqa: ANN401 - EncodeOptions, imported late
    from packcli.encode.media.images import MAX_PIXELS, ImagePolicy
    from packcli.encode.options import EncodeOptions
    from packcli.families.family import PixelLimits, VideoOptions

    exif: Literal["apply", "ignore"] = flags["exif"]
    return EncodeOptions(
        max_length=flags["max_length"],
        over_length=flags["over_length"],
        pixels=PixelLimits(flags["min_pixels"], flags["max_pixels"]),
        video=VideoOptions(
            fps=flags["fps"],
            num_frames=flags["num_frames"],
            min_frames=flags["min_frames"],
            max_frames=flags["max_frames"],
            min_pixels=flags["video_min_pixels"],
            max_pixels=flags["video_max_pixels"],
        ),
        images=ImagePolicy(
            exif, flags["max_image_pixels"] or MAX_PIXELS, flags["check_media"] == "decode"
        ),
        supervise=flags["supervise"],
        allow_outside_root=flags["allow_outside_root"],
        video_wrapper=flags["video_wrapper"],
        vit_windows=flags["vit_windows"],
        loss_scale=flags["loss_scale"],
        limit=flags["limit"],
        embed_media=flags["embed_media"],
        allow_remote_media=flags["allow_remote_media"],
    )
