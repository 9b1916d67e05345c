"""Files damaged at random: every line is accounted for, or the file is refused by name."""

from __future__ import annotations

import gzip
import io
import json
import random
from contextlib import redirect_stderr, redirect_stdout

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packcli.contract.errors import InputError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from tests.encode.running import MODELS, Written

CONTAINERS = ("jsonl", "jsonl.gz", "jsonl.zst", "json", "parquet")
NASTY = (b"\n", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"{", b"]", b",", b'"', b"\\u", b"\n\n")


def packed(records, container):
    """One file's bytes."""
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    if container == "jsonl.gz":
        return gzip.compress(lines, mtime=0)
    if container == "jsonl.zst":
        return pa.compress(lines, codec="zstd", asbytes=True)
    if container == "json":
        return json.dumps(records).encode()
    if container == "parquet":
        stream = io.BytesIO()
        texts = [{"id": r.get("id", ""), "text": json.dumps(r)} for r in records]
        pq.write_table(pa.Table.from_pylist(texts), stream)
        return stream.getvalue()
    return lines


def damaged(data, chance):
    """Flip, drop, double or insert bytes in a few places, or cut the end off."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        match chance.randrange(6):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.randint(1, 40)]
            case 2:
                data[at:at] = chance.choice(NASTY)
            case 3:
                data[at:at] = data[max(0, at - chance.randint(1, 200)) : at]
            case 4:
                data[at : at + 4] = bytes(chance.randrange(256) for _ in range(4))
            case _ if len(data) > 400 and chance.random() < 0.3:
                del data[at:]
        data = data or bytearray(b"\n")
    return bytes(data)


def refused(number, records, sample_data, folder):
    """Damage one file and encode it; tell whether it was refused, by name."""
    chance = random.Random(number)
    container = CONTAINERS[number % len(CONTAINERS)]
    data = damaged(packed(records, container), chance)
    path = folder / f"in{number}.{container}"
    path.write_bytes(data)
    job = EncodeJob(MODELS / "qwen3_vl", sample_data, EncodeOptions())
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            summary = encode([path], job, Writing(folder / f"out{number}"))
    except InputError as error:
        # only a container may refuse to open as a whole
        if container == "jsonl" or path.name not in str(error):
            raise
        return True
    assert said.getvalue() == ""
    written = Written(summary, folder / f"out{number}")
    assert summary.records == len(written.rows) + len(written.rejected)
    assert summary.warnings["packcli_fault"] == 0
    assert [m for m in (line["message"] for line in written.rejected) if "; " not in m] == []
    if container == "jsonl":
        lines = data.split(b"\n")
        assert summary.records + summary.blank == len(lines) - (lines[-1] == b"")
        told = {line["line"] for line in written.rejected}
        kept = {int(row["sample_sources"][0].rpartition(":")[2]) for row in written.rows}
        blank = {n for n, line in enumerate(lines, 1) if not line.strip(b" \t\r\v\f\xef\xbb\xbf")}
        assert told.isdisjoint(kept)
        assert {*range(1, len(lines) + 1)} - told - kept <= blank
    return False


@pytest.fixture(scope="module")
def records(sample_data):
    lines = (sample_data / "chats.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines][:24]


def test_lines_of_damaged_files_are_accounted_for(records, sample_data, tmp_path):
    by_name = [refused(n, records, sample_data, tmp_path) for n in range(30)]
    assert 0 < sum(by_name) < 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_lines_of_500_damaged_files_are_accounted_for(first, records, sample_data, tmp_path):
    by_name = [refused(n, records, sample_data, tmp_path) for n in range(first, first + 50)]
    assert 0 < sum(by_name) < 40
