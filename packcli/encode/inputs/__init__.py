"""The shelf of containers: one file each, found by name, imported when asked for."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packcli.encode.records.raw import ByteRange, RawRecord


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
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")


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
    found: dict[str, str] = {}
    for name in names():
        found |= dict.fromkeys(load(name).SUFFIXES, name)
    fitting = [suffix for suffix in found if path.name.lower().endswith(suffix)]
    if not fitting:
        raise InputError(
            f"{path}: no reader for this kind of file; give one of {', '.join(sorted(found))}"
        )
    return load(found[max(fitting, key=len)])
