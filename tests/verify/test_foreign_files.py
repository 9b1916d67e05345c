"""Files without a manifest: what is found in any row group, and what cannot be told."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packcli.cli.verify import command
from packcli.contract.errors import InputError
from packcli.families import open_family
from packcli.pack import run as pack_stage
from packcli.pack.options import PlanOptions
from packcli.verify.run import verify

LENGTHS = [5, 3, 4]
CU = [0, 5, 8, 12]
TYPES = {
    name: pa.list_(pa.int32())
    for name in ("input_ids", "labels", "position_ids", "cu_seqlens", "seq_lengths")
} | {"max_seqlen": pa.int32(), "loss_scale": pa.list_(pa.float32())}


def rows(count=4):
    ids = list(range(10, 22))
    labels = [-100 if n in CU else token for n, token in enumerate(ids)]
    positions = [n for length in LENGTHS for n in range(length)]
    return [
        {
            "input_ids": [*ids],
            "labels": [*labels],
            "position_ids": positions,
            "cu_seqlens": [*CU],
            "seq_lengths": [*LENGTHS],
            "max_seqlen": 5,
        }
        for _ in range(count)
    ]


def write(path, made, group=2, **types):
    kinds = TYPES | types
    table = pa.table({n: pa.array([row[n] for row in made], kinds[n]) for n in made[0]})
    pq.write_table(table, path, row_group_size=group)
    return path


def told(verdict):
    return [(f.code, f.row, f.sample) for f in verdict.findings]


def spoil(path, name, value):
    """Write four rows in two groups; the last row holds another value."""
    made = rows()
    made[3][name] = value
    return write(path / "foreign.parquet", made)


@pytest.mark.parametrize(
    ("name", "value"),
    [("labels", [None] * 12), ("labels", None), ("cu_seqlens", [0, 8, None, 12])],
)
def test_nulls_of_a_later_row_group_are_found(name, value, tmp_path):
    verdict = verify([spoil(tmp_path, name, value)])
    assert told(verdict) == [("columns.null", None, None)]
    assert name in verdict.findings[0].message


def test_what_every_row_group_holds_is_found_once(tmp_path):
    made = rows(6)
    for row in made:
        row["labels"] = None
    assert told(verify([write(tmp_path / "nulls.parquet", made)])) == [("columns.null", None, None)]


def test_every_code_of_a_shard_is_found_wherever_it_starts(tmp_path, sample_data):
    facts = open_family(sample_data / "models" / "qwen3_vl").facts
    made = rows(6)
    made[1]["labels"][3] = None
    for row in made[4:]:  # slots without a column of grids
        row["input_ids"][2], row["labels"][2] = facts.image_token_id, -100
    verdict = verify([write(tmp_path / "two.parquet", made)], facts=facts)
    assert told(verdict) == [("columns.null", None, None), ("slot.count", None, None)]


def test_numbers_beyond_int32_are_found_before_they_wrap(tmp_path):
    made = rows()
    for row in made:
        row["labels"] = [label % 2**32 for label in row["labels"]]
    path = write(tmp_path / "labels.parquet", made, labels=pa.list_(pa.uint32()))
    assert told(verify([path])) == [("columns.type", row, None) for row in range(4)]
    lengths = [2**62, 2**62, 2**62, 2**62 + 3]  # their sum in 64 bits is 3
    made = [{"input_ids": [1, 2, 3], "seq_lengths": lengths}]
    path = write(tmp_path / "lengths.parquet", made, seq_lengths=pa.list_(pa.int64()))
    assert told(verify([path])) == [("columns.type", 0, None)]


@pytest.mark.parametrize(
    ("place", "weight", "found"),
    [(1, 2.5, False), (1, float("nan"), True), (2, -1.0, True), (0, 1.0, True)],
)
def test_weights_of_foreign_files(place, weight, found, tmp_path):
    made = rows(2)
    for row in made:
        row["loss_scale"] = [0.0 if label == -100 else 1.0 for label in row["labels"]]
    made[1]["loss_scale"][place] = weight
    verdict = verify([write(tmp_path / "weights.parquet", made)])
    assert told(verdict) == [("loss_scale.value", 1, 0)] * found


# ---- shards of a dataset, named by themselves ----


def test_a_folder_of_shards_is_read_for_the_model_of_its_dataset(sample_data, monkeypatch):
    data = sample_data / "good" / "data"
    verdict = verify([data])
    assert (verdict.passed, verdict.checked["samples"]) == (True, 84)
    assert "sample.digest" not in verdict.skipped
    monkeypatch.chdir(data)
    assert "sample.digest" not in verify([type(data)()]).skipped


def test_a_lone_shard_with_media_says_that_digests_need_its_model(sample_data, tmp_path):
    (shard,) = (sample_data / "good" / "data").iterdir()
    lone = shutil.copy(shard, tmp_path / "lone.parquet")
    verdict = verify([lone])
    assert (verdict.passed, verdict.checked["samples"]) == (True, 84)
    reason = "needs the model, as digests cover media: name --model"
    assert verdict.skipped["sample.digest"] == reason
    named = verify([lone], facts=open_family(sample_data / "models" / "qwen2_5_vl").facts)
    assert named.passed
    assert {*named.skipped.values()} == {"needs a dataset's folder, with its manifest.json"}


@pytest.mark.parametrize("name", ["weights", "text", "padded"])
def test_a_lone_shard_without_media_needs_nothing_for_its_digests(name, tmp_path, made):
    (shard,) = (made(name) / "data").iterdir()
    verdict = verify([shutil.copy(shard, tmp_path / "lone.parquet")])
    assert (verdict.findings, verdict.checked["samples"]) == ([], 2)
    assert "sample.digest" not in verdict.skipped
    assert ("loss_scale.value" in verdict.skipped) is False


@pytest.fixture
def made(tmp_path, sample_data):
    """Make a dataset of two text samples: plain, with weights, or padded."""
    from packcli.encode.options import EncodeJob, EncodeOptions
    from packcli.encode.run import Writing, encode

    def make(name):
        turns = [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "Blue."}]
        records = tmp_path / "chats.jsonl"
        records.write_text((json.dumps({"messages": turns}) + "\n") * 2)
        options = EncodeOptions(loss_scale=name == "weights")
        job = EncodeJob(sample_data / "models" / "text", None, options)
        encode([records], job, Writing(tmp_path / "encoded"))
        plan = PlanOptions(capacity=64, pad_sample_multiple=8 if name == "padded" else 1)
        writing = pack_stage.Writing(tmp_path / "packed")
        pack_stage.pack([tmp_path / "encoded"], plan, writing)
        return tmp_path / "packed"

    return make


@pytest.mark.parametrize("name", ["loss_scale", "token_type_ids", "second_per_grid_ts"])
def test_a_dataset_holds_no_column_that_its_model_lacks(name, tmp_path, made):
    dataset = made("text")
    (shard,) = (dataset / "data").iterdir()
    table = pq.read_table(shard)
    kind = {"token_type_ids": pa.int8()}.get(name, pa.float32())
    per_token = [[0] * row for row in table["length"].to_pylist()]
    values = [[] for _ in per_token] if name == "second_per_grid_ts" else per_token
    pq.write_table(table.append_column(name, pa.array(values, pa.list_(kind))), shard)
    verdict = verify([shard])
    assert told(verdict) == [("columns.forbidden", None, None)]
    assert verdict.findings[0].message.startswith(f"column {name!r} must not be stored")


def test_the_command_fails_where_nothing_can_be_compared(sample_data):
    from click.testing import CliRunner

    paths = [sample_data / "good_foreign" / "trl.parquet", sample_data / "good_text"]
    arguments = [str(paths[0]), "--level", "contract", "--against", str(paths[1])]
    result = CliRunner().invoke(command, arguments)
    assert "skipped  sample.missing: needs sample_ids" in result.output
    assert isinstance(result.exception, InputError)
    assert InputError.exit_code == 3
