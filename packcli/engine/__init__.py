"""Service: spread tasks over processes; results come back in the order of the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packcli.engine import processes, serial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Task = TypeVar("Task")
Result = TypeVar("Result")


def run(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    rescue: Callable[[Task], Result] | None = None,
) -> Iterator[Result]:
    """Do the work for every task.

    Args:
        work: a pure function of its task, importable by name; its output must not depend on
            where it runs.
        tasks: what to do, each independent of the others.
        workers: processes; 1 runs everything in this one.
        rescue: does a task that a dying worker may have held, and outlives what killed it.

    Yields:
        One result a task, in the order of the tasks, each as soon as it and all before it are
        there.

    Raises:
        IncompleteError: a worker process died, and there is no rescue.
    """
    if workers <= 1 or len(tasks) <= 1:
        return serial.run(work, tasks)
    return processes.run(work, tasks, workers=workers, rescue=rescue)
