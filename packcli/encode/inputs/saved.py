"""A folder that `datasets` saved with `save_to_disk`; rows are records, nothing is decoded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import EnvironmentLacksError, InputError
from packcli.encode.records.raw import ByteRange, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.encode.records.raw import RawRecord

SUFFIXES: tuple[str, ...] = ()

_ROWS = 256


def ranges(path: Path, target_bytes: int) -> list[ByteRange]:
    """Cut between rows, by their mean size.

    Raises:
        InputError: `datasets` cannot load the folder.
    """
    rows = _load(path)
    step = max(1, target_bytes * len(rows) // max(1, rows.data.nbytes))
    return [
        ByteRange(first, min(first + step, len(rows)), first) for first in range(0, len(rows), step)
    ]


def records(path: Path, part: ByteRange) -> Iterator[RawRecord]:
    """Yield the rows of a part."""
    rows = _load(path)
    for first in range(part.start, part.stop, _ROWS):
        table = rows[first : min(first + _ROWS, part.stop)]
        yield from rows_of(table, first)


@lru_cache(maxsize=4)
def _load(path: Path) -> Any:  # noqa: ANN401 - datasets.Dataset, whose module is slow to import
    try:
        from datasets import load_from_disk  # noqa: PLC0415 - a second, and few need it
    except ImportError as error:
        raise EnvironmentLacksError("a saved dataset needs `pip install datasets`") from error
    try:
        # as Arrow: images stay the bytes that were saved
        return load_from_disk(str(path)).with_format("arrow")
    except Exception as error:
        line = " ".join(str(error).split())
        raise InputError(f"{path}: `datasets` cannot load it: {line:.160}") from error
