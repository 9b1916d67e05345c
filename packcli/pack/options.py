"""What a plan is asked for: options, and the samples that it has to place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Literal

import numpy as np

from packcli.contract.errors import UsageError
from packcli.contract.padding import rounded
from packcli.pack.histogram import Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

Quality = Literal["fast", "best"]
Balance = Literal["none", "attention", "vision"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How samples are grouped into packs.

    Attributes:
        capacity: tokens in a pack, at most.
        strategy: a name from `pack.strategies.names()`.
        quality: "fast" is best fit decreasing; "best" spends seconds more on fewer packs.
        max_samples: samples in a pack, at most; None is no limit. Likewise `max_images`.
        max_patches: ViT patches in a pack, at most; None is no limit.
        balance: what packs of one training step have in common: attention cost or ViT patches.
        ranks: packs in one training step, the size of a block of equal cost.
        seed: None keeps input order inside a length class; a number permutes it, so that an
            epoch meets other packs at the same pack count.
        open_packs: packs that `sequential` may keep open; 1 is next fit.
        pad_sample_multiple: tokens; each sample is padded to a multiple of it.
        pad_pack_multiple: tokens; each pack is padded to a multiple of it, behind its last sample.
    """

    capacity: int = 8192
    strategy: str = "binpack"
    quality: Quality = "fast"
    max_samples: int | None = None
    max_images: int | None = None
    max_patches: int | None = None
    balance: Balance = "none"
    ranks: int = 1
    seed: int | None = None
    open_packs: int = 1
    pad_sample_multiple: int = 1
    pad_pack_multiple: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that no plan can keep.

        Raises:
            UsageError: a capacity, limit or count is below 1, a seed below 0, a word unknown,
                balance and ranks are not given together, or an option is for another strategy.
        """
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; give a number of at least 1")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"seed is {self.seed}; give a number of at least 0")
        for name, words in (("quality", ("fast", "best")), ("balance", _BALANCES)):
            if getattr(self, name) not in words:
                raise UsageError(f"{name} is {getattr(self, name)!r}; give one of {words}")
        self._check_together()

    def _check_together(self) -> None:
        if (self.balance == "none") != (self.ranks == 1):
            raise UsageError(
                "balance and ranks go together: give --balance attention or vision, and --ranks of "
                "at least 2"
            )
        if self.open_packs > 1 and self.strategy != "sequential":
            raise UsageError("open_packs is for --strategy sequential; give both or neither")
        if self.quality == "best" and self.strategy != "binpack":
            raise UsageError('quality "best" is for --strategy binpack; give it or leave it out')
        if self.unit > self.capacity:
            told = f"a pack of {self.capacity} tokens holds no multiple of {self.unit}"
            raise UsageError(f"{told}, which padding asks for; raise the capacity")

    @property
    def unit(self) -> int:
        """Tokens that the length of every pack is a multiple of.

        The last sample of a pack takes the padding at its tail, and stays a multiple of its own.
        """
        return lcm(self.pad_sample_multiple, self.pad_pack_multiple)

    @property
    def room(self) -> int:
        """Tokens that samples with their padding may take in a pack: whole units."""
        return self.capacity // self.unit * self.unit


_BALANCES = ("none", "attention", "vision")
_COUNTS = (
    "capacity",
    "max_samples",
    "max_images",
    "max_patches",
    "ranks",
    "open_packs",
    "pad_sample_multiple",
    "pad_pack_multiple",
)


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples to place, one element each, all placeable on their own.

    Attributes:
        lengths: (n,) integers, tokens, 1 to the capacity.
        images: (n,) integers, images of each sample; None when nobody asks.
        patches: (n,) integers, ViT patches of each sample; None when nobody asks.
    """

    lengths: NDArray[np.integer]
    images: NDArray[np.integer] | None = None
    patches: NDArray[np.integer] | None = None

    @cached_property
    def histogram(self) -> Histogram:
        """How often each length occurs."""
        return Histogram.of(self.lengths)

    def __len__(self) -> int:
        """Return the number of samples, n."""
        return self.lengths.size

    def take(self, numbers: NDArray[np.integer]) -> Samples:
        """Take some samples, in another order."""
        return Samples(
            self.lengths[numbers],
            None if self.images is None else self.images[numbers],
            None if self.patches is None else self.patches[numbers],
        )

    def budgets(self, options: PlanOptions) -> dict[str, tuple[NDArray[np.integer], int]]:
        """What each sample takes of each limited budget, and the budget of a pack, by name."""
        ones = np.broadcast_to(np.int32(1), self.lengths.shape)
        budgets = {
            "tokens": (self.lengths, options.capacity),
            "samples": (ones, options.max_samples),
            "images": (self.images, options.max_images),
            "patches": (self.patches, options.max_patches),
        }
        return {
            name: (need, most)
            for name, (need, most) in budgets.items()
            if need is not None and most is not None
        }

    def demands(self, options: PlanOptions) -> list[tuple[NDArray[np.integer], int]]:
        """What each sample takes of each limited budget, and the budget of a pack, tokens first."""
        return list(self.budgets(options).values())


def with_padding(samples: Samples, options: PlanOptions) -> tuple[Samples, PlanOptions]:
    """Say what samples take when they are padded, and how much of that a pack holds.

    A pack at the largest multiple within the capacity needs no more padding, so no pack that is
    planned so exceeds the capacity when its tail is padded.
    """
    if options.unit == 1:
        return samples, options
    lengths = rounded(samples.lengths, options.pad_sample_multiple)
    return replace(samples, lengths=lengths), replace(options, capacity=options.room)


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """Which samples share a pack, as a strategy answers it.

    Attributes:
        order: (n,) int32 or int64, sample numbers, pack after pack.
        counts: (packs,) int64, samples in each pack.
    """

    order: NDArray[np.integer]
    counts: NDArray[np.int64]

    def totals(self, values: NDArray[np.integer]) -> NDArray[np.int64]:
        """(packs,) int64, the sum of the members' values in each pack.

        Args:
            values: (n,) integers, by sample number.
        """
        return self._sums(values[self.order])

    def squares(self, values: NDArray[np.integer]) -> NDArray[np.int64]:
        """(packs,) int64, the sum of the members' squared values in each pack.

        Args:
            values: (n,) integers, by sample number.
        """
        return self._sums(np.square(values[self.order], dtype=np.int64))

    def _sums(self, values: NDArray[np.integer]) -> NDArray[np.int64]:
        """Sum values that stand pack after pack; each pack has a member."""
        return np.add.reduceat(values, np.cumsum(self.counts) - self.counts, dtype=np.int64)

    def keeps(self, need: NDArray[np.integer], most: int) -> bool:
        """Whether no pack's members need more than a budget."""
        return int(self.totals(need).max(initial=0)) <= most
