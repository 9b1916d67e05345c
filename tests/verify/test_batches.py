"""Row groups that are checked together are found fault with as if each were alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packcli.contract.model import ModelFacts
from packcli.contract.offsets import Offsets
from packcli.shards.arrow import to_batch
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.verify import batches
from packcli.verify.batches import checked_batches
from packcli.verify.run import verify
from tests.contract.making import make_samples

FACTS = ModelFacts("text", 1000)
GROUPS = 8


def shard(folder, *faults):
    """Write one pack in each of eight row groups; `faults` spoil labels of some of them."""
    packs = make_samples(np.random.default_rng(3), FACTS, 2 * GROUPS)
    packs = packs.grouped(Offsets.from_lengths([2] * GROUPS))
    for group in faults:
        packs.columns["labels"][packs.pack_tokens.starts[group]] = 7
    path = folder / "shard.parquet"
    table = pa.Table.from_batches([to_batch(packs)])
    pq.write_table(table, path, row_group_size=1, write_page_checksum=True)
    return path


def together(monkeypatch, path, groups):
    """Let so many row groups be read together."""
    sizes = pq.ParquetFile(path).metadata
    each = max(sizes.row_group(n).total_byte_size for n in range(sizes.num_row_groups))
    monkeypatch.setattr(batches, "_TOGETHER", groups * each)


def rows_of(path):
    return [rows.count for rows, _ in checked_batches(Shard.open(path), FACTS, ())]


def told(path):
    verdict = verify([path])
    findings = [(f.code, f.row, f.sample, f.token, f.message) for f in verdict.findings]
    return findings, dict(verdict.counts), dict(verdict.checked), verdict.skipped


def test_sound_row_groups_are_checked_together(tmp_path, monkeypatch):
    path = shard(tmp_path)
    together(monkeypatch, path, 3)
    assert rows_of(path) == [3, 3, 2]


@pytest.mark.parametrize("most", [1, 3, GROUPS])
@pytest.mark.parametrize("faults", [(), (0,), (4,), (1, 7)])
def test_findings_are_those_of_single_row_groups(most, faults, tmp_path, monkeypatch):
    path = shard(tmp_path, *faults)
    monkeypatch.setattr(batches, "_TOGETHER", 0)
    expected = told(path)
    assert {finding[1] for finding in expected[0]} == set(faults)
    together(monkeypatch, path, most)
    assert told(path) == expected


def test_from_a_fault_on_row_groups_are_checked_alone(tmp_path, monkeypatch):
    path = shard(tmp_path, 4)
    together(monkeypatch, path, 3)
    assert rows_of(path) == [3, 1, 1, 1, 1, 1]


def test_a_damaged_page_is_told_behind_what_stands_before_it(tmp_path, monkeypatch):
    path = shard(tmp_path)
    column = pq.ParquetFile(path).metadata.row_group(4).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    together(monkeypatch, path, 3)
    with pytest.raises(ShardUnreadableError):
        rows_of(path)
    batched = told(path)
    monkeypatch.setattr(batches, "_TOGETHER", 0)
    assert told(path) == batched
    assert batched[1] == {"shard.checksum": 1}
    assert batched[2]["packs"] == 4
