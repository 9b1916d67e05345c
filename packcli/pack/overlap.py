"""One step of work in a thread: while packs are written, the next ones are gathered."""

from __future__ import annotations

from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

Item = TypeVar("Item")


class Overlapped(Generic[Item]):
    """Call a function for one item after the other, in a thread, at most one item behind.

    The order of the calls is the order of `put`; an error of a call is raised by the next `put`
    or at the end of the block.
    """

    def __init__(self, work: Callable[[Item], None]) -> None:
        self._work = work
        self._queue: Queue[Item | None] = Queue(maxsize=1)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="packcli-write", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def put(self, item: Item) -> None:
        """Hand an item over; wait while another one waits."""
        self._queue.put(item)
        if self._error is not None:
            raise self._error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the last call; an error inside the block goes before one of the thread."""
        self._queue.put(None)
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        # after an error the queue is still emptied, so that nobody waits for ever
        while (item := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._work(item)
            except BaseException as error:  # noqa: BLE001 - raised in the other thread
                self._error = error
            del item
