"""Which passes over a resumed epoch the workers have been through."""

from __future__ import annotations

import torch
from torch.utils.data import get_worker_info

_MOST_WORKERS = 128
_LAST_BIT = 62


class Passes:
    """Passes that each worker began and ended since the stream was moved.

    Workers start and stop at different times, and the training process does not know that they
    do, so each writes its own line in shared memory, and the number of a pass is how many the
    worker began before: a worker that begins late still sees what stood when its pass began.
    Passes of more workers than 128 are not followed, and never count as whole.
    """

    def __init__(self) -> None:
        # for each number of workers and each of them: passes begun, and a bit for each ended
        places = _MOST_WORKERS * (_MOST_WORKERS + 1) // 2
        self._lines = torch.zeros((places, 2), dtype=torch.int64).share_memory_()
        self._bit = 0

    def clear(self) -> None:
        """Forget all passes; in a worker its own, as others may have begun."""
        worker = get_worker_info()
        if worker is None:
            self._lines.zero_()
        elif worker.num_workers <= _MOST_WORKERS:
            self._lines[_place(worker.id, worker.num_workers)].zero_()

    def begin(self, number: int, workers: int) -> bool:
        """Begin a worker's pass; return whether one before it was whole."""
        if workers > _MOST_WORKERS:
            return False
        line = self._lines[_place(number, workers)]
        begun = int(line[0])
        self._bit = min(begun, _LAST_BIT)
        line[0] = begun + 1
        others = (count for count in range(1, _MOST_WORKERS + 1) if count != workers)
        own = self._ended(workers) & ((1 << self._bit) - 1)
        return own != 0 or any(map(self._ended, others))

    def end(self, number: int, workers: int) -> None:
        """End a worker's pass."""
        if workers <= _MOST_WORKERS:
            self._lines[_place(number, workers), 1] |= 1 << self._bit

    def whole(self) -> bool:
        """Return whether any pass was whole."""
        return any(map(self._ended, range(1, _MOST_WORKERS + 1)))

    def _ended(self, workers: int) -> int:
        """Return a bit for each pass that all of so many workers ended."""
        first = _place(0, workers)
        ended = -1
        for bits in self._lines[first : first + workers, 1].tolist():
            ended &= bits
        return ended


def _place(number: int, workers: int) -> int:
    return workers * (workers - 1) // 2 + number
