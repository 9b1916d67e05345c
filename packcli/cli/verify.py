"""`packcli verify`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packcli.cli.models import model_directory
from packcli.cli.progress import as_json

if TYPE_CHECKING:
    from packcli.contract.model import ModelFacts
    from packcli.contract.verdict import Verdict

_EPILOG = """\b
Examples:
  packcli verify packed
  packcli verify sample_data/good --level contract
"""


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
    type=click.Choice(["contract", "kernel"]),
    default="kernel",
    show_default=True,
    help="contract reads every row; kernel also runs attention on a sample of packs.",
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
@click.option("--model", help="Model directory, for files without a manifest.")
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
    gpu: bool,
    names: tuple[str, ...],
    sample: int | None,
    seed: int,
    model: str | None,
    max_findings: int,
    as_json: bool,
) -> None:
    """Check packed or encoded shards, and prove that packed samples do not see each other.

    PATHS are packcli datasets, folders of Parquet files, or Parquet files of other tools. Exit
    status 0: nothing found; 1: findings; 4: a kernel that was asked for cannot run here.
    """
    from packcli.verify.run import verify

    options = None
    if level == "kernel":
        from packcli.verify.kernel_level import KernelOptions

        options = KernelOptions(gpu, names, sample, seed)
    verdict = verify(list(paths), facts=_facts(model), kernel=options, max_findings=max_findings)
    click.echo(json.dumps(verdict.to_json()) if as_json else describe(verdict))
    if not verdict.passed:
        sys.exit(1)


def _facts(model: str | None) -> ModelFacts | None:
    if model is None:
        return None
    from packcli.families import open_family

    return open_family(model_directory(model)).facts


def describe(verdict: Verdict) -> str:
    """Say in a few lines what was checked, what was found, and whether it passed."""
    checked = verdict.checked
    lines = [
        f"contract {checked['packs']:,} packs, {checked['samples']:,} samples, "
        f"{checked['tokens']:,} tokens in {checked['shards']:,} shards: "
        + (f"{sum(verdict.counts.values()):,} findings" if verdict.counts else "every rule holds")
    ]
    for proof in verdict.proofs:
        caught = sum(control["caught"] for control in proof["controls"])
        lines.append(
            f"{proof['kind']:<9}{proof['kernel']} ({proof['version']}, {proof['device']}, "
            f"{proof['dtype']}) on {proof['packs']:,} packs: deviation {proof['max_deviation']:.2g}"
            f", tolerance {proof['tolerance']}; {caught} of {len(proof['controls'])} sabotaged "
            "packs caught"
        )
    lines += [f"finding  {f.code}: {f.where()}: {f.message}" for f in verdict.findings]
    hidden = sum(verdict.counts.values()) - len(verdict.findings)
    lines += [f"finding  … and {hidden:,} more"] if hidden else []
    lines += [f"skipped  {code}: {why}" for code, why in sorted(verdict.skipped.items())]
    lines.append(f"verdict  {'PASSED' if verdict.passed else 'FAILED'}")
    return "\n".join(lines)
