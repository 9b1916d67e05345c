"""Iterable dataset: every pack once an epoch over all ranks and workers, resumable anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from packcli.contract.errors import UsageError
from packcli.train.order import epoch_order, even_batches, rank_share, token_batches
from packcli.train.passes import Passes
from packcli.train.ranks import Ranks
from packcli.train.row import Pack
from packcli.train.source import PackSource, Sourced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream orders and cuts an epoch.

    Attributes:
        batch_size: packs in a batch; ignored with `max_tokens`.
        max_tokens: tokens in a batch, at most: for encoded samples that were not packed.
        seed: of the shuffle, the same on all ranks.
        shuffled_groups: row groups (about 57 k tokens each) whose packs are mixed; a worker
            holds so many decoded. 0 keeps the order of the files.
        equal_ranks: drop what makes ranks unequal: up to one pack a rank, and with `max_tokens`
            the batches past the fewest of any rank, so that all ranks have as many batches.
    """

    batch_size: int = 1
    max_tokens: int | None = None
    seed: int = 0
    shuffled_groups: int = 16
    equal_ranks: bool = False

    def __post_init__(self) -> None:
        """Refuse counts below one.

        Raises:
            UsageError: naming the option.
        """
        for name, least in (("batch_size", 1), ("max_tokens", 1), ("shuffled_groups", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}; give at least {least}")


_DEFAULTS = StreamOptions()


class PackStream(Sourced, IterableDataset[list[Pack]]):
    """Batches of packs, for ``DataLoader(stream, batch_size=None, collate_fn=collator)``.

    The order of a rank's batches depends on seed, epoch and rank alone: batch i of an epoch is
    made by worker i mod workers, and the DataLoader takes from its workers in turn, so another
    number of workers trains on the same sequence, and a count of packs says where it stopped.

    Args:
        path: the folder that ``packcli pack`` or ``packcli encode`` wrote.
        options: order and batches.
        ranks: this process and all of them; None asks torch.distributed or the environment.

    Raises:
        InputError: no complete dataset.
    """

    def __init__(
        self,
        path: str | Path,
        options: StreamOptions = _DEFAULTS,
        *,
        ranks: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        # a run of groups may start and end inside one, so one more than a run is in use
        self.source = PackSource(path, options.shuffled_groups + 1)
        self._options = options
        self._ranks = Ranks.given(ranks)
        self._groups = self.source.groups()
        self._lengths = self.source.scalars("length") if options.max_tokens is not None else None
        # epoch, packs seen before the first pass, workers of the pass: in shared memory, as
        # workers may outlive an epoch, and only they know that they iterate
        self._place = torch.zeros(3, dtype=torch.int64).share_memory_()
        self._passes = Passes()
        self._resumed: dict[str, int] | None = None
        self._progress: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of batches of this rank in a whole epoch."""
        if self._options.max_tokens is None:
            share = self._share(self._ranks.rank)
            return ceil((share.stop - share.start) / self._options.batch_size)
        return len(self._bounds(self._order(int(self._place[0])))) - 1

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle of the next pass; call it before every epoch.

        The epoch that `load_state_dict` came back to keeps its place.
        """
        if epoch != int(self._place[0]):
            self._move(epoch, 0)

    def state_dict(self, seen: int | None = None) -> dict[str, Any]:
        """Say where this rank is.

        Args:
            seen: packs of this epoch that this rank has trained on. With worker processes only
                the training loop knows; without, None counts what was yielded.

        Raises:
            UsageError: worker processes iterate, and `seen` is not given.
        """
        epoch, start, workers = self._place.tolist()
        if seen is not None:
            return {"epoch": epoch, "seen": seen} | self._identity()
        if workers and get_worker_info() is None:
            raise UsageError(
                "worker processes read ahead; say state_dict(seen=packs trained on in this epoch)"
            )
        return {"epoch": epoch, "seen": start} | self._progress | self._identity()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind the packs already seen, with any number of workers.

        Raises:
            UsageError: the state is of another dataset, seed, shuffle or rank count.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise UsageError(
                    f"cannot resume: {name} was {state.get(name)!r} and is {value!r}; "
                    "keep dataset, seed, shuffled_groups, ranks and max_tokens of the run"
                )
        self._move(state["epoch"], state["seen"])
        self._resumed = dict(state) if "workers" in state else None

    def _move(self, epoch: int, seen: int) -> None:
        self._place.copy_(torch.tensor([epoch, seen, 0]))
        self._passes.clear()
        self._resumed = None
        self._progress = {}

    def __iter__(self) -> Iterator[list[Pack]]:
        """Yield this worker's batches of the rest of the epoch; of all of it once that is done."""
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        start = self._start(number, 0 if worker is None else workers)
        order = self._order(int(self._place[0]))[start:]
        cuts = list(pairwise(self._bounds(order)))
        first = self._first(number, workers)
        self._resumed = None
        if worker is None:
            return self._counted([order[slice(*cut)] for cut in cuts], start)
        turns = range(first, len(cuts), workers)
        self._progress = {"seen": start, "next": first, "workers": workers}
        return self._own([order[slice(*cuts[turn])] for turn in turns], turns, (number, workers))

    def _start(self, number: int, workers: int) -> int:
        """Return how many packs were seen before this pass: only one whole pass goes on."""
        seen = int(self._place[1])
        self._place[2] = workers
        if workers:
            return 0 if self._passes.begin(number, workers) else seen
        if self._passes.whole():
            self._place[1] = seen = 0
        return seen

    def _counted(self, batches: list[NDArray[np.int64]], start: int) -> Iterator[list[Pack]]:
        """Yield all batches; a state is asked for while the generator stands at its yield."""
        self._progress = {"seen": start}
        for rows in batches:
            packs = [self.source.pack(row) for row in rows.tolist()]
            self._progress["seen"] += len(packs)
            yield packs
        self._place[1] = 0

    def _own(
        self, batches: list[NDArray[np.int64]], turns: range, worker: tuple[int, int]
    ) -> Iterator[list[Pack]]:
        """Yield a worker's share of the batches."""
        for turn, rows in zip(turns, batches, strict=True):
            packs = [self.source.pack(row) for row in rows.tolist()]
            self._progress["next"] = turn + turns.step
            yield packs
        self._passes.end(*worker)

    def _first(self, number: int, workers: int) -> int:
        """Return this worker's first batch."""
        if self._resumed is None:
            return number
        if self._resumed["workers"] != workers:
            raise UsageError(
                f"state of a worker among {self._resumed['workers']}, now there are {workers}; "
                "use as many, or state_dict(seen=…) in the training loop, which fits any number"
            )
        return self._resumed["next"]

    def _share(self, rank: int) -> slice:
        return rank_share(
            len(self.source), rank, self._ranks.count, equal=self._options.equal_ranks
        )

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if self._lengths is None or not self._options.equal_ranks:
            return self._order_of(self._ranks.rank, epoch)
        # lengths differ, so ranks of as many packs have not as many batches
        every = [self._order_of(rank, epoch) for rank in range(self._ranks.count)]
        bounds = [self._bounds(order) for order in every]
        fewest = min(map(len, bounds)) - 1
        own = self._ranks.rank
        return every[own][: bounds[own][fewest]]

    def _order_of(self, rank: int, epoch: int) -> NDArray[np.int64]:
        seed, runs = self._options.seed, self._options.shuffled_groups
        return epoch_order(self._groups, self._share(rank), (seed, epoch), runs)

    def _bounds(self, order: NDArray[np.int64]) -> list[int]:
        if self._lengths is None or self._options.max_tokens is None:
            return even_batches(order.size, self._options.batch_size)
        return token_batches(self._lengths[order], self._options.max_tokens)

    def _identity(self) -> dict[str, Any]:
        return {
            "fingerprint": self.source.manifest.fingerprint,
            "seed": self._options.seed,
            "shuffled_groups": self._options.shuffled_groups,
            "equal_ranks": self._options.equal_ranks,
            # decides what is dropped
            "max_tokens": self._options.max_tokens if self._options.equal_ranks else None,
            "rank": self._ranks.rank,
            "ranks": self._ranks.count,
        }
