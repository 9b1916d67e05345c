"""The records that samples were made from, found again by file and line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from packcli.contract.errors import InputError, UsageError
from packcli.export.inputs import only_last_learnt, told_apart
from packcli.export.refusals import UnfitError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.shards.manifest import Manifest

_LINES = (".jsonl", ".ndjson")
_SAME = "give the files that were encoded, unchanged"
_ANSWERS = ("assistant", "gpt")
_LAST = (
    "has several answers and learns the last one only, but the trainer would learn all",
    "encode without --supervise last, or train it with packcli.train",
)


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """One file of lines.

    Attributes:
        path: the file.
        starts: (L + 1,) int64, where each line starts, bytes.
    """

    path: Path
    starts: NDArray[np.int64]

    def line(self, number: int) -> bytes:
        if not 0 < number < len(self.starts):
            raise InputError(f"{self.path}: has no line {number}; {_SAME}")
        start, stop = self.starts[number - 1 : number + 1].tolist()
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(stop - start)


class Records:
    """Records by the `file:line` of ``sample_sources``; eight bytes a line in memory.

    A file stands for the inputs whose bytes it has, so two of one name are never mixed up.

    Args:
        paths: JSON Lines files that were encoded.
        manifest: of the dataset; tells names and hashes of the inputs.

    Raises:
        UsageError: no files.
        InputError: files of another kind, not those that were encoded, or sources that do not
            tell inputs apart.
    """

    def __init__(self, paths: Sequence[Path], manifest: Manifest) -> None:
        if not paths:
            raise UsageError("this target is made of records: give --records FILE for each input")
        known = told_apart(manifest)
        self._last = only_last_learnt(manifest)
        self._files: dict[str, _File] = {}
        for path in paths:
            if path.suffix not in _LINES:
                message = f"{path}: records are looked up in .jsonl files; convert it, encode that"
                raise InputError(message)
            starts, digest = _scan(path)
            names = [name for name, told in known.items() if told == digest]
            if not names:
                raise InputError(_stranger(path, known))
            self._files |= dict.fromkeys(names, _File(path, starts))

    def find(self, source: str, name: str) -> dict[str, Any]:
        """Return the record of a sample.

        Args:
            source: its file and line.
            name: its id, which the record must have too.

        Raises:
            InputError: that file was not given, or has no such line.
            UnfitError: the line holds another record, or one whose trainer would learn more than
                the sample does.
        """
        file, _, line = source.rpartition(":")
        found = self._files.get(file)
        if found is None or not line.isdecimal():
            raise InputError(f"sample {name!r} is from {source!r}: give that file as --records")
        try:
            record = json.loads(found.line(int(line)).removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise UnfitError("its record is no JSON", _SAME, str(error)) from error
        if not isinstance(record, dict):
            raise UnfitError("its record is no JSON object", _SAME)
        told = cast("dict[str, Any]", record)
        # encode names a sample by its source where the record has no id
        own = told.get("id")
        named = isinstance(own, str | int | float) and own != ""
        if name != (str(own) if named else source):
            raise UnfitError("its record has another id", _SAME, repr(own))
        if self._last and _answers(told) > 1:
            raise UnfitError(*_LAST)
        return told


def _answers(record: dict[str, Any]) -> int:
    turns: Any = record.get("messages") or record.get("conversations")
    listed = cast("list[Any]", turns if isinstance(turns, list) else [])
    roles = [turn.get("role", turn.get("from")) for turn in listed if isinstance(turn, dict)]
    return sum(role in _ANSWERS for role in roles)


def _stranger(path: Path, known: dict[str, str]) -> str:
    """Say of a file that none of the inputs has its bytes, and which it may have been."""
    names = [name for name in known if PurePosixPath(name).name == path.name]
    closest = max(names, key=lambda name: _shared(name, path), default=None)
    if closest is None:
        return f"{path}: is none of the inputs ({', '.join(known)}); {_SAME}"
    return f"{path}: is not {closest}, or changed since it was encoded; {_SAME}"


def _shared(name: str, path: Path) -> int:
    """Count trailing parts that a name and a path share."""
    pairs = zip(reversed(PurePosixPath(name).parts), reversed(path.absolute().parts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _scan(path: Path) -> tuple[NDArray[np.int64], str]:
    """Find the lines of a file, and hash it."""
    digest, place = sha256(), 0
    starts = [np.zeros(1, np.int64)]
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            starts.append(ends + (place + 1))
            place += len(block)
    found = np.concatenate(starts)
    return (found if found[-1] == place else np.append(found, place)), digest.hexdigest()
