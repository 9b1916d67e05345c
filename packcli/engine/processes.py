"""A pool of spawned processes on this machine.

Spawned, not forked: a fork copies the locks of tokenizer and Arrow threads, and hangs.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, TypeVar

from packcli.contract.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


class _WorkerDiedError(IncompleteError):
    """A worker was killed, and every task that was waiting may be the cause.

    Attributes:
        held: how many tasks were waiting.
    """

    def __init__(self, message: str, held: int) -> None:
        super().__init__(message)
        self.held = held


def run(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int,
    rescue: Callable[[Task], Result] | None = None,
) -> Iterator[Result]:
    """Yield the result of every task in order, at most twice `workers` ahead of the reader.

    Raises:
        IncompleteError: a worker was killed and there is no rescue, naming the tasks that it may
            have held.
    """
    left = deque(tasks)
    while left:
        try:
            for result in _pool(work, list(left), workers):
                left.popleft()
                yield result
        except _WorkerDiedError as death:
            if rescue is None:
                raise
            for _ in range(max(1, death.held)):
                yield rescue(left.popleft())


def _pool(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=context)
    waiting: deque[tuple[Task, Future[Result]]] = deque()
    try:
        for task in tasks:
            waiting.append((task, pool.submit(work, task)))
            if len(waiting) >= 2 * workers:
                yield waiting[0][1].result()
                waiting.popleft()
        while waiting:
            yield waiting[0][1].result()
            waiting.popleft()
    except BrokenProcessPool as error:
        held = ", ".join(f"{task!s:.200}" for task, future in waiting if _lost(future))
        raise _WorkerDiedError(
            f"a worker process died (killed, or out of memory) on one of: {held}; "
            "run again to resume, with fewer workers if memory is short",
            len(waiting),
        ) from error
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _lost(future: Future[Any]) -> bool:
    """Tell whether a task was given to the pool and has no result."""
    return not future.done() or isinstance(future.exception(), BrokenProcessPool)
