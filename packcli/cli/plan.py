"""`packcli plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.planning import plan_options, planning_flags
from packcli.cli.progress import as_json

if TYPE_CHECKING:
    from packcli.pack.plan import Plan

_EPILOG = """\b
Examples:
  packcli plan encoded --capacity 1024,2048,4096
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
        if min(capacities, default=0) < 1:
            self.fail("a capacity is at least 1", param, ctx)
        return capacities


@click.command(epilog=_EPILOG)
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--capacity",
    type=_Capacities(),
    default="8192",
    show_default=True,
    help="Tokens in a pack; several make a sweep.",
)
@planning_flags
@click.option("--column", help="Column of a Parquet file.  [default: length]")
@as_json
def command(
    source: Path,
    capacity: tuple[int, ...],
    column: str | None,
    *,
    as_json: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Plan packs from lengths alone; no token is read or moved.

    SOURCE is an encoded dataset, or a file of lengths: .npy, .json, .parquet, or text. Every plan
    comes with a lower bound: an excess of 0 proves that no planner can do better.
    """
    from packcli.pack.lengths import read_samples
    from packcli.pack.plan import make_plan

    samples = read_samples(source, column)
    plans = [
        make_plan(
            samples.lengths,
            plan_options(tokens, flags),
            images=samples.images,
            patches=samples.patches,
        )
        for tokens in capacity
    ]
    if as_json:
        click.echo(json.dumps({"plans": [plan.to_json() for plan in plans]}))
    else:
        click.echo(_table(plans))


def _table(plans: list[Plan]) -> str:
    rows = ["capacity      packs      bound   excess     fill  rejected"]
    rows += [
        f"{plan.capacity:>8} {plan.packs:>10,} {plan.lower_bound:>10,} {plan.excess:>8,} "
        f"{100 * plan.fill:>7.2f}% {plan.rejected.size + plan.zero.size:>9,}"
        for plan in plans
    ]
    return "\n".join(rows)
