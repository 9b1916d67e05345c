"""The shelf of strategies: one file each, found by name, imported when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from packcli.contract.errors import UsageError
from packcli.contract.shelf import listed

if TYPE_CHECKING:
    from packcli.pack.options import Arrangement, PlanOptions, Samples


class Strategy(Protocol):
    """What every file on this shelf offers."""

    def arrange(self, samples: Samples, options: PlanOptions, bound: int) -> Arrangement:
        """Group all samples into packs; none over a budget, each sample exactly once.

        `bound` is how many packs no plan can do without.
        """
        ...


def names() -> list[str]:
    """List the strategies from the folder, without importing one."""
    return listed(__path__)


def load(name: str) -> Strategy:
    """Import one strategy.

    Raises:
        UsageError: there is no strategy of that name.
    """
    if name not in names():
        raise UsageError(f"no strategy is called {name!r}; give one of {', '.join(names())}")
    return cast("Strategy", import_module(f"{__name__}.{name}"))
