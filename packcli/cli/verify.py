"""`packcli verify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.models import model_directory
from packcli.cli.progress import as_json
from packcli.cli.reports import FORMATS, Format, render
from packcli.contract.errors import InputError, UsageError

if TYPE_CHECKING:
    from packcli.contract.model import ModelFacts
    from packcli.contract.verdict import Verdict

_EPILOG = """\b
Examples:
  packcli verify packed
  packcli verify sample_data/good --level contract
  packcli verify sample_data/good --level model --model sample_data/models/qwen2_5_vl
  packcli verify sample_data/good --input sample_data/chats.jsonl \\
      --model sample_data/models/qwen2_5_vl
"""


_MODEL_PACKS = 4


class _Sample(click.ParamType[int | None]):
    """A number of packs, or `all`."""

    name = "N|all"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        if value is None or value == "all":
            return None
        if not str(value).isdecimal() or int(str(value)) < 1:
            self.fail(f"{value!r} is neither a number of at least 1 nor 'all'", param, ctx)
        return int(str(value))


@click.command(epilog=_EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--level",
    type=click.Choice(["contract", "kernel", "model"]),
    default="kernel",
    show_default=True,
    help="contract reads every row; kernel also runs attention on a sample of packs; model "
    "also runs a tiny model of --model on at most 4 of them.",
)
@click.option(
    "--gpu", is_flag=True, help="Run the kernels on a CUDA device; exit 4 where there is none."
)
@click.option(
    "--kernel",
    "names",
    multiple=True,
    envvar="PACKCLI_VERIFY_KERNEL",
    help="Kernel by name; may be given several times.",
)
@click.option(
    "--sample", type=_Sample(), default=16, show_default=True, help="Packs to run a kernel on."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Chooses the packs."
)
@click.option(
    "--model", help="Model directory: for files without a manifest, --level model and --input."
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File of records that the data was made from: encode again and compare every sample.",
)
@click.option(
    "--media-root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of relative media paths of --input.  [default: the input's folder]",
)
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Encoded dataset that was packed: compare every sample.",
)
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="github also writes a step summary; --json is short for json.",
)
@click.option(
    "--max-findings",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Findings to show; all are counted.",
)
@as_json
def command(
    paths: tuple[Path, ...],
    level: str,
    *,
    model: str | None,
    max_findings: int,
    output_format: Format,
    as_json: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Check packed or encoded shards, and prove that packed samples do not see each other.

    PATHS are packcli datasets, folders of Parquet files, or Parquet files of other tools. Exit
    status 0: nothing found; 1: findings; 4: a kernel that was asked for cannot run here.
    """
    from packcli.verify.run import verify

    if level == "contract" and (flags["gpu"] or flags["names"]):
        raise UsageError("--level contract runs no kernel; drop --gpu and --kernel, or the level")
    options = _levels(level, model, flags)
    facts = _facts(model)
    verdict = verify(list(paths), facts=facts, max_findings=max_findings, **options)
    _compare(list(paths), model, flags, verdict)
    form: Format = "json" if as_json else output_format
    click.echo(render(verdict, form))
    if form == "github":
        _summarise(verdict)
    if not verdict.passed:
        sys.exit(1)
    if lacks := verdict.skipped.get("sample.extra"):
        raise InputError(f"nothing was compared with --input or --against: {lacks}")


def _levels(level: str, model: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Set the levels above the contract up."""
    options: dict[str, Any] = {}
    if level != "contract":
        from packcli.verify.kernel_level import KernelOptions

        chosen = (flags["gpu"], flags["names"], flags["sample"], flags["seed"])
        options["kernel"] = KernelOptions(*chosen)
    if level == "model":
        from packcli.verify.model_level import ModelOptions

        directory = None if model is None else model_directory(model)
        most = None if flags["sample"] is None else min(flags["sample"], _MODEL_PACKS)
        options["model"] = ModelOptions(directory, most, flags["seed"])
    return options


def _compare(paths: list[Path], model: str | None, flags: dict[str, Any], verdict: Verdict) -> None:
    """Compare with what the data was made from, where the user names it."""
    from packcli.verify.run import verify_against

    if flags["against"]:
        verify_against(paths, list(flags["against"]), verdict)
    if not flags["inputs"]:
        return
    if model is None:
        raise UsageError("--input encodes again: name the model directory with --model")
    from packcli.cli.again import Source, encode_again

    with TemporaryDirectory(prefix="packcli-") as folder:
        source = Source(list(flags["inputs"]), model_directory(model), flags["media_root"])
        verify_against(paths, [encode_again(paths, source, Path(folder))], verdict)


def _summarise(verdict: Verdict) -> None:
    """Add to the page that a workflow shows for its step."""
    from packcli.cli.reports.github import summary

    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(summary(verdict))


def _facts(model: str | None) -> ModelFacts | None:
    if model is None:
        return None
    from packcli.families import open_family

    return open_family(model_directory(model)).facts


def describe(verdict: Verdict) -> str:
    """Say in a few lines what was checked, what was found, and whether it passed."""
    return render(verdict, "text")
