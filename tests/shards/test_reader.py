from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.shards.manifest import file_sha256
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.shards.writer import ShardWriter
from tests.contract.making import MODELS, make_packs

FACTS = MODELS["qwen2_5_vl"]
FLIPS = 150


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small shard: its bytes, what it holds, and where its pages and footer lie."""
    path = tmp_path_factory.mktemp("good") / "shard"
    with ShardWriter(path, FACTS) as writer:
        writer.write(make_packs(np.random.default_rng(1), FACTS, packs=6))
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return SimpleNamespace(
        data=data, held=held(path), sha256=file_sha256(path), footer=footer, pages=pages(path)
    )


def held(path):
    """Everything that the reader says of a shard."""
    return [
        {
            name: (
                cells.dtype,
                cells.nulls,
                cells.values.tolist(),
                None if cells.rows is None else cells.rows.tolist(),
                None if cells.inner is None else cells.inner.tolist(),
            )
            for name, cells in rows.cells.items()
        }
        for rows in Shard.open(path).groups(FACTS)
    ]


def pages(path):
    """The last byte of every column chunk, which is always inside a data page."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunks = [group.column(n) for n in range(group.num_columns)]
    return [chunk.data_page_offset + chunk.total_compressed_size - 1 for chunk in chunks]


def outcome(path, good):
    try:
        return "same" if held(path) == good.held else "wrong"
    except ShardUnreadableError:
        return "unreadable"


def flipped(data, place, bit):
    damaged = bytearray(data)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


def test_bits_flipped_anywhere_are_caught(tmp_path, good):
    rng, path = np.random.default_rng(11), tmp_path / "shard"
    seen = set()
    for _ in range(FLIPS):
        place, bit = int(rng.integers(len(good.data))), int(rng.integers(8))
        path.write_bytes(flipped(good.data, place, bit))
        found = outcome(path, good)
        if place < good.footer:
            assert found != "wrong", f"bit {bit} of byte {place} reads back silently wrong"
        assert file_sha256(path) != good.sha256
        seen.add(found)
    assert "unreadable" in seen


def test_every_page_is_checked_by_its_checksum(tmp_path, good):
    path = tmp_path / "shard"
    for place in good.pages:
        path.write_bytes(flipped(good.data, place, 3))
        with pytest.raises(ShardUnreadableError, match="CRC"):
            list(Shard.open(path).groups(FACTS))


def test_without_verification_flips_read_back_wrong(tmp_path, good):
    """What the checksums are for: the same flips, read by a reader that does not look at them."""
    path, wrong = tmp_path / "shard", 0
    right = pq.read_table(_written(path, good.data))
    for place in good.pages:
        _written(path, flipped(good.data, place, 3))
        try:
            wrong += not pq.read_table(path).equals(right)
        except OSError:
            continue
    assert wrong > 0


def _written(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("part", [0, 0.001, 0.3, 0.6, 0.9, 0.9999])
def test_cut_files_are_unreadable(tmp_path, good, part):
    path = _written(tmp_path / "shard", good.data[: int(len(good.data) * part)])
    with pytest.raises(ShardUnreadableError) as told:
        list(Shard.open(path).groups(FACTS))
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 3


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1PAR1", b"\0" * 64, b'{"id": 1}\n' * 20])
def test_other_files_are_unreadable(tmp_path, data):
    with pytest.raises(ShardUnreadableError):
        Shard.open(_written(tmp_path / "shard", data))


def test_bytes_appended_after_the_footer_are_unreadable(tmp_path, good):
    with pytest.raises(ShardUnreadableError):
        Shard.open(_written(tmp_path / "shard", good.data + b"\0"))


def test_missing_file_and_folder_are_unreadable(tmp_path):
    with pytest.raises(ShardUnreadableError):
        Shard.open(tmp_path / "none")
    with pytest.raises(ShardUnreadableError):
        Shard.open(tmp_path)


def test_chosen_columns_only(tmp_path, good):
    shard = Shard.open(_written(tmp_path / "shard", good.data))
    (rows,) = shard.groups(FACTS, columns=["sample_ids", "length"])
    assert set(rows.cells) == {"sample_ids", "length"}
    assert "cu_seqlens" in shard.columns
    assert shard.rows == rows.count == 6


def test_group_by_number(tmp_path, good):
    rows = Shard.open(_written(tmp_path / "shard", good.data)).group(0, FACTS)
    assert rows.tokens.tolist() == rows.cells["length"].values.tolist()
    assert rows.facts == FACTS
