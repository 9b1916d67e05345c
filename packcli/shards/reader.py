"""Read one shard, row group by row group, page checksums verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packcli.contract.errors import InputError
from packcli.contract.padding import NAME as PADDING_NAME
from packcli.shards.arrow import to_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.contract.rows import Rows


_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What pyarrow raises on damaged bytes: wrong names and texts are UnicodeDecodeError."""


class ShardUnreadableError(InputError):
    """A shard's bytes are damaged or are no Parquet file.

    Attributes:
        path: the file.
        reason: what the Parquet reader says, in one line.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: not a readable Parquet shard: {reason}; create it again")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[ShardUnreadableError], tuple[Path, str]]:
        """Let it cross from a worker process."""
        return type(self), (self.path, self.reason)


@dataclass(frozen=True, slots=True)
class Shard:
    """An open shard.

    Attributes:
        path: the file.
        file: pyarrow's handle; pages are checked against their checksums on every read.
    """

    path: Path
    file: pq.ParquetFile

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Open a shard.

        Raises:
            ShardUnreadableError: the footer cannot be read.
        """
        try:
            return cls(path, pq.ParquetFile(path, page_checksum_verification=True))
        except _UNREADABLE as error:
            raise ShardUnreadableError(path, _line(error)) from error

    @property
    def rows(self) -> int:
        """Rows of the whole shard."""
        return int(self.file.metadata.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of the top-level columns."""
        return list(self.file.schema_arrow.names)

    def groups(
        self, facts: ModelFacts | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Rows]:
        """Yield the rows of each row group.

        Args:
            facts: the model that the rows are read for.
            columns: names of top-level columns; all when None.

        Raises:
            ShardUnreadableError: a page is damaged.
        """
        for number in range(self.file.num_row_groups):
            yield self.group(number, facts, columns)

    @property
    def group_rows(self) -> list[int]:
        """Rows of each row group."""
        metadata = self.file.metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def whole(self, columns: Sequence[str], facts: ModelFacts | None = None) -> Rows:
        """Read some columns of all rows at once.

        Raises:
            ShardUnreadableError: a page is damaged.
        """
        try:
            return to_rows(self.file.read(columns=[*columns]), facts)
        except _UNREADABLE as error:
            raise ShardUnreadableError(self.path, _line(error)) from error

    def ids(self) -> pa.ChunkedArray:
        """Read the ids of all samples, as Arrow text: a tenth of what Python's takes."""
        ids = self._texts("sample_ids")
        padding = pc.equal(ids, PADDING_NAME)
        if not pc.any(padding).as_py():
            return ids
        padding = pc.and_(padding, pc.equal(self._texts("sample_sources"), ""))
        return ids.filter(pc.invert(padding))

    def _texts(self, name: str) -> pa.ChunkedArray:
        try:
            lists = self.file.read(columns=[name]).column(0)
        except _UNREADABLE as error:
            raise ShardUnreadableError(self.path, _line(error)) from error
        return pa.chunked_array([chunk.flatten() for chunk in lists.chunks], pa.string())

    def group(
        self, number: int, facts: ModelFacts | None = None, columns: Sequence[str] | None = None
    ) -> Rows:
        """Read one row group."""
        return self.together((number,), facts, columns)

    def together(
        self,
        numbers: Sequence[int],
        facts: ModelFacts | None = None,
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """Read some row groups at once.

        Raises:
            ShardUnreadableError: a page is damaged.
        """
        wanted = None if columns is None else [*columns]
        try:
            return to_rows(self.file.read_row_groups([*numbers], columns=wanted), facts)
        except _UNREADABLE as error:
            raise ShardUnreadableError(self.path, _line(error)) from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
