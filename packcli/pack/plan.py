"""A plan: lengths in, a permutation and offsets out. No token is moved."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import UsageError
from packcli.contract.offsets import Offsets
from packcli.pack import strategies
from packcli.pack.balance import in_blocks, least_imbalance, step_imbalance
from packcli.pack.bound import bound_of
from packcli.pack.histogram import index_type
from packcli.pack.options import Arrangement, PlanOptions, Samples, with_padding

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which samples share a pack, and how good that is.

    Attributes:
        capacity: tokens in a pack, at most.
        strategy: the strategy's name.
        order: (kept,) int32 or int64, numbers of the kept samples, pack after pack.
        members: samples in each pack, over `order`.
        rejected: (n,) integers, numbers of samples over the capacity or a limit, increasing.
        zero: (n,) integers, numbers of samples without a token, increasing.
        tokens: tokens of the kept samples.
        lower_bound: packs that no plan can do without.
        sum_sq_len_cv: standard deviation over mean of the packs' sums of squared lengths,
            that is of their attention cost; 0.0 without packs.
        ranks: packs in a training step; 1 where nothing is balanced.
        imbalance: time of all steps over that of equal shares; 1.0 is even.
        least_imbalance: what no plan of as many packs can beat; proven of attention alone.
        seconds: time that planning took.
    """

    capacity: int
    strategy: str
    order: NDArray[np.integer]
    members: Offsets
    rejected: NDArray[np.integer]
    zero: NDArray[np.integer]
    tokens: int
    lower_bound: int
    sum_sq_len_cv: float
    ranks: int = 1
    imbalance: float = 1.0
    least_imbalance: float = 1.0
    seconds: float = 0.0

    @property
    def packs(self) -> int:
        """The number of packs."""
        return len(self.members)

    @property
    def samples(self) -> int:
        """The number of samples in packs."""
        return self.order.size

    @property
    def excess(self) -> int:
        """Packs above the lower bound; 0 proves that the plan is optimal."""
        return self.packs - self.lower_bound

    @property
    def fill(self) -> float:
        """Tokens over the tokens that the packs could hold; 0.0 without packs."""
        return self.tokens / (self.packs * self.capacity) if self.packs else 0.0

    def to_json(self) -> dict[str, int | float | str]:
        """Return the summary that `packcli plan --json` prints."""
        return {
            "capacity": self.capacity,
            "strategy": self.strategy,
            "samples": self.samples,
            "rejected": self.rejected.size + self.zero.size,
            "packs": self.packs,
            "tokens": self.tokens,
            "lower_bound": self.lower_bound,
            "excess": self.excess,
            "fill": self.fill,
            "sum_sq_len_cv": self.sum_sq_len_cv,
            "ranks": self.ranks,
            "imbalance": self.imbalance,
            "least_imbalance": self.least_imbalance,
            "seconds": self.seconds,
        }


def make_plan(
    lengths: ArrayLike,
    options: PlanOptions | None = None,
    *,
    images: ArrayLike | None = None,
    patches: ArrayLike | None = None,
) -> Plan:
    """Group samples into packs.

    The result depends on the arguments alone; ties are broken by input order or by the seed.

    Args:
        lengths: (n,) integers, tokens of each sample.
        options: what is asked for; None is the defaults.
        images: (n,) integers, images of each sample; needed for `max_images`.
        patches: (n,) integers, ViT patches of each sample; needed for `max_patches` and for
            the balance "vision".

    Raises:
        UsageError: an option needs a column that was not given, or names no strategy.
        ValueError: a column is not n whole numbers of at least 0.
    """
    started = perf_counter()
    options = options or PlanOptions()
    given = _columns(lengths, images, patches)
    _require_columns(given, options)
    padded, within = with_padding(given, options)
    kept, rejected, zero = _screen(padded, within)
    samples, padded = (each if kept is None else each.take(kept) for each in (given, padded))
    bound = bound_of(padded, within)
    arrangement = strategies.load(options.strategy).arrange(padded, within, bound)
    arrangement = _balanced(arrangement, samples, options)
    order = arrangement.order if kept is None else kept[arrangement.order]
    return Plan(
        capacity=options.capacity,
        strategy=options.strategy,
        order=order,
        members=Offsets.from_lengths(arrangement.counts),
        rejected=rejected,
        zero=zero,
        tokens=int(samples.lengths.sum(dtype=np.int64)),
        lower_bound=bound,
        sum_sq_len_cv=variation(attention_of(arrangement, samples)),
        ranks=options.ranks,
        imbalance=imbalance_of(arrangement, samples, options),
        least_imbalance=least_imbalance_of(arrangement, samples, options),
        seconds=perf_counter() - started,
    )


def _column(name: str, values: ArrayLike, size: int | None) -> NDArray[np.integer]:
    """Take one column as whole numbers, without a copy where it already is."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int32)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must be a list of whole numbers, found {array.dtype} {array.shape}"
        )
    if array.size and int(array.min()) < 0:
        raise ValueError(f"{name} must be >= 0, found {int(array.min())}")
    if size is not None and array.size != size:
        raise ValueError(f"{name} has {array.size} values for {size} samples")
    return array.astype(np.int64) if array.dtype.kind == "u" else array


def _columns(lengths: ArrayLike, images: ArrayLike | None, patches: ArrayLike | None) -> Samples:
    """Check the three columns against each other."""
    tokens = _column("lengths", lengths, None)
    return Samples(
        tokens,
        None if images is None else _column("images", images, tokens.size),
        None if patches is None else _column("patches", patches, tokens.size),
    )


def _require_columns(given: Samples, options: PlanOptions) -> None:
    """Refuse an option whose numbers are missing."""
    if options.max_images is not None and given.images is None:
        raise UsageError("max_images needs the images of each sample; plan an encoded dataset")
    by_patches = options.max_patches is not None or options.balance == "vision"
    if by_patches and given.patches is None:
        raise UsageError("patches of each sample are missing; plan an encoded dataset")


def _screen(
    given: Samples, options: PlanOptions
) -> tuple[NDArray[np.integer] | None, NDArray[np.integer], NDArray[np.integer]]:
    """Tell samples that can be placed (None: all), that are too big, and that are empty."""
    dtype = index_type(len(given))
    none = np.zeros(0, dtype=dtype)
    demands = given.demands(options)
    if all(need.size == 0 or int(need.max()) <= most for need, most in demands) and (
        len(given) == 0 or int(given.lengths.min()) > 0
    ):
        return None, none, none
    empty = given.lengths == 0
    over = np.zeros(len(given), dtype=bool)
    for need, most in demands:
        over |= need > most
    over &= ~empty
    kept, rejected, zero = (np.flatnonzero(m).astype(dtype) for m in (~(empty | over), over, empty))
    return kept, rejected, zero


def attention_of(arrangement: Arrangement, samples: Samples) -> NDArray[np.int64]:
    """Return the sum of squared lengths of each pack, tokens squared."""
    return arrangement.squares(samples.lengths)


def _costs_of(
    arrangement: Arrangement, samples: Samples, options: PlanOptions
) -> NDArray[np.int64]:
    """(packs,) int64, what is balanced: attention cost, or ViT patches."""
    if options.balance == "vision" and samples.patches is not None:
        return arrangement.totals(samples.patches)
    return attention_of(arrangement, samples)


def _balanced(arrangement: Arrangement, samples: Samples, options: PlanOptions) -> Arrangement:
    """Bring packs into blocks of equal cost, when asked to."""
    if options.balance == "none":
        return arrangement
    packs = in_blocks(_costs_of(arrangement, samples, options), options.ranks, options.seed or 0)
    old = Offsets.from_lengths(arrangement.counts)
    return Arrangement(arrangement.order[old.gather(packs)], arrangement.counts[packs])


def imbalance_of(arrangement: Arrangement, samples: Samples, options: PlanOptions) -> float:
    """Time of all steps over that of equal shares; a step of one pack waits for none."""
    if options.ranks == 1:
        return 1.0
    return step_imbalance(_costs_of(arrangement, samples, options), options.ranks)


def least_imbalance_of(arrangement: Arrangement, samples: Samples, options: PlanOptions) -> float:
    """Return what no plan of as many packs can beat; 1 where nothing is proven."""
    if options.balance != "attention":
        return 1.0
    packs = arrangement.counts.size
    return least_imbalance(samples.histogram, options.capacity, packs, options.ranks)


def variation(costs: NDArray[np.integer]) -> float:
    """Return the standard deviation over the mean."""
    return float(costs.std() / costs.mean()) if costs.size else 0.0
