"""Which process of how many this is."""

from __future__ import annotations

import os
from dataclasses import dataclass

from packcli.contract.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ranks:
    """One data-parallel process among all of them.

    Attributes:
        rank: this one, from 0.
        count: all.
    """

    rank: int
    count: int

    @classmethod
    def given(cls, ranks: tuple[int, int] | None) -> Ranks:
        """Take what the caller says, else torch.distributed, else RANK and WORLD_SIZE, else one.

        Raises:
            UsageError: no such rank.
        """
        rank, count = _found() if ranks is None else ranks
        if not 0 <= rank < count:
            raise UsageError(f"rank {rank} of {count}; ranks count from 0")
        return cls(rank, count)


def _found() -> tuple[int, int]:
    from torch import distributed  # noqa: PLC0415 - samplers work without torch when told the rank

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
