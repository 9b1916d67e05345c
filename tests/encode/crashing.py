"""A job that makes the processes it is sent to die on records that say so; imported by name."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

from packcli.encode import encoder
from packcli.encode.options import EncodeJob

_parse = encoder.parse


@dataclass(frozen=True)
class CrashingJob(EncodeJob):
    """Arms a process when it is unpickled there, and only there."""

    def __reduce__(self) -> Any:
        return _armed, (self.model, self.media_root, self.options, self.tokenizer)


def _armed(*fields: Any) -> CrashingJob:
    encoder.parse = _parse_or_die
    return CrashingJob(*fields)


def _parse_or_die(raw: Any) -> Any:
    if b"abort" in raw.raw:
        os.abort()
    if b"kill" in raw.raw:
        os.kill(os.getpid(), signal.SIGKILL)
    if b"exit" in raw.raw:
        os._exit(7)
    return _parse(raw)
