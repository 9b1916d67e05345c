"""The records that samples were made from, found again by file and line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from packcli.contract.errors import InputError, UsageError
from packcli.export.refusals import UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.shards.manifest import Manifest

_LINES = (".jsonl", ".ndjson")
_SAME = "give the files that were encoded, unchanged"


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

    Args:
        paths: JSON Lines files that were encoded.
        manifest: of the dataset; files whose hash it holds must be unchanged.

    Raises:
        UsageError: no files.
        InputError: files of another kind, of equal names, or changed since they were encoded.
    """

    def __init__(self, paths: Sequence[Path], manifest: Manifest) -> None:
        if not paths:
            raise UsageError("this target is made of records: give --records FILE for each input")
        hashes = dict(_hashes(manifest.inputs))
        self._files: dict[str, _File] = {}
        for path in paths:
            if path.suffix not in _LINES:
                raise InputError(f"{path}: records are looked up in .jsonl files; convert it")
            if path.name in self._files:
                raise InputError(f"{path}: two files are called {path.name}; rename and encode one")
            starts, digest = _scan(path)
            if hashes.get(path.name, digest) != digest:
                raise InputError(f"{path}: changed since it was encoded; {_SAME}")
            self._files[path.name] = _File(path, starts)

    def find(self, source: str, name: str) -> dict[str, Any]:
        """Return the record of a sample.

        Args:
            source: its file and line.
            name: its id, which the record must have too.

        Raises:
            InputError: that file was not given, or has no such line.
            UnfitError: the line holds another record.
        """
        file, _, line = source.rpartition(":")
        found = self._files.get(PurePosixPath(file).name)
        if found is None or not line.isdecimal():
            raise InputError(f"sample {name!r} is from {source!r}: give that file as --records")
        try:
            record = json.loads(found.line(int(line)).removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise UnfitError("its record is no JSON", _SAME, str(error)) from error
        if not isinstance(record, dict):
            raise UnfitError("its record is no JSON object", _SAME)
        told = cast("dict[str, Any]", record)
        if told.get("id") not in (None, "") and name not in (str(told["id"]), source):
            raise UnfitError("its record has another id", _SAME, repr(told["id"]))
        return told


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


def _hashes(inputs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield names and hashes of the files that were encoded, from whatever depth they stand in."""
    for one in inputs:
        yield from _hashes(one.get("inputs", []))
        if "sha256" in one and "name" in one:
            yield PurePosixPath(str(one["name"])).name, str(one["sha256"])
