"""Other people's loaders and launchers, on datasets as they stand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForCausalLM

from packcli.train import PackCollator, PackDataset, collate

EXAMPLES = Path(__file__).parent / "examples"


@pytest.mark.parametrize("family", ["text", "qwen3_vl"])
def test_litdata_reads_it(few, family, tmp_path):
    litdata = pytest.importorskip("litdata")
    from litdata.streaming.item_loader import ParquetLoader

    packed = few(family).packed
    # litdata writes its index beside the shards
    for shard in (packed / "data").glob("*.parquet"):
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    litdata.index_parquet_dataset(str(tmp_path))
    rows = litdata.StreamingDataset(str(tmp_path), item_loader=ParquetLoader())
    names = pq.read_schema(next((packed / "data").iterdir())).names
    ours = list(PackDataset(packed))
    assert len(rows) == len(ours)
    for number, pack in enumerate(ours):
        row = rows[number]
        told = row if isinstance(row, dict) else dict(zip(names, row, strict=True))
        wanted = ("input_ids", "labels", "cu_seqlens")
        batch = collate([{name: told[name] for name in wanted}])
        assert batch["input_ids"][0].tolist() == pack.input_ids.tolist()
        assert batch["cu_seq_lens_q"].tolist() == pack.samples.values.tolist()


def test_accelerate_prepares_the_loader(few):
    accelerate = pytest.importorskip("accelerate")

    dataset = PackDataset(few("text").packed)
    collator = PackCollator(dataset.facts)
    loader = DataLoader(dataset, batch_size=1, collate_fn=collator)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    for batch, pack in zip(prepared, dataset, strict=True):
        expected = collator([pack])
        assert batch.keys() == expected.keys()
        assert torch.equal(batch["position_ids"], expected["position_ids"])
        assert batch["max_length_q"] == expected["max_length_q"]


@pytest.mark.parametrize("workers", [(2, 3), (1, 0)])
def test_torchdata_goes_on_with_other_workers(many, workers):
    """Its own state is for as many workers; a count of packs fits any number."""
    loaders = pytest.importorskip("torchdata.stateful_dataloader")
    from packcli.train import PackStream

    def loader(stream, count):
        return loaders.StatefulDataLoader(
            stream, batch_size=None, num_workers=count, collate_fn=list
        )

    stream = PackStream(many, ranks=(0, 1))
    every = [pack.sample_ids for packs in loader(stream, 0) for pack in packs]
    seen = []
    for packs in loader(stream, workers[0]):
        seen += [pack.sample_ids for pack in packs]
        if len(seen) >= 37:
            break
    state = stream.state_dict(seen=len(seen))
    again = PackStream(many, ranks=(0, 1))
    again.load_state_dict(state)
    seen += [pack.sample_ids for packs in loader(again, workers[1]) for pack in packs]
    assert seen == every


@pytest.mark.slow
def test_two_processes_train_as_one(few, tmp_path):
    data = few("text")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, EXAMPLES / "ddp.py", data.model, data.packed, tmp_path]
    started = [
        subprocess.Popen(
            [*map(str, command)],
            env=os.environ | where | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    dataset = PackDataset(data.packed)
    every = [name for pack in dataset for name in pack.sample_ids]
    assert sorted(found[0]["names"] + found[1]["names"]) == sorted(every)
    assert all(one["names"] for one in found)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(data.model))
    batches = [collate([pack]) for pack in dataset]
    counts = [int((batch["labels"] != -100).sum()) for batch in batches]
    for batch, count in zip(batches, counts, strict=True):
        loss = model(**batch, use_cache=False).loss * count / sum(counts)
        loss.backward()
    for name, weight in model.named_parameters():
        for one in found:
            assert float((one["gradients"][name] - weight.grad).abs().max()) <= 1e-5, name
