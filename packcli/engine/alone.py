"""One task in a process of its own, which may die: whoever asked is told how far it came."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ended(Generic[Result]):
    """How a process ended.

    Attributes:
        result: what the work returned; None where it died.
        died: the process ended without a result.
        first: the first place that the work noted; None where it noted none.
        last: the last one.
        status: the process's exit status, minus the number of the signal that killed it.
    """

    result: Result | None
    died: bool
    first: int | None
    last: int | None
    status: int | None


def run(work: Callable[[Callable[[int], None]], Result]) -> Ended[Result]:
    """Do work in a fresh process and wait for it.

    Args:
        work: importable by name; it is given a function to note with a number where it is.

    Raises:
        Exception: whatever the work raised.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(work, there))
    process.start()
    there.close()
    first, last, told = None, None, None
    try:
        while (message := _received(here)) is not None:
            if message[0] == "at":
                last = message[1]
                first = last if first is None else first
            else:
                told = message
    finally:
        if told is None:
            process.terminate()
        process.join()
    if told is None:
        return Ended(None, died=True, first=first, last=last, status=process.exitcode)
    kind, value = told
    if kind == "raised":
        raise value
    return Ended(value, died=False, first=first, last=last, status=process.exitcode)


def _received(pipe: Any) -> tuple[str, Any] | None:  # noqa: ANN401 - its class differs by system
    try:
        return pipe.recv()
    except EOFError:
        return None


def _work(work: Callable[[Callable[[int], None]], Any], pipe: Connection) -> None:
    def note(place: int) -> None:
        pipe.send(("at", place))

    try:
        message = ("done", work(note))
    except Exception as error:  # noqa: BLE001 - raised again where the work was asked for
        message = ("raised", error)
    pipe.send(message)
