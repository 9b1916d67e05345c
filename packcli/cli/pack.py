"""`packcli pack`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from packcli.cli.planning import FLAG_NAMES, plan_options, planning_flags, weighed
from packcli.cli.progress import as_json, no_progress, progress
from packcli.cli.reports.text import counted

if TYPE_CHECKING:
    from packcli.pack.run import PackSummary

_EPILOG = """\b
Examples, after encode:
  packcli pack encoded -o packed --capacity 2048
  packcli pack encoded:1.5 -o mixed --capacity 2048 --seed 1
  packcli pack encoded -o parallel --capacity 2048 --pad-sample-multiple 8
  packcli pack encoded -o in_order --capacity 2048 --strategy sequential --open-packs 4
"""


@click.command(epilog=_EPILOG)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT[:EPOCHS]...")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option(
    "--capacity",
    type=click.IntRange(1, 2**31 - 1),
    default=8192,
    show_default=True,
    help="Tokens in a pack, at most.",
)
@planning_flags
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    help="Fill a plan that `packcli plan -o` wrote for these inputs.",
)
@click.option(
    "--shard-size",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="MiB of a shard, about.",
)
@click.option(
    "--window",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Million tokens planned at once; bounds memory.",
)
@click.option("--num-proc", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--resume/--no-resume", default=True, show_default=True, help="Go on with unfinished work."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset that packcli wrote there.")
@as_json
@no_progress
def command(
    inputs: tuple[str, ...],
    output: Path,
    capacity: int,
    plan_file: Path | None,
    *,
    as_json: bool,
    no_progress: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Bin-pack samples by length into shards with cu_seqlens.

    Each INPUT is an encoded dataset, made with one model and the same options, or a packed one,
    whose samples are packed anew without its padding. Nothing is cut:
    a sample longer than the capacity is a line of OUTPUT/rejected.jsonl. A mixture names epochs:
    A:2.0 B:0.5 uses all of A twice and a half of B, drawn and shuffled by --seed.
    """
    from packcli.pack.run import Writing, pack
    from packcli.pack.stored import read_stored

    with progress("pack", hidden=no_progress) as update:
        writing = Writing(
            output,
            shard_bytes=flags["shard_size"] * 2**20,
            window_tokens=flags["window"] * 10**6,
            workers=flags["num_proc"],
            overwrite=flags["overwrite"],
            resume=flags["resume"],
            progress=update,
        )
        paths, epochs = weighed(inputs)
        if plan_file is None:
            summary = pack(paths, plan_options(capacity, flags), writing, epochs=epochs)
        else:
            _check_alone(epochs)
            stored = read_stored(plan_file)
            summary = pack(paths, stored.options, writing, epochs=stored.epochs, stored=stored)
    click.echo(json.dumps(summary.to_json()) if as_json else describe(summary))
    if not summary.packs:
        click.echo(f"packcli: no packs; see {output / 'rejected.jsonl'} and the input's", err=True)
        sys.exit(1)


def _check_alone(epochs: list[float] | None) -> None:
    """A stored plan decides all that planning flags would."""
    context = click.get_current_context()
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("capacity", *FLAG_NAMES)
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    given += ["epochs"] if epochs else []
    if given:
        raise click.UsageError(f"--plan holds them already: leave out {', '.join(given)}")


def _balance(summary: PackSummary) -> str:
    longer, least = (100 * (of - 1) for of in (summary.imbalance, summary.least_imbalance))
    line = f"balance  steps of {summary.ranks} ranks take {longer:.2f} % longer than equal shares"
    if least > 0:
        line += f", no plan of as many packs less than {least:.2f} %"
    if over := summary.packs % summary.ranks:
        line += f"; the last step has {counted(over, 'packs')}"
    return line


def describe(summary: PackSummary) -> str:
    """Say in a few lines what pack did."""
    optimal = " (optimal)" if summary.excess == 0 else ""
    samples, packs = counted(summary.samples, "samples"), counted(summary.packs, "packs")
    bound = f"lower bound {counted(summary.lower_bound, 'packs')}, excess {summary.excess:,}"
    lines = [
        f"packed   {samples} into {packs} of {summary.capacity:,} to {summary.output}",
        f"fill     {100 * summary.fill:.2f} %; {bound}{optimal}",
    ]
    if summary.ranks > 1:
        lines.append(_balance(summary))
    if summary.padding:
        share = 100 * summary.padding / (summary.tokens + summary.padding)
        lines.append(f"padding  {counted(summary.padding, 'tokens')}, {share:.2f} % of all")
    if summary.windows > 1:
        loss = 100 * summary.excess / max(1, summary.lower_bound)
        lines.append(
            f"windows  {summary.windows:,}, planned one after the other; at most {loss:.3f} % more "
            "packs than all samples at once (--window)"
        )
    where = f"; see {summary.output}/rejected.jsonl"
    lines += [f"rejected {n:,} {code}{where}" for code, n in sorted(summary.reasons.items())]
    return "\n".join(lines)
