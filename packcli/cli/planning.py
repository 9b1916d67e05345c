"""Flags that `plan` and `pack` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.flags import choice_flag, count_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packcli.pack.options import PlanOptions

_FLAGS = (
    click.option("--strategy", default="binpack", show_default=True, help="binpack or sequential."),
    choice_flag(
        "--quality",
        ("fast", "best"),
        "best looks longer for fewer packs (needs SciPy for its last step).",
    ),
    count_flag("--open-packs", "sequential: packs kept open."),
    click.option("--max-samples", type=click.IntRange(1), help="Samples in a pack, at most."),
    click.option("--max-images", type=click.IntRange(1), help="Images in a pack, at most."),
    click.option("--max-patches", type=click.IntRange(1), help="ViT patches in a pack, at most."),
    choice_flag(
        "--balance",
        ("none", "attention", "vision"),
        "Order packs so that the ranks of a step have equal cost.",
    ),
    count_flag("--ranks", "Packs in a step, for --balance."),
    count_flag(
        "--pad-sample-multiple", "Pad each sample to a multiple: 2 x context parallel ranks."
    ),
    count_flag("--pad-pack-multiple", "Pad each pack to a multiple."),
    click.option("--seed", type=click.IntRange(0), help="Let samples of one length change places."),
)


def planning_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command."""
    for flag in reversed(_FLAGS):
        function = flag(function)
    return function


FLAG_NAMES = (
    "strategy",
    "quality",
    "open_packs",
    "max_samples",
    "max_images",
    "max_patches",
    "balance",
    "ranks",
    "pad_sample_multiple",
    "pad_pack_multiple",
    "seed",
)
"""Parameters of the flags, as `PlanOptions` calls them."""


def weighed(inputs: Sequence[str]) -> tuple[list[Path], list[float] | None]:
    """Read ``A B`` or ``A:2.0 B:0.5``: datasets, and how often each is used.

    Returns:
        The paths, and epochs where any is given; the others then are used once.

    Raises:
        UsageError: a number of epochs is none.
    """
    from packcli.pack.mixture import check_epochs

    pairs = [_weight(name) for name in inputs]
    paths = [Path(name) for name, _ in pairs]
    if all(epochs is None for _, epochs in pairs):
        return paths, None
    weights = [1.0 if epochs is None else epochs for _, epochs in pairs]
    check_epochs(weights, len(paths))
    return paths, weights


def _weight(name: str) -> tuple[str, float | None]:
    path, colon, number = name.rpartition(":")
    try:
        # a folder may have a colon in its name
        return (name, None) if not colon or Path(name).exists() else (path, float(number))
    except ValueError:
        return name, None


def plan_options(capacity: int, flags: dict[str, Any]) -> PlanOptions:
    """Collect the flags."""
    from packcli.pack.options import PlanOptions

    return PlanOptions(capacity=capacity, **{name: flags[name] for name in FLAG_NAMES})
