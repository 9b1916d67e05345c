"""Containers: one set of records, in every wrapper, becomes one set of samples."""

from __future__ import annotations

import gzip
import io
import json
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from packcli.contract.errors import InputError, Rejection
from packcli.encode import run as stage
from packcli.encode.inputs import compressed, expand, parquet, reader_for
from packcli.encode.records.raw import parse
from tests.encode.running import chat, run, write_lines

RECORDS = [chat(f"Question {n}? " + "x" * (n % 7), f"Answer {n}.", id=f"r{n}") for n in range(60)]
LINES = b"".join(json.dumps(record).encode() + b"\n" for record in RECORDS)


def png(size=(56, 84)):
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, "PNG")
    return buffer.getvalue()


def packed(path, data):
    """Write bytes as the end of the name says."""
    codec = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
    with pa.output_stream(str(path), compression=codec) as stream:
        stream.write(data)
    return path


def read_all(path, target):
    reader = reader_for(path)
    return [raw for part in reader.ranges(path, target) for raw in reader.records(path, part)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return run(write_lines(folder / "a.jsonl", RECORDS), folder / "out")


def same_samples(written, plain):
    names = ("input_ids", "labels", "sample_ids")
    found = [[row[name] for name in names] for row in written.rows]
    assert found == [[row[name] for name in names] for row in plain.rows]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".NDJSON.ZST".lower()])
def test_compressed_lines(tmp_path, plain, monkeypatch, suffix):
    monkeypatch.setattr(stage, "PART_BYTES", 2000)
    path = packed(tmp_path / f"a{suffix}", LINES)
    written = run(path, tmp_path / "out")
    same_samples(written, plain)
    assert len(written.manifest["shards"]) > 1
    assert written.rows[41]["sample_sources"] == [f"a{suffix}:42"]


@pytest.mark.parametrize("target", [1, 700, 5000, 10**9])
def test_ranges_of_compressed_lines_hold_every_line_once(tmp_path, target):
    path = packed(tmp_path / "a.jsonl.gz", b"\xef\xbb\xbf" + LINES[:-1])
    found = read_all(path, target)
    assert [raw.raw for raw in found] == LINES.splitlines()
    assert [raw.line for raw in found] == list(range(1, 61))
    assert len(compressed.ranges(path, target)) <= 16


def test_files_of_several_members_are_read_to_their_end(tmp_path):
    middle = LINES.index(b"\n", len(LINES) // 2) + 1
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(LINES[:middle]) + gzip.compress(LINES[middle:]))
    assert [raw.raw for raw in read_all(path, 10**9)] == LINES.splitlines()


@pytest.mark.parametrize(
    ("suffix", "damage"),
    # Zstandard need not hold a checksum
    [(".gz", "flipped"), *product([".gz", ".zst"], ["cut", "none of it"])],
)
def test_damaged_files_are_refused_before_work_is_done(tmp_path, suffix, damage):
    path = packed(tmp_path / f"a.jsonl{suffix}", LINES)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-40:]
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
        data[len(data) // 2 + 9] ^= 0xFF
    else:
        data[:] = b"not compressed at all"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.jsonl\.\w+ is damaged or cut short.*copy it again"):
        compressed.ranges(path, 1000)


def test_bombs_are_refused(tmp_path, monkeypatch):
    path = packed(tmp_path / "a.jsonl.zst", b"x" * 2**24)
    monkeypatch.setattr(compressed, "_UNJUDGED", 2**20)
    with pytest.raises(InputError, match="more than 300 times its size"):
        compressed.ranges(path, 2**24)
    assert len(compressed.ranges(packed(tmp_path / "b.jsonl.gz", LINES), 10**9)) == 1


def test_rows_of_parquet(tmp_path, plain, monkeypatch):
    monkeypatch.setattr(stage, "PART_BYTES", 3000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=7)
    written = run(path, tmp_path / "out")
    same_samples(written, plain)
    assert len(written.manifest["shards"]) > 1
    assert [row["sample_sources"][0] for row in written.rows][40] == "a.parquet:41"


@pytest.mark.parametrize("target", [1, 1000, 10**9])
def test_parts_of_parquet_hold_every_row_once(tmp_path, target):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(50)}), path, row_group_size=8)
    assert [raw.row["n"] for raw in read_all(path, target)] == list(range(50))
    assert [raw.line for raw in read_all(path, target)] == list(range(1, 51))


def test_nested_rows_with_embedded_images(tmp_path):
    """Nulls that a schema puts where a record says nothing are nothing."""
    question = [{"type": "image", "text": None}, {"type": "text", "text": "What?"}]
    answer = [{"type": "text", "text": "Red."}]
    rows = [
        {
            "messages": [
                {"role": "user", "content": question, "tool_calls": None},
                {"role": "assistant", "content": answer, "tool_calls": None},
            ],
            "images": [{"bytes": png(), "path": None}],
            "when": None,
        },
        {"messages": [{"role": "robot", "content": None, "tool_calls": None}], "images": []},
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    written = run(path, tmp_path / "out")
    (row,) = written.rows
    assert row["image_grid_thw"] != []
    assert row["media"][0]["uri"].startswith("sha256:")
    (line,) = written.rejected
    assert (line["line"], line["offset"], line["code"]) == (2, 1, "bad_role")
    assert len(line["sha256"]) == 64


def test_a_parquet_file_that_is_none(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + b"x" * 40 + b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read"):
        parquet.ranges(path, 1000)


def test_a_saved_dataset(tmp_path, plain, monkeypatch):
    from datasets import Dataset, DatasetDict
    from datasets import Image as Picture

    monkeypatch.setattr(stage, "PART_BYTES", 3000)
    Dataset.from_list(RECORDS).save_to_disk(tmp_path / "saved")
    written = run(tmp_path / "saved", tmp_path / "out")
    same_samples(written, plain)
    assert len(written.manifest["shards"]) > 1
    assert written.manifest["inputs"][0]["name"] == "saved"
    with_picture = [chat("<image>What?", images=[{"bytes": png(), "path": None}])]
    rows = Dataset.from_list(with_picture).cast_column("images", [Picture()])
    DatasetDict({"train": rows}).save_to_disk(tmp_path / "splits")
    assert run(tmp_path / "splits", tmp_path / "pictured").summary.media["images"] == 1
    DatasetDict({"train": rows, "test": rows}).save_to_disk(tmp_path / "two")
    with pytest.raises(InputError, match=r"holds several splits; name .*two/test, .*two/train"):
        run(tmp_path / "two", tmp_path / "no")


def test_a_folder_of_data_files(tmp_path, plain):
    folder = tmp_path / "repository"
    write_lines(folder / "data" / "train-1.jsonl", RECORDS[:20])
    packed(folder / "data" / "train-2.jsonl.gz", LINES[len(LINES) :])
    pq.write_table(pa.Table.from_pylist(RECORDS[20:]), folder / "data" / "train-3.parquet")
    (folder / "README.md").write_text("words")
    write_lines(folder / ".cache" / "old.jsonl", RECORDS)
    assert [path.name for path in expand([folder])] == [
        "train-1.jsonl",
        "train-2.jsonl.gz",
        "train-3.parquet",
    ]
    same_samples(run(folder, tmp_path / "out"), plain)
    write_lines(folder / "data" / "validation.jsonl", RECORDS)
    with pytest.raises(InputError, match="holds several splits"):
        expand([folder])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="a folder without data files"):
        expand([tmp_path / "empty"])
    with pytest.raises(InputError, match="no such file"):
        expand([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=1),
        "[\n" + ",\n".join(map(json.dumps, RECORDS)) + "\n]\n",
        "[" + ",\n".join(map(json.dumps, RECORDS)) + "]",
    ],
)
def test_lines_that_are_one_array(tmp_path, plain, text):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    same_samples(run(path, tmp_path / "out"), plain)


def test_a_json_file_of_lines_and_lines_that_start_with_an_array(tmp_path, plain):
    same_samples(run(write_lines(tmp_path / "a.json", RECORDS), tmp_path / "out"), plain)
    first = write_lines(tmp_path / "b.jsonl", [[{"not": "a record"}], b"[{broken", *RECORDS])
    written = run(first, tmp_path / "more")
    same_samples(written, plain)
    assert written.codes == ["bad_record", "bad_json"]


def test_limit_takes_the_first_records_of_all_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "PART_BYTES", 2000)
    one = write_lines(tmp_path / "a.jsonl", [b"", *RECORDS[:5], b"{broken", *RECORDS[5:30]])
    two = tmp_path / "b.json"
    two.write_text(json.dumps(RECORDS[30:], indent=1))
    for limit, kept in ((3, 3), (6, 5), (31, 30), (40, 39), (1000, 60)):
        written = run([one, two], tmp_path / f"out{limit}", limit=limit)
        assert written.summary.records == min(limit, 61)
        assert written.ids == [f"r{n}" for n in range(kept)]
        assert written.manifest["options"]["limit"] == limit


def test_a_row_that_is_no_text_costs_no_other_row(tmp_path):
    texts = pa.array([b'{"a": 1}', b"\xff\xfe", b"ok"]).view(pa.binary())
    strings = pa.StringArray.from_buffers(3, texts.buffers()[1], texts.buffers()[2])
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": strings}), path)
    rows = read_all(path, 2**20)
    assert [row.row and row.row["text"] for row in rows] == ['{"a": 1}', None, "ok"]
    assert [row.line for row in rows] == [1, 2, 3]
    with pytest.raises(Rejection, match=r"the row cannot be read: .*; mend or drop it") as caught:
        parse(rows[1])
    assert caught.value.code == "bad_utf8"
