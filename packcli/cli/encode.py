"""`packcli encode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from packcli.cli.models import model_directory
from packcli.cli.progress import as_json, no_progress, progress

if TYPE_CHECKING:
    from packcli.encode.run import EncodeSummary

_EPILOG = """\b
Examples, on the bundled data:
  packcli encode sample_data/chats.jsonl --model sample_data/models/qwen3_vl -o encoded
  packcli encode sample_data/chats.jsonl --model sample_data/models/qwen2_5_vl \\
      -o short --max-length 512 --max-reject-rate 0.5
"""


@click.command(epilog=_EPILOG)
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option("--model", required=True, help="Model directory, or a repository on the hub.")
@click.option(
    "--media-root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of relative media paths.  [default: the input's folder]",
)
@click.option("--allow-outside-root", is_flag=True, help="Media may lie outside the media root.")
@click.option("--max-length", type=click.IntRange(1), help="Tokens; longer samples are rejected.")
@click.option(
    "--over-length",
    type=click.Choice(["reject", "error"]),
    default="reject",
    show_default=True,
    help="What an over-long sample does.",
)
@click.option(
    "--max-reject-rate",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Share of rejected records above which the exit status is 1.",
)
@click.option(
    "--min-pixels", type=click.IntRange(1), help="Pixels of an image after resizing, at least."
)
@click.option(
    "--max-pixels", type=click.IntRange(1), help="Pixels of an image after resizing, at most."
)
@click.option(
    "--fps", type=click.FloatRange(0, min_open=True), help="Frames to take of a second of video."
)
@click.option("--num-frames", type=click.IntRange(1), help="Frames to take of a video.")
@click.option("--min-frames", type=click.IntRange(1), help="Frames to take of a video, at least.")
@click.option("--max-frames", type=click.IntRange(1), help="Frames to take of a video, at most.")
@click.option(
    "--video-min-pixels", type=click.IntRange(1), help="As the video processor counts them."
)
@click.option(
    "--video-max-pixels", type=click.IntRange(1), help="As the video processor counts them."
)
@click.option(
    "--video-wrapper",
    type=click.Choice(["auto", "legacy", "hf5"]),
    default="auto",
    show_default=True,
    help="Qwen3 videos: outer vision tokens replaced (transformers 4) or kept (5).",
)
@click.option(
    "--exif",
    type=click.Choice(["apply", "ignore"]),
    default="apply",
    show_default=True,
    help="Whether EXIF orientation turns an image before it is measured.",
)
@click.option("--max-image-pixels", type=click.IntRange(1), help="Larger images are rejected.")
@click.option(
    "--check-media",
    type=click.Choice(["header", "decode"]),
    default="header",
    show_default=True,
    help="Decode images to prove that they can be.",
)
@click.option(
    "--supervise",
    type=click.Choice(["all", "last"]),
    default="all",
    show_default=True,
    help="Which assistant turns are learnt.",
)
@click.option(
    "--loss-scale", is_flag=True, help="Keep loss weights of turns in a column loss_scale."
)
@click.option("--num-proc", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--resume/--no-resume", default=True, show_default=True, help="Go on with unfinished work."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset that packcli wrote there.")
@as_json
@no_progress
def command(
    inputs: tuple[Path, ...],
    output: Path,
    model: str,
    *,
    max_reject_rate: float,
    as_json: bool,
    no_progress: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Render records, expand media to token slots, and write encoded shards.

    INPUTS are .jsonl or .json files; record shapes may mix. No pixel is decoded. Every record
    ends as a sample or as a line of OUTPUT/rejected.jsonl.
    """
    from packcli.encode.options import EncodeJob
    from packcli.encode.run import Writing, encode

    job = EncodeJob(model_directory(model), flags["media_root"], _options(flags))
    with progress("encode", hidden=no_progress) as update:
        writing = Writing(output, flags["num_proc"], flags["overwrite"], flags["resume"], update)
        summary = encode(list(inputs), job, writing)
    click.echo(json.dumps(summary.to_json()) if as_json else describe(summary))
    if summary.records == 0 or summary.rejected > max_reject_rate * summary.records:
        share = summary.rejected / max(1, summary.records)
        click.echo(
            f"packcli: {summary.rejected} of {summary.records} records rejected "
            f"({100 * share:.2f} %, allowed {100 * max_reject_rate:.2f} %); "
            f"see {output / 'rejected.jsonl'}",
            err=True,
        )
        sys.exit(1)


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
        loss_scale=flags["loss_scale"],
    )


def describe(summary: EncodeSummary) -> str:
    """Say in a few lines what encode did."""
    lines = [
        f"encoded  {summary.kept:,} of {summary.records:,} records to {summary.output}",
        f"tokens   {summary.tokens:,}, of which {summary.supervised_tokens:,} supervised",
        f"media    {summary.media['images']:,} images, {summary.media['videos']:,} videos",
    ]
    lines += [f"rejected {count:,} {code}" for code, count in sorted(summary.reasons.items())]
    lines += [f"warning  {count:,} {code}" for code, count in sorted(summary.warnings.items())]
    return "\n".join(lines)
