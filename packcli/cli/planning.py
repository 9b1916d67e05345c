"""Flags that `plan` and `pack` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.pack.options import PlanOptions

_FLAGS = (
    click.option("--strategy", default="binpack", show_default=True, help="binpack or sequential."),
    click.option(
        "--quality",
        type=click.Choice(["fast", "best"]),
        default="fast",
        show_default=True,
        help="best looks longer for fewer packs (needs SciPy for its last step).",
    ),
    click.option(
        "--open-packs",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="sequential: packs kept open.",
    ),
    click.option("--max-samples", type=click.IntRange(1), help="Samples in a pack, at most."),
    click.option("--max-images", type=click.IntRange(1), help="Images in a pack, at most."),
    click.option("--max-patches", type=click.IntRange(1), help="ViT patches in a pack, at most."),
    click.option(
        "--balance",
        type=click.Choice(["none", "attention", "vision"]),
        default="none",
        show_default=True,
        help="Order packs so that the ranks of a step have equal cost.",
    ),
    click.option(
        "--ranks",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Packs in a step, for --balance.",
    ),
    click.option("--seed", type=click.IntRange(0), help="Let samples of one length change places."),
)


def planning_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command."""
    for flag in reversed(_FLAGS):
        function = flag(function)
    return function


def plan_options(capacity: int, flags: dict[str, Any]) -> PlanOptions:
    """Collect the flags."""
    from packcli.pack.options import PlanOptions

    names = ("strategy", "quality", "open_packs", "max_samples", "max_images", "max_patches")
    more = ("balance", "ranks", "seed")
    return PlanOptions(capacity=capacity, **{name: flags[name] for name in (*names, *more)})
