from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from packcli.contract.errors import InputError
from packcli.train import PackCollator, PackDataset, collate

EXAMPLE = {"input_ids": list(range(10, 22)), "labels": [-100] * 12, "cu_seqlens": [0, 5, 8, 12]}
"""A, B and C of 5, 3 and 4 tokens: the worked example of the contract."""


def test_worked_example():
    batch = collate([EXAMPLE])
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3]]
    assert batch["cu_seq_lens_q"].tolist() == batch["cu_seq_lens_k"].tolist() == [0, 5, 8, 12]
    assert batch["seq_idx"].tolist() == [[0] * 5 + [1] * 3 + [2] * 4]
    assert batch["max_length_q"] == batch["max_length_k"] == 5
    assert batch["input_ids"].tolist() == [list(range(10, 22))]


def test_types_and_names():
    batch = collate([EXAMPLE])
    assert {name: value.dtype for name, value in batch.items() if torch.is_tensor(value)} == {
        "input_ids": torch.int64,
        "labels": torch.int64,
        "position_ids": torch.int64,
        "cu_seq_lens_q": torch.int32,
        "cu_seq_lens_k": torch.int32,
        "seq_idx": torch.int32,
    }
    assert type(batch["max_length_q"]) is int
    assert not {"attention_mask", "cu_seqlens", "max_seqlen"} & batch.keys()


def test_rows_merge_into_one():
    short = {"input_ids": [1, 2], "labels": [-100, 2], "seq_lengths": [1, 1]}
    batch = collate([short, EXAMPLE, short])
    assert batch["cu_seq_lens_q"].tolist() == [0, 1, 2, 7, 10, 14, 15, 16]
    assert batch["position_ids"][0].tolist()[:4] == [0, 0, 0, 1]
    assert batch["input_ids"].shape == (1, 16)
    assert batch["max_length_q"] == 5
    assert batch["seq_idx"][0, -1] == 6


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_vision_packs(few, family):
    data = few(family)
    dataset = PackDataset(data.packed)
    packs = list(dataset)[:2]
    batch = data.collator()(packs)
    tokens = sum(map(len, packs))
    assert batch["position_ids"].shape == (4, 1, tokens)
    text = [position for pack in packs for position in pack.samples.restarting().tolist()]
    assert batch["position_ids"][0, 0].tolist() == text
    mrope = np.concatenate([pack.mrope_position_ids for pack in packs], axis=1)
    assert np.array_equal(batch["position_ids"][1:, 0].numpy(), mrope)
    for kind, pixels in (("image", "pixel_values"), ("video", "pixel_values_videos")):
        grids = [medium.grid for pack in packs for medium in pack.media if medium.kind == kind]
        assert batch[f"{kind}_grid_thw"].tolist() == [list(grid) for grid in grids]
        assert batch[f"{kind}_grid_thw"].dtype == torch.int64
        assert batch[pixels].shape[0] == sum(int(np.prod(grid)) for grid in grids)
    seconds = batch.get("second_per_grid_ts")
    assert (seconds is not None) == (family == "qwen2_5_vl")
    assert seconds is None or len(seconds) == len(batch["video_grid_thw"])


def test_pixels_come_in_pack_order(few):
    data = few("qwen3_vl")
    collator = data.collator()
    first, second = list(PackDataset(data.packed))[:2]
    both = collator([second, first])["pixel_values"]
    parts = [collator([pack])["pixel_values"] for pack in (second, first)]
    assert torch.equal(both, torch.cat(parts))


def test_rows_of_pyarrow_collate_the_same(few):
    data = few("qwen3_vl")
    collator = data.collator()
    (row, *_) = pq.read_table(data.packed / "data").to_pylist()
    ours, theirs = collator([PackDataset(data.packed)[0]]), collator([row])
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]) if torch.is_tensor(value) else value == theirs[name]


def test_collator_travels_to_spawned_workers(few):
    data = few("qwen3_vl")
    collator = data.collator()
    pack = PackDataset(data.packed)[0]
    before = collator([pack])
    after = pickle.loads(pickle.dumps(collator))([pickle.loads(pickle.dumps(pack))])  # noqa: S301 - our own bytes
    assert torch.equal(before["pixel_values"], after["pixel_values"])


def test_slots_are_counted_and_the_sample_named(few):
    data = few("qwen3_vl")
    pack = next(pack for pack in PackDataset(data.packed) if len(pack.samples) > 1 and pack.media)
    ids = pack.input_ids.copy()
    medium = pack.media[-1]
    token = PackDataset(data.packed).facts.image_token_id
    ids[np.flatnonzero(ids == token)[-1]] = 5
    with pytest.raises(InputError, match=f"{medium.sample!r}.*{medium.source}.*-1 image slots"):
        data.collator()([replace(pack, input_ids=ids)])


def test_media_need_a_loader(few):
    data = few("qwen3_vl")
    dataset = PackDataset(data.packed)
    with pytest.raises(InputError, match="MediaLoader"):
        PackCollator(dataset.facts)([dataset[0]])


def test_refusals():
    with pytest.raises(InputError, match="no rows"):
        collate([])
    mixed = EXAMPLE | {"mrope_position_ids": [[0] * 12] * 3}
    with pytest.raises(InputError, match="use one dataset"):
        collate([EXAMPLE, mixed])


def test_weights_are_carried():
    rows = [EXAMPLE | {"loss_scale": [0.5] * 12}, EXAMPLE | {"loss_scale": [2.0] * 12}]
    weights = collate(rows)["loss_scale"]
    assert weights.dtype == torch.float32
    assert weights.tolist() == [[0.5] * 12 + [2.0] * 12]
    assert "loss_scale" not in collate([EXAMPLE])
    with pytest.raises(InputError, match="some rows have loss_scale"):
        collate([rows[0], EXAMPLE])
