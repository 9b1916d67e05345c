"""Padding of packs stays with packcli: trainers pad for themselves."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from packcli.contract.padding import NAME
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.manifest import read_manifest


@pytest.fixture
def padded(encoded, tmp_path):
    options = PlanOptions(2048, pad_sample_multiple=16, pad_pack_multiple=128)
    pack([encoded("text")], options, Writing(tmp_path / "padded"))
    return tmp_path / "padded"


def test_no_padding_reaches_another_trainer(padded, exported):
    manifest = read_manifest(padded)
    output, summary = exported(padded, "megatron-bridge")
    assert summary.samples == manifest.counts["samples"]
    rows = pq.read_table(next(output.glob("**/*.parquet"))).to_pylist()
    assert sum(len(row["input_ids"]) for row in rows) == manifest.counts["tokens"]
    assert sum(len(row["seq_start_id"]) for row in rows) == manifest.counts["samples"]
    token = manifest.model.padding.token
    assert not any(token in row["input_ids"] for row in rows)


def test_every_column_of_the_dataset_but_that_of_padding_is_exported(padded, exported):
    output, summary = exported(padded, "mds")
    assert summary.samples == read_manifest(padded).counts["samples"]
    text = b"".join(path.read_bytes() for path in output.rglob("*") if path.is_file())
    assert b"cu_seqlens_padded" not in text
    assert NAME.encode() not in text
