"""Slot runs: where the slots of one kind of medium stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts


@dataclass(frozen=True, slots=True, eq=False)
class SlotRuns:
    """n runs of slots, each without a gap: there are far fewer of them than slots.

    Attributes:
        starts: (n,) int64, the first token of each run.
        counts: (n + 1,) int64, slots before each run, and slots of all.
    """

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, input_ids: NDArray[np.integer], token: int | None) -> SlotRuns:
        """Find the slots.

        Args:
            input_ids: (N,) token ids.
            token: the id of a slot; None where there are none.
        """
        if token is None:
            return cls(np.zeros(0, np.int64), np.zeros(1, np.int64))
        marked = np.zeros(input_ids.size + 2, dtype=bool)
        np.equal(input_ids, token, out=marked[1:-1])
        edges = np.flatnonzero(marked[1:] != marked[:-1])
        counts = np.zeros(edges.size // 2 + 1, np.int64)
        np.cumsum(edges[1::2] - edges[::2], out=counts[1:])
        return cls(edges[::2], counts)

    @property
    def total(self) -> int:
        """How many slots there are."""
        return int(self.counts[-1])

    def places(self, slots: NDArray[np.integer]) -> NDArray[np.int64]:
        """Tell the tokens of slots.

        Args:
            slots: numbers of slots, each below `total`.
        """
        run = np.searchsorted(self.counts, slots, side="right") - 1
        return self.starts[run] + slots - self.counts[run]

    def before(self, tokens: NDArray[np.integer]) -> NDArray[np.int64]:
        """Count the slots in front of tokens.

        Args:
            tokens: flat token numbers, or the number of all tokens.
        """
        run = np.searchsorted(self.starts, tokens)
        ends = np.zeros(self.counts.size, np.int64)
        ends[1:] = self.starts + np.diff(self.counts)
        # all runs that start in front of a token, less what the last of them has behind it
        return self.counts[run] - np.maximum(ends[run] - tokens, 0)


def slot_runs(input_ids: NDArray[np.integer], facts: ModelFacts) -> dict[str, SlotRuns]:
    """Find the slots of each kind of medium, ``image`` and ``video``.

    Args:
        input_ids: (N,) token ids.
        facts: the model.
    """
    tokens = facts.slot_tokens
    return {kind: SlotRuns.of(input_ids, tokens.get(kind)) for kind in ("image", "video")}
