"""One writer at a time: a lock that ends with the process that holds it, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from typing import TYPE_CHECKING

from packcli.contract.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_TAKEN = (errno.EACCES, errno.EAGAIN)
_held: dict[Path, int] = {}  # closing any handle of the file would end the lock, so there is one


def lock(path: Path, output: Path) -> None:
    """Take the lock of an output for this process; taking it again changes nothing.

    The system frees it when the process ends, killed or not: a file that is left behind holds
    nothing. On a file system without locks nothing is held.

    Args:
        path: the lock's file.
        output: what it guards, for the message.

    Raises:
        UsageError: another process holds it.
        OSError: the file cannot be made.
    """
    key = path.absolute()
    while key not in _held:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(handle, 200).decode("utf-8", "replace")
            os.close(handle)
            if error.errno not in _TAKEN:
                return
            told = holder or "another process"
            message = f"{output}: {told} is writing there; wait until it ends, or choose another"
            raise UsageError(f"{message} folder") from error
        if _is(path, handle):
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
            _held[key] = handle
        else:  # its last holder removed the file after it was opened here
            os.close(handle)


def unlock(path: Path) -> None:
    """Give a lock back, and remove its file."""
    handle = _held.pop(path.absolute(), None)
    if handle is not None:
        path.unlink(missing_ok=True)
        os.close(handle)


def _is(path: Path, handle: int) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
