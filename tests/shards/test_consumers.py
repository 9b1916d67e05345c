"""Readers of others take the shards as they stand."""

from __future__ import annotations

import numpy as np
import pytest

from packcli.shards.arrow import to_batch
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
from tests.contract.making import MODELS, make_packs


@pytest.fixture(scope="module", params=["text", "qwen2_5_vl"])
def written(request, tmp_path_factory):
    """A folder with two shards, and their rows as plain Python."""
    facts = MODELS[request.param]
    path = tmp_path_factory.mktemp("consumers") / "out"
    output = OutputDirectory.open(path, Manifest("packed", facts, {}, {}, {}, []))
    rows = []
    for number in range(2):
        packs = make_packs(np.random.default_rng(number), facts, packs=5)
        with output.shard(f"train-0000{number}-of-00002.parquet", facts) as (writer, _):
            writer.write(packs)
        rows += to_batch(packs).to_pylist()
    return path, rows


def test_datasets_loads_the_files(written, tmp_path):
    datasets = pytest.importorskip("datasets")
    path, rows = written
    files = sorted(str(file) for file in (path / "data").iterdir())
    loaded = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path)
    )
    assert loaded.num_rows == 10
    assert loaded.column_names == list(rows[0])
    assert loaded.to_list() == rows


def test_datasets_streams_the_files(written):
    datasets = pytest.importorskip("datasets")
    path, rows = written
    files = sorted(str(file) for file in (path / "data").iterdir())
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    assert [row["cu_seqlens"] for row in stream] == [row["cu_seqlens"] for row in rows]


def test_pyarrow_dataset_reads_the_folder_even_while_work_goes_on(written):
    dataset = pytest.importorskip("pyarrow.dataset")
    path, rows = written
    assert (path / ".packcli").is_dir()
    for folder in (path / "data", path):
        found = dataset.dataset(
            sorted(str(file) for file in folder.rglob("*.parquet")), format="parquet"
        )
        assert found.to_table().to_pylist() == rows


def test_pyarrow_filters_by_scalars(written):
    dataset = pytest.importorskip("pyarrow.dataset")
    path, rows = written
    longest = max(row["length"] for row in rows)
    found = dataset.dataset(path / "data").to_table(filter=dataset.field("length") == longest)
    assert found.to_pylist() == [row for row in rows if row["length"] == longest]


def test_polars_reads_the_folder(written):
    polars = pytest.importorskip("polars")
    path, rows = written
    frame = polars.read_parquet(path / "data" / "*.parquet")
    assert frame["cu_seqlens"].to_list() == [row["cu_seqlens"] for row in rows]
    assert frame["input_ids"].to_list() == [row["input_ids"] for row in rows]


def test_duckdb_reads_the_folder(written):
    duckdb = pytest.importorskip("duckdb")
    path, rows = written
    query = f"select sum(length), count(*) from read_parquet('{path / 'data'}/*.parquet')"  # noqa: S608 - a test's own path
    assert duckdb.sql(query).fetchone() == (sum(row["length"] for row in rows), 10)
