"""A part that killed its worker: find the records that did, and keep all others."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from packcli.contract.errors import IncompleteError, Rejection
from packcli.engine import alone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packcli.encode.options import Part

Note: TypeAlias = Callable[[int], None]

MOST_CRASHES = 20
"""Records of one part that may kill a worker; beyond it, it is not the records."""


class Write(Protocol):
    """Encodes a part in a process of its own, records that kill left out."""

    def __call__(self, note: Note, crashed: Mapping[int, Rejection]) -> dict[str, Any]:
        """Return the part's report."""
        ...


class Scan(Protocol):
    """Encodes records one by one, writes nothing, and notes each before it is begun."""

    def __call__(self, note: Note, start: int) -> None:
        """Begin at the record whose offset is `start`."""
        ...


class _Writing:
    """A picklable call of `Write` without its second argument."""

    def __init__(self, write: Write, crashed: Mapping[int, Rejection]) -> None:
        self._write, self._crashed = write, crashed

    def __call__(self, note: Note) -> dict[str, Any]:
        return self._write(note, self._crashed)


class _Scanning:
    """A picklable call of `Scan` without its second argument."""

    def __init__(self, scan: Scan, start: int) -> None:
        self._scan, self._start = scan, start

    def __call__(self, note: Note) -> None:
        self._scan(note, self._start)


def rescue(part: Part, write: Write, scan: Scan) -> dict[str, Any]:
    """Encode a part of which a worker may have died.

    Each try runs in a fresh process. A record is given up when a process dies on it that had
    done nothing before it.

    Raises:
        IncompleteError: the process dies again and again, and no record can be named.
    """
    ended = alone.run(_Writing(write, {}))
    if ended.result is None:
        crashed = _find(part, scan)
        ended = alone.run(_Writing(write, crashed))
    if ended.result is None:
        raise _hopeless(part, f"the process died ({_how(ended.status)}) and no record is the cause")
    return ended.result


def _find(part: Part, scan: Scan) -> dict[int, Rejection]:
    crashed: dict[int, Rejection] = {}
    start = part.range.start
    while (ended := alone.run(_Scanning(scan, start))).died:
        place = ended.last
        if place is None:
            raise _hopeless(part, f"the process died ({_how(ended.status)}) before any record")
        # the first record of a fresh process: there is nothing else that it can have died of
        if place == ended.first:
            message = f"it killed the process that encoded it ({_how(ended.status)})"
            crashed[place] = Rejection("worker_crash", f"{message}; drop it and report it")
            place += 1
        start = place
        if len(crashed) > MOST_CRASHES:
            raise _hopeless(part, f"more than {MOST_CRASHES} of its records kill their process")
    return crashed


def _hopeless(part: Part, why: str) -> IncompleteError:
    where = f"{part.name}, part {part.number + 1} of {part.count}"
    return IncompleteError(f"{where}: {why}; look at memory and libraries, then run again")


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"
