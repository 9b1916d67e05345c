"""A pool of spawned processes on this machine.

Spawned, not forked: a fork copies the locks of tokenizer and Arrow threads, and hangs.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, TypeVar

from packcli.contract.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


def run(work: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int) -> Iterator[Result]:
    """Yield the result of every task in order, at most twice `workers` ahead of the reader.

    Raises:
        IncompleteError: a worker was killed, naming the task that it may have held.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context)
    waiting: deque[tuple[Task, Future[Result]]] = deque()
    remaining = iter(tasks)
    try:
        for task in remaining:
            waiting.append((task, pool.submit(work, task)))
            if len(waiting) >= 2 * workers:
                yield _result(*waiting.popleft())
        while waiting:
            yield _result(*waiting.popleft())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _result(task: object, future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise IncompleteError(
            f"a worker process died (killed, or out of memory), at or before {task}; "
            "run again to resume, with fewer workers if memory is short"
        ) from error
