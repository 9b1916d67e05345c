"""The shelf of containers: one file each, found by name, imported when asked for."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from packcli.contract.errors import InputError
from packcli.contract.shelf import listed
from packcli.encode.inputs import json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.encode.records.raw import ByteRange, RawRecord


_SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test",
    "evaluation": "test", "validation": "validation", "valid": "validation", "val": "validation",
    "dev": "validation",
}  # fmt: skip
"""Words in file names that tell a split, as `datasets` reads them."""

_SPLIT = re.compile(rf"(?:^|[^a-z])({'|'.join(_SPLITS)})(?:[^a-z]|$)")
_NO_DATA = {"dataset_info.json", "dataset_infos.json", "manifest.json"}


class Reader(Protocol):
    """What every file on this shelf offers."""

    SUFFIXES: tuple[str, ...]

    def ranges(self, path: Path, target_bytes: int) -> list[ByteRange]:
        """Cut a file into parts of about `target_bytes`, whatever the number of workers."""
        ...

    def records(self, path: Path, part: ByteRange) -> Iterator[RawRecord]:
        """Yield the records whose first byte lies in `part`, blank lines included."""
        ...


def names() -> list[str]:
    """List the containers from the folder, without importing one."""
    return listed(__path__)


def load(name: str) -> Reader:
    """Import one reader.

    Raises:
        InputError: there is no reader of that name.
    """
    if name not in names():
        raise InputError(f"no reader is called {name!r}; there are {', '.join(names())}")
    return cast("Reader", import_module(f"{__name__}.{name}"))


def reader_for(path: Path) -> Reader:
    """Choose the reader by the end of the file's name; the longest match wins.

    Raises:
        InputError: no container has that suffix.
    """
    if path.is_dir():
        return load("saved")
    found = _suffixes()
    fitting = [suffix for suffix in found if path.name.lower().endswith(suffix)]
    if not fitting:
        raise InputError(
            f"{path}: no reader for this kind of file; give one of {', '.join(sorted(found))}, "
            "or a folder"
        )
    name = found[max(fitting, key=len)]
    return load("json" if name == "jsonl" and path.is_file() and json.in_disguise(path) else name)


def expand(paths: list[Path]) -> list[Path]:
    """Put the data files of a folder in its place; a dataset that `datasets` saved stays whole.

    Raises:
        InputError: a path is not there, or a folder holds no data files, or those of several
            splits.
    """
    return [file for path in paths for file in _files(path)]


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_dir() or (path / "state.json").is_file():
        return [path]
    if (path / "dataset_dict.json").is_file():
        saved = sorted(entry.parent for entry in path.glob("*/state.json"))
        return _only_split(path, {folder.name: [folder] for folder in saved})
    suffixes = tuple(_suffixes())
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.name.lower().endswith(suffixes)
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.name not in _NO_DATA
    ]
    splits: dict[str, list[Path]] = {}
    for file in files:
        named = _SPLIT.search(file.relative_to(path).as_posix().lower())
        splits.setdefault(_SPLITS[named[1]] if named else "train", []).append(file)
    return _only_split(path, splits)


def _only_split(path: Path, splits: dict[str, list[Path]]) -> list[Path]:
    if not splits:
        known = ", ".join(sorted(_suffixes()))
        raise InputError(f"{path}: a folder without data files; give one with {known} files")
    if len(splits) > 1:
        examples = ", ".join(str(files[0]) for files in splits.values())
        raise InputError(f"{path} holds several splits; name what to encode, e.g. {examples}")
    return next(iter(splits.values()))


def _suffixes() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names():
        found |= dict.fromkeys(load(name).SUFFIXES, name)
    return found
