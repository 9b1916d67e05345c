"""`packcli plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.planning import plan_options, planning_flags, weighed
from packcli.cli.progress import as_json

if TYPE_CHECKING:
    from packcli.pack.options import PlanOptions
    from packcli.pack.plan import Plan

_EPILOG = """\b
Examples:
  packcli plan encoded --capacity 1024,2048,4096
  packcli plan encoded --capacity 2048 -o plan.parquet
  printf '10 6 5 4 3 2' > lengths.txt && packcli plan lengths.txt --capacity 10
"""


class _Capacities(click.ParamType[tuple[int, ...]]):
    """One or several capacities, separated by commas."""

    name = "N[,N…]"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, ...]:
        parts = value if isinstance(value, list | tuple) else str(value).split(",")
        try:
            capacities = tuple(int(str(part)) for part in parts)
        except ValueError:
            self.fail(f"{value!r} is not a whole number, or several with commas", param, ctx)
        if min(capacities, default=0) < 1 or max(capacities) >= 2**31:
            self.fail("a capacity is at least 1 and less than 2³¹", param, ctx)
        return capacities


@click.command(epilog=_EPILOG)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--capacity",
    type=_Capacities(),
    default="8192",
    show_default=True,
    help="Tokens in a pack; several make a sweep.",
)
@planning_flags
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the packs' samples, as .parquet or .json; `pack --plan` fills them.",
)
@click.option("--column", help="Column of a Parquet file.  [default: length]")
@as_json
def command(
    sources: tuple[str, ...],
    capacity: tuple[int, ...],
    output: Path | None,
    column: str | None,
    *,
    as_json: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Plan packs from lengths alone; no token is read or moved.

    SOURCE is an encoded dataset (several, as for pack, with epochs as in A:2.0 B:0.5), or a file
    of lengths: .npy, .json, .parquet, or text. Every plan comes with a lower bound: an excess of
    0 proves that no planner can do better. With -o, every sample is planned together and the
    plan is written: one row a sample, in the order of the packs.
    """
    options = [plan_options(tokens, flags) for tokens in capacity]
    if output is not None and len(options) > 1:
        raise click.UsageError("-o writes one plan: give one capacity")
    if output is not None and output.suffix not in {".parquet", ".json"}:
        raise click.UsageError(f"{output}: a plan is a .parquet or .json file; name it so")
    paths, epochs = weighed(sources)
    plans = _plans(paths, epochs, options, (output, column))
    if as_json:
        click.echo(json.dumps({"plans": [plan.to_json() for plan in plans]}))
    else:
        click.echo(_table(plans))


def _plans(
    paths: list[Path],
    epochs: list[float] | None,
    options: list[PlanOptions],
    files: tuple[Path | None, str | None],
) -> list[Plan]:
    from packcli.pack.lengths import read_samples
    from packcli.pack.stored import plan_lengths, plan_material, write_stored

    output, column = files
    if paths[0].is_dir() and (len(paths) > 1 or epochs or output):
        from packcli.pack.material import gathered
        from packcli.pack.sources import open_sources

        material = gathered(paths, open_sources(paths), options[0], epochs=epochs)
        samples = material.index.samples
        made = [plan_material(material, each, [path.name for path in paths]) for each in options]
    else:
        if len(paths) > 1 or epochs:
            raise click.UsageError("several sources are encoded datasets, all of them")
        material, samples = None, read_samples(paths[0], column)
        made = [plan_lengths(samples, each) for each in options]
    if output is not None:
        write_stored(output, made[0][1], samples, material)
    return [plan for plan, _ in made]


def _table(plans: list[Plan]) -> str:
    rows = ["capacity      packs      bound   excess     fill  rejected"]
    rows += [
        f"{plan.capacity:>8} {plan.packs:>10,} {plan.lower_bound:>10,} {plan.excess:>8,} "
        f"{100 * plan.fill:>7.2f}% {plan.rejected.size + plan.zero.size:>9,}"
        for plan in plans
    ]
    if plans[0].ranks > 1:
        waits = ["imbalance  at least", *map(_waits, plans)]
        rows = [f"{row}  {wait}" for row, wait in zip(rows, waits, strict=True)]
    return "\n".join(rows)


def _waits(plan: Plan) -> str:
    return f"{100 * (plan.imbalance - 1):>8.2f}%  {100 * (plan.least_imbalance - 1):>7.2f}%"
