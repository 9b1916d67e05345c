"""Other readers take a dataset as it stands; the trainers' own collators, right and wrong."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    DataCollatorWithFlattening,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

from packcli.train import PackCollator, PackDataset, collate
from tests.train.alone import by_id, leak, model_of, weighted_mean


@pytest.fixture(scope="module")
def text(few):
    """A tiny text model, a collator and the packed dataset with its samples."""
    data = few("text")
    return data, model_of(AutoModelForCausalLM, data.model), by_id(data.encoded)


@pytest.fixture
def rows(few, tmp_path):
    """Rows of the text dataset in `datasets`."""
    from datasets import load_dataset

    return load_dataset(str(few("text").packed), split="train", cache_dir=str(tmp_path))


@pytest.mark.parametrize("family", ["text", "qwen3_vl"])
def test_datasets_loads_it(few, tmp_path, family):
    from datasets import load_dataset

    packed = few(family).packed
    table = pq.read_table(packed / "data")
    loaded = load_dataset(str(packed), split="train", cache_dir=str(tmp_path))
    assert loaded.column_names == table.column_names
    assert loaded[0]["input_ids"] == table.column("input_ids")[0].as_py()
    ours = PackCollator(PackDataset(packed).facts)
    if family == "text":
        assert torch.equal(
            ours([loaded[0]])["input_ids"], ours([PackDataset(packed)[0]])["input_ids"]
        )


@pytest.mark.parametrize("family", ["text", "qwen3_vl"])
def test_polars_reads_it(few, family):
    polars = pytest.importorskip("polars")
    packed = few(family).packed
    table = pq.read_table(packed / "data")
    frame = polars.read_parquet(packed / "data" / "*.parquet")
    assert frame.columns == table.column_names
    for name in ("input_ids", "cu_seqlens", "sample_ids", "sample_digests", "sum_sq_len"):
        assert frame[name].to_list() == table.column(name).to_pylist()
    row = {name: frame.row(0, named=True)[name] for name in ("input_ids", "labels", "cu_seqlens")}
    assert collate([row])["cu_seq_lens_q"].tolist() == table.column("cu_seqlens")[0].as_py()


@pytest.mark.parametrize("family", ["text", "qwen3_vl"])
def test_duckdb_reads_it(few, family):
    duckdb = pytest.importorskip("duckdb")
    packed = few(family).packed
    table = pq.read_table(packed / "data")
    shards = str(packed / "data" / "*.parquet")
    found = duckdb.connect().execute(
        "select sum(length), sum(list_sum(seq_lengths)), max(max_seqlen) from read_parquet(?)",
        [shards],
    ).fetchone()  # fmt: skip
    lengths = table.column("seq_lengths").to_pylist()
    tokens = sum(map(sum, lengths))
    assert found == (tokens, tokens, max(map(max, lengths)))
    ids = duckdb.connect().execute("select input_ids from read_parquet(?)", [shards]).fetchall()
    assert [row[0] for row in ids] == table.column("input_ids").to_pylist()


def trainer(model, rows, collator, output, **options):
    pytest.importorskip("accelerate")
    arguments = TrainingArguments(
        str(output), per_device_train_batch_size=1, report_to=[], use_cpu=True, **options
    )
    return Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)


def batch_of(made_trainer):
    return dict(next(iter(made_trainer.get_train_dataloader())))


def cuts(batch, rows):
    """Give a batch the boundaries of its row, for `leak`, where its collator made none."""
    ids = batch["input_ids"][0].tolist()
    (row,) = [row for row in rows if row["input_ids"] == ids]
    return torch.tensor(row["cu_seqlens"]), row


def leak_of(model, batch, bounds):
    """Leak of a batch whose collator knows no boundaries."""

    class Hidden(dict):
        def __getitem__(self, name):
            return bounds if name == "cu_seq_lens_q" else super().__getitem__(name)

    return leak(model, Hidden(batch))


def test_trainer_with_its_own_collator_is_isolated(text, rows, tmp_path):
    _, model, samples = text
    made = trainer(model, rows, default_data_collator, tmp_path)
    batch = batch_of(made)
    assert set(batch) == {"input_ids", "labels", "position_ids"}
    bounds, row = cuts(batch, rows)
    assert leak_of(made.model, batch, bounds) == 0.0
    loss = made.model(**batch).loss.item()
    alone = [samples[name] for name in row["sample_ids"]]
    assert abs(loss - weighted_mean(model, alone, PackCollator())) <= 1e-5


def test_an_attention_mask_column_makes_it_leak(text, rows, tmp_path):
    _, model, _ = text
    masked = rows.map(lambda row: {"attention_mask": [1] * row["length"]})
    made = trainer(model, masked, default_data_collator, tmp_path)
    batch = batch_of(made)
    assert "attention_mask" in batch
    assert leak_of(made.model, batch, cuts(batch, rows)[0]) > 1e-3


def test_flattening_collator_on_packed_rows_leaks(text, rows, tmp_path):
    _, model, _ = text
    flattening = DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    batch = flattening([{name: rows[0][name] for name in ("input_ids", "labels", "position_ids")}])
    assert batch["cu_seq_lens_q"].tolist() == [0, rows[0]["length"]]
    assert batch["position_ids"][0].tolist() == list(range(rows[0]["length"]))
    assert leak_of(model, batch, torch.tensor(rows[0]["cu_seqlens"])) > 1e-3


def test_cache_makes_a_direct_call_leak(text):
    data, model, _ = text
    batch = PackCollator()([PackDataset(data.packed)[0]])
    assert leak(model, batch) == 0.0
    assert leak(model, batch | {"use_cache": True}) > 1e-3


def test_three_planes_without_the_text_plane_leak(few):
    from transformers import AutoModelForImageTextToText

    data = few("qwen3_vl")
    model = model_of(AutoModelForImageTextToText, data.model)
    batch = data.collator()([PackDataset(data.packed)[-1]])
    assert leak(model, batch) == 0.0
    assert leak(model, batch | {"position_ids": batch["position_ids"][1:]}) > 1e-3


def test_trl_without_seq_lengths_leaks(text, rows, tmp_path):
    trl = pytest.importorskip("trl")
    pytest.importorskip("accelerate")
    from transformers import AutoTokenizer

    data, model, _ = text
    options = trl.SFTConfig(
        str(tmp_path), padding_free=True, packing=False, max_length=None, report_to=[],
        per_device_train_batch_size=1, use_cpu=True, bf16=False,
    )  # fmt: skip
    found = []
    for columns in (["input_ids", "labels", "seq_lengths"], ["input_ids", "labels"]):
        made = trl.SFTTrainer(
            model=model, args=options, train_dataset=rows.select_columns(columns),
            processing_class=AutoTokenizer.from_pretrained(data.model),
        )  # fmt: skip
        batch = batch_of(made)
        found.append(leak_of(made.model, batch, cuts(batch, rows)[0]))
    assert found[0] == 0.0
    assert found[1] > 1e-3


@pytest.mark.parametrize("form", ["numpy", "torch", "pandas"])
def test_formats_of_datasets(rows, form):
    shown = rows.with_format(form)[0]
    ids = shown["input_ids"].iloc[0] if form == "pandas" else shown["input_ids"]
    assert ids.tolist() == rows[0]["input_ids"]
