from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packcli.contract.columns import BY_NAME, FORBIDDEN, columns_for
from packcli.contract.derived import DERIVED
from packcli.contract.packs import Packs
from packcli.contract.rows import expected_dtype
from packcli.shards.arrow import schema, to_batch, to_rows
from packcli.shards.reader import Shard
from packcli.shards.writer import GROUP_TOKENS, ShardWriter
from tests.contract.making import MODELS, make_packs, make_samples


def made(family, seed=1, **sizes):
    return make_packs(np.random.default_rng(seed), MODELS[family], **sizes)


def write(path, portions):
    with ShardWriter(path, portions[0].facts) as writer:
        for packs in portions:
            writer.write(packs)
    return writer.counts


def read(path, facts):
    return Packs.concatenated([rows.packs() for rows in Shard.open(path).groups(facts)])


def assert_same(a, b):
    assert a.members == b.members
    assert dict(a.axes) == dict(b.axes)
    for name, values in a.columns.items():
        assert values.dtype == b.columns[name].dtype, name
        np.testing.assert_array_equal(values, b.columns[name], err_msg=name)


def without_media(packs):
    """The packs none of whose samples holds an image or a video."""
    held = sum(packs.members.through(axis).lengths for axis in list(packs.axes.values())[1:])
    return packs.rows(np.flatnonzero(held == 0))


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("seed", range(5))
def test_packs_come_back_from_parquet(tmp_path, family, seed):
    packs = made(family, seed, packs=9)
    write(tmp_path / "x", [packs])
    assert_same(read(tmp_path / "x", packs.facts), packs)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
def test_packs_without_media_come_back(tmp_path, family):
    packs = without_media(made(family, packs=60, most=1))
    assert len(packs) > 3
    write(tmp_path / "x", [packs])
    assert_same(read(tmp_path / "x", packs.facts), packs)


@pytest.mark.parametrize("family", MODELS)
def test_rows_read_are_the_rows_in_memory(tmp_path, family):
    packs = made(family, packs=5)
    write(tmp_path / "x", [packs])
    (rows,) = Shard.open(tmp_path / "x").groups(packs.facts)
    memory = to_rows(to_batch(packs), packs.facts)
    assert rows.cells.keys() == memory.cells.keys()
    for name, cells in rows.cells.items():
        assert (cells.dtype, cells.nulls) == (memory.cells[name].dtype, 0)
        np.testing.assert_array_equal(cells.values, memory.cells[name].values)
        np.testing.assert_array_equal(cells.rows, memory.cells[name].rows)
        np.testing.assert_array_equal(cells.inner, memory.cells[name].inner)


@pytest.mark.parametrize("family", MODELS)
def test_schema_holds_the_table_of_columns(tmp_path, family):
    facts = MODELS[family]
    packs = made(family)
    write(tmp_path / "x", [packs])
    stored = pq.read_schema(tmp_path / "x")
    assert stored.equals(schema(facts))
    assert not set(stored.names) & set(FORBIDDEN)
    rows = to_rows(pq.read_table(tmp_path / "x"), facts)
    assert list(rows.cells) == [column.name for column in columns_for(facts)]
    for name, cells in rows.cells.items():
        assert cells.dtype == expected_dtype(BY_NAME[name])


def test_schema_of_a_text_model_by_hand():
    types = {field.name: str(field.type) for field in schema(MODELS["text"])}
    assert types["input_ids"] == types["position_ids"] == "list<element: int32 not null>"
    assert types["loss_mask"] == "list<element: int8 not null>"
    assert types["length"] == types["max_seqlen"] == "int32"
    assert types["sum_sq_len"] == "int64"
    assert types["sample_digests"] == "list<element: string not null>"


def test_planes_lie_one_behind_the_other():
    packs = made("qwen2_vl")
    row = to_batch(packs).to_pylist()[1]
    start, stop = packs.pack_tokens.values[1:3]
    assert row["mrope_position_ids"] == DERIVED["mrope_position_ids"](packs)[:, start:stop].tolist()


def test_media_are_structs_counted_in_their_pack():
    packs = made("qwen2_vl", seed=2, packs=6)
    for row in to_batch(packs).to_pylist():
        for medium in row["media"]:
            at, kind = medium["token_start"], medium["kind"]
            assert row["input_ids"][at] == {"image": 1001, "video": 1002}[kind]
            ends = row["cu_seqlens"][medium["sample_index"] : medium["sample_index"] + 2]
            assert ends[0] <= at < at + medium["token_count"] <= ends[1]


# ------------------------------------------------------------------ row groups and bytes


def big(family, tokens):
    packs = made(family, 3, packs=50)
    copies = int(tokens / packs.tokens.total) + 1
    return packs.rows(np.tile(np.arange(50), copies))


def groups(path):
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]


def test_row_groups_close_as_soon_as_they_are_full(tmp_path):
    packs = big("text", 2.5 * GROUP_TOKENS)
    counts = write(tmp_path / "x", [packs])
    assert (counts.rows, counts.samples, counts.tokens) == (
        len(packs),
        packs.members.total,
        packs.tokens.total,
    )
    sizes = groups(tmp_path / "x")
    assert len(sizes) == 3
    lengths = packs.pack_tokens.lengths
    for stop in np.cumsum(sizes)[:-1]:
        start = stop - sizes[list(np.cumsum(sizes)).index(stop)]
        assert lengths[start:stop].sum() >= GROUP_TOKENS > lengths[start : stop - 1].sum()
    assert 0 < lengths[-sizes[-1] :].sum() < GROUP_TOKENS


def test_a_pack_larger_than_a_row_group_is_a_group_of_its_own(tmp_path):
    packs = big("text", 3 * GROUP_TOKENS).joined()
    write(tmp_path / "x", [packs, made("text")])
    assert groups(tmp_path / "x") == [1, 4]


@pytest.mark.parametrize("portion", [1, 7, 100, 10**6])
def test_portions_do_not_change_the_bytes(tmp_path, portion):
    packs = big("qwen2_vl", 1.2 * GROUP_TOKENS)
    write(tmp_path / "whole", [packs])
    starts = range(0, len(packs), portion)
    portions = [packs.rows(np.arange(s, min(s + portion, len(packs)))) for s in starts]
    write(tmp_path / "parts", portions)
    assert digest(tmp_path / "parts") == digest(tmp_path / "whole")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("family", MODELS)
def test_equal_packs_give_equal_bytes(tmp_path, family):
    for name in ("a", "b"):
        write(tmp_path / name, [made(family, packs=20)])
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_a_shard_of_no_rows_is_a_shard(tmp_path):
    with ShardWriter(tmp_path / "x", MODELS["qwen2_vl"]):
        pass
    shard = Shard.open(tmp_path / "x")
    assert shard.rows == 0
    assert list(shard.groups()) == []
    assert pq.read_table(tmp_path / "x").schema.equals(schema(MODELS["qwen2_vl"]))


def test_pages_carry_checksums_and_only_scalars_statistics(tmp_path):
    write(tmp_path / "x", [made("qwen2_5_vl")])
    group = pq.ParquetFile(tmp_path / "x").metadata.row_group(0)
    columns = columns_for(MODELS["qwen2_5_vl"])
    scalars = {c.name for c in columns if c.axis == "pack"}
    large = {c.name for c in columns if c.axis == "token"} | {"sample_digests"}
    for n in range(group.num_columns):
        chunk = group.column(n)
        name = chunk.path_in_schema.partition(".list")[0]
        assert chunk.compression == ("ZSTD" if name in large else "SNAPPY"), name
        assert chunk.is_stats_set == (chunk.path_in_schema in scalars)
        assert not chunk.has_dictionary_page
        numbers = chunk.physical_type in {"INT32", "INT64", "FLOAT"}
        bytes_wide = chunk.path_in_schema.startswith(("loss_mask", "mm_token", "media.list"))
        if numbers and chunk.path_in_schema not in scalars and not bytes_wide:
            assert "BYTE_STREAM_SPLIT" in chunk.encodings, chunk.path_in_schema


# ------------------------------------------------------------------ foreign rows


def told(column, kind):
    return to_rows(pa.table({"x": pa.array(column, kind)})).cells["x"]


def test_sliced_and_chunked_tables_read_alike():
    batch = to_batch(made("qwen2_vl", packs=6))
    whole = to_rows(batch.slice(2, 3))
    table = pa.Table.from_batches([batch.slice(0, 3), batch.slice(3, 3)]).slice(2, 3)
    again = to_rows(table)
    copied = to_rows(pa.RecordBatch.from_pylist(batch.slice(2, 3).to_pylist(), batch.schema))
    for name, cells in copied.cells.items():
        for other in (whole.cells[name], again.cells[name]):
            np.testing.assert_array_equal(other.values, cells.values, err_msg=name)
            np.testing.assert_array_equal(other.rows, cells.rows, err_msg=name)
            np.testing.assert_array_equal(other.inner, cells.inner, err_msg=name)


def test_large_and_fixed_lists_are_lists():
    large = told([[1, 2], [3]], pa.large_list(pa.int32()))
    assert (large.dtype, large.values.tolist()) == ("large_list<int32>", [1, 2, 3])
    assert large.rows is not None
    assert large.rows.tolist() == [0, 2, 3]
    fixed = told([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    assert fixed.rows is not None
    assert (fixed.values.tolist(), fixed.rows.tolist()) == ([1, 2, 3, 4], [0, 2, 4])


@pytest.mark.parametrize(
    ("column", "kind", "nulls"),
    [
        ([1, None], pa.int32(), 1),
        ([[1], None, [2]], pa.list_(pa.int32()), 1),
        ([[1, None], [2]], pa.list_(pa.int32()), 1),
        ([[[1], None], [[None]]], pa.list_(pa.list_(pa.int32())), 2),
        ([[1, 2], None], pa.list_(pa.int32(), 2), 1),
        ([["a", None]], pa.list_(pa.string()), 1),
        ([[b"0123456789abcdef", None]], pa.list_(pa.binary(16)), 1),
        ([[[1]]], pa.list_(pa.list_(pa.int32())), 0),
    ],
)
def test_nulls_are_counted(column, kind, nulls):
    assert told(column, kind).nulls == nulls


def test_null_structs_are_counted():
    kind = pa.list_(pa.struct([("a", pa.int32())]))
    rows = to_rows(pa.table({"x": pa.array([[{"a": 1}, None], None], kind)}))
    assert rows.cells["x.a"].nulls >= 2
    assert rows.cells["x.a"].rows is not None
    assert rows.cells["x.a"].rows.tolist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.list_(pa.float32()), "list<float32>"),
        (pa.list_(pa.list_(pa.float64())), "list<list<float64>>"),
        (pa.bool_(), "bool"),
        (pa.list_(pa.bool_()), "list<bool>"),
        (pa.string(), "string"),
        (pa.list_(pa.binary(16)), "list<fixed_size_binary[16]>"),
        (pa.map_(pa.string(), pa.int32()), "map<string, int32>"),
        (pa.dictionary(pa.int32(), pa.string()), None),
        (pa.null(), "null"),
        (pa.timestamp("ms"), "timestamp[ms]"),
    ],
)
def test_any_type_reads_with_no_rows(kind, dtype):
    cells = told([], kind)
    assert dtype is None or cells.dtype == dtype
    assert len(cells.values) == 0


def test_two_columns_of_one_name_do_not_stop_the_reader():
    table = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert to_rows(table).count == 1


def test_encoded_samples_are_rows_of_one_sample():
    samples = make_samples(np.random.default_rng(1), MODELS["qwen3_vl"], 7)
    for row in to_batch(samples).to_pylist():
        assert row["cu_seqlens"] == [0, len(row["input_ids"])]
        assert row["num_samples"] == 1
