"""Rows to Parquet files, or to a folder as `datasets` saves it; full files are closed."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def lists(values: NDArray[Any], offsets: NDArray[np.integer]) -> pa.Array:
    """Cut flat values into one list a row.

    Args:
        values: (N,) numbers.
        offsets: (R + 1,) integers, where the rows start and end.
    """
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


class _Files:
    """Files of rows.

    Args:
        folder: where they go.
        schema: of every row.
        file_bytes: size at which a file is closed.
    """

    def __init__(self, folder: Path, schema: pa.Schema, file_bytes: int) -> None:
        self._folder = folder
        self._schema = schema
        self._file_bytes = file_bytes


class ParquetFiles(_Files):
    """Parquet files ``train-00000.parquet``, …: one row group each portion."""

    def __init__(self, folder: Path, schema: pa.Schema, file_bytes: int) -> None:
        super().__init__(folder, schema, file_bytes)
        self._file: pq.ParquetWriter | None = None
        self._path = folder
        self._count = 0

    def write(self, columns: dict[str, Any]) -> None:
        """Append rows."""
        file = self._file or self._next()
        file.write_table(pa.table(columns, schema=self._schema))
        if self._path.stat().st_size >= self._file_bytes:
            self.close()

    def _next(self) -> pq.ParquetWriter:
        self._path = self._folder / f"train-{self._count:05d}.parquet"
        self._count += 1
        self._file = file = pq.ParquetWriter(
            self._path, self._schema, compression="zstd", use_dictionary=False
        )
        return file

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SavedDataset(_Files):
    """A folder that `datasets.load_from_disk` reads.

    Matches `datasets.Dataset.save_to_disk` (arrow_dataset): Arrow streams, ``state.json`` and
    ``dataset_info.json``, without holding the rows in memory.
    """

    def __init__(self, folder: Path, schema: pa.Schema, file_bytes: int) -> None:
        super().__init__(folder, schema, file_bytes)
        self._names: list[str] = []
        self._open: tuple[Any, Any] | None = None

    def write(self, columns: dict[str, Any]) -> None:
        """Append rows."""
        file, stream = self._open or self._next()
        stream.write_table(pa.table(columns, schema=self._schema))
        if file.tell() >= self._file_bytes:
            self._close_file()

    def _next(self) -> tuple[Any, Any]:
        name = f"data-{len(self._names):05d}.arrow"
        self._names.append(name)
        file = pa.OSFile(str(self._folder / name), "wb")
        self._open = (file, pa.ipc.new_stream(file, self._schema))
        return self._open

    def close(self) -> None:
        """Close the file that is open, and describe all."""
        from datasets import DatasetInfo, Features  # noqa: PLC0415 - a second to import

        self._close_file()
        info = asdict(DatasetInfo(features=Features.from_arrow_schema(self._schema)))
        told = {"features": info["features"], "citation": "", "description": "", "license": ""}
        self._describe("dataset_info.json", told | {"homepage": ""})
        print_of = sha256("".join(self._names).encode() + str(self._schema).encode()).hexdigest()
        state = {
            "_data_files": [{"filename": name} for name in self._names],
            "_fingerprint": print_of[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        self._describe("state.json", state)

    def _close_file(self) -> None:
        for one in reversed(self._open or ()):
            one.close()
        self._open = None

    def _describe(self, name: str, document: dict[str, Any]) -> None:
        text = json.dumps(document, indent=2, sort_keys=True)
        (self._folder / name).write_text(text, encoding="utf-8")
