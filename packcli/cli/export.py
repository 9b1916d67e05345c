"""`packcli export`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packcli.cli.progress import as_json, no_progress, progress

if TYPE_CHECKING:
    from packcli.export.media_roots import Roots
    from packcli.export.run import ExportSummary

_EPILOG = """\b
Examples, on the bundled data:
  packcli export sample_data/good_text --to megatron-bridge -o bridge
  packcli export sample_data/good --to qwen-vl-finetune -o qwen --records sample_data/chats.jsonl
"""


class _Targets(click.ParamType[str]):
    """A name from the shelf, which is listed when it is needed."""

    name = "TARGET"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from packcli.export.targets import names

        if value not in names():
            self.fail(f"{value!r} is none of {', '.join(names())}", param, ctx)
        return value


class _Root(click.ParamType[tuple[str, Path]]):
    """A folder, or the folder of an input."""

    name = "[NAME=]FOLDER"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        name, _, folder = ("", "", value) if Path(value).is_dir() else value.rpartition("=")
        if not Path(folder).is_dir():
            self.fail(f"{folder!r} is no folder", param, ctx)
        return name, Path(folder)


@click.command(epilog=_EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--to", "target", type=_Targets(), help="The trainer to write for; see --list.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder to write.")
@click.option(
    "--records",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File of the records that were encoded, for targets of records; may be repeated.",
)
@click.option(
    "--media-root",
    "media_roots",
    multiple=True,
    type=_Root(),
    metavar="[NAME=]FOLDER",
    help="Folder of relative media paths; once for each input as NAME=FOLDER, by the name in "
    "sample_sources.",
)
@click.option(
    "--pad-to", type=click.IntRange(1), help="Tokens of equally long rows.  [default: capacity]"
)
@click.option(
    "--pad-token",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Id that fills them.",
)
@click.option(
    "--shard-size", type=click.IntRange(1), default=512, show_default=True, help="MiB of a file."
)
@click.option("--overwrite", is_flag=True, help="Replace an export that packcli wrote there.")
@click.option("--list", "listing", is_flag=True, help="List the targets and what they lose.")
@as_json
@no_progress
def command(
    path: Path | None,
    target: str | None,
    output: Path | None,
    *,
    records: tuple[Path, ...],
    media_roots: tuple[tuple[str, Path], ...],
    pad_to: int | None,
    pad_token: int,
    shard_size: int,
    overwrite: bool,
    listing: bool,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Write packs in the files of another trainer.

    PATH is a dataset that pack or encode wrote. Samples that the target cannot hold are left
    out, counted, and named with reason and remedy in OUTPUT/.packcli_refused.jsonl. Exit status
    1: no sample could be written.
    """
    if listing:
        click.echo(_list())
        return
    if path is None or target is None or output is None:
        raise click.UsageError("PATH, --to TARGET and -o OUTPUT are needed; --list needs none.")
    from packcli.export.options import ExportOptions
    from packcli.export.run import export

    with progress("export", hidden=no_progress) as update:
        options = ExportOptions(
            output,
            overwrite=overwrite,
            records=records,
            media_root=_roots(dict(media_roots)),
            pad_to=pad_to,
            pad_token=pad_token,
            shard_bytes=shard_size * 2**20,
            progress=update,
        )
        summary = export(path, target, options)
    click.echo(json.dumps(summary.to_json()) if as_json else _describe(summary))
    if not summary.samples:
        click.echo("packcli: no sample could be exported", err=True)
        sys.exit(1)


def _roots(told: dict[str, Path]) -> Roots:
    if "" in told and len(told) > 1:
        raise click.UsageError("--media-root is one FOLDER, or NAME=FOLDER for each input.")
    return told.get("", told or None)


def _list() -> str:
    from packcli.export.targets import load, names

    lines: list[str] = []
    for name in names():
        file = load(name)
        lines.append(f"{name}: {file.WHAT}")
        lines += [f"  carries  {one}" for one in file.CARRIED]
        lines += [f"  loses    {one}" for one in file.LOST]
    return "\n".join(lines)


def _describe(summary: ExportSummary) -> str:
    """Say in a few lines what was written, what was not, and what the trainer needs to know."""
    from packcli.cli.reports.text import counted

    packs = counted(summary.packs, "packs")
    lines = [f"exported {summary.samples:,} samples of {packs} to {summary.output}"]
    for reason, count in sorted(summary.refused.items()):
        shown = ", ".join(summary.examples[reason])
        more = ", …" if count > len(summary.examples[reason]) else ""
        lines.append(f"refused  {count:,} ({shown}{more}): {reason}")
    recipe = summary.recipe if summary.samples else {}
    lines += [f"set      {name}: {json.dumps(value)}" for name, value in recipe.items()]
    return "\n".join(lines)
