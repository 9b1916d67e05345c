"""Training on a pack equals training on its samples alone: loss, gradients, isolation."""

from __future__ import annotations

import runpy
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from packcli.train import PackCollator, PackDataset
from tests.train.alone import by_id, gradients, largest_difference, leak, model_of, weighted_mean

EXAMPLES = Path(__file__).parent / "examples"
VISION = ["qwen2_5_vl", "qwen3_vl"]


def run(name, *arguments):
    """Run an example as a user does; returns its globals."""
    before = sys.argv
    sys.argv = [name, *map(str, arguments)]
    try:
        return runpy.run_path(str(EXAMPLES / name))
    finally:
        sys.argv = before


def auto(family):
    return AutoModelForCausalLM if family == "text" else AutoModelForImageTextToText


@pytest.mark.parametrize("family", [*VISION, "text"])
def test_packed_loss_and_gradients_are_those_of_the_samples(few, family):
    data = few(family)
    collator, samples = data.collator(), by_id(data.encoded)
    model = model_of(auto(family), data.model)
    pack = PackDataset(data.packed)[0]
    assert len(pack.samples) > 1
    loss = model(**collator([pack]), use_cache=False).loss
    loss.backward()
    packed = gradients(model)
    mean = weighted_mean(model, [samples[name] for name in pack.sample_ids], collator)
    assert abs(loss.item() - mean) <= 1e-5
    assert largest_difference(packed, gradients(model)) <= 1e-5


@pytest.mark.parametrize("family", [*VISION, "text"])
def test_no_gradient_crosses_a_boundary(few, family):
    data = few(family)
    model = model_of(auto(family), data.model)
    batch = data.collator()([PackDataset(data.packed)[-1]])
    assert leak(model, batch) == 0.0
    # the test can fail: the same batch leaks with a mask of ones
    ones = torch.ones_like(batch["input_ids"])
    assert leak(model, batch | {"attention_mask": ones}) > 1e-3


@pytest.mark.parametrize("family", VISION)
def test_encoded_samples_flatten_without_padding(few, family):
    data = few(family)
    collator = data.collator()
    model = model_of(auto(family), data.model)
    samples = list(PackDataset(data.encoded))[2:6]
    batch = collator(samples)
    assert batch["input_ids"].shape == (1, sum(map(len, samples)))
    loss = model(**batch, use_cache=False).loss.item()
    assert abs(loss - weighted_mean(model, samples, collator)) <= 1e-5
    assert leak(model, batch) == 0.0


def test_two_packs_merge_into_one_row(few):
    data = few("text")
    collator = PackCollator()
    model = model_of(AutoModelForCausalLM, data.model)
    packs = list(PackDataset(data.packed))[:2]
    samples = by_id(data.encoded)
    loss = model(**collator(packs), use_cache=False).loss.item()
    alone = [samples[name] for pack in packs for name in pack.sample_ids]
    assert abs(loss - weighted_mean(model, alone, collator)) <= 1e-5


def _per_segment(kernel, axis):
    """Run a kernel without boundaries on each segment alone."""

    def run_segments(*tensors, seq_idx=None, cu_seqlens=None, **options):
        options.pop("cu_seq_lens_q", None)
        length = tensors[0].shape[axis]
        bounds = [0, length]
        if seq_idx is not None:
            bounds = [0, *(torch.nonzero(seq_idx[0].diff())[:, 0] + 1).tolist(), length]
        if cu_seqlens is not None:
            bounds = cu_seqlens.tolist()
        parts = []
        for start, stop in pairwise(bounds):
            cut = [_cut(tensor, axis, start, stop, length) for tensor in tensors]
            named = {n: _cut(value, axis, start, stop, length) for n, value in options.items()}
            parts.append(kernel(*cut, **named))
        if isinstance(parts[0], tuple):
            return torch.cat([part[0] for part in parts], dim=axis), None
        return torch.cat(parts, dim=axis)

    return run_segments


def _cut(value, axis, start, stop, length):
    along = torch.is_tensor(value) and value.ndim > axis and value.shape[axis] == length
    return value.narrow(axis, start, stop - start) if along else value


def test_linear_attention_refuses_packs_on_cpu_without_fla(few):
    """transformers 5 raises here for want of flash-linear-attention; it does not leak."""
    data = few("qwen3_5")
    model = model_of(AutoModelForImageTextToText, data.model)
    batch = data.collator()([PackDataset(data.packed)[-1]])
    with pytest.raises(ValueError, match="can't keep packed sequences apart"):
        model(**batch, use_cache=False)


def test_linear_attention_is_isolated_with_kernels_that_keep_boundaries(few, monkeypatch):
    """The collator's cu_seq_lens_q and seq_idx are what such kernels need: both of them."""
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

    data = few("qwen3_5")
    collator, samples = data.collator(), by_id(data.encoded)
    model = model_of(AutoModelForImageTextToText, data.model)
    for name, axis in (("causal_conv1d_fn", 2), ("torch_chunk_gated_delta_rule", 1)):
        kernel = _per_segment(getattr(modeling, name), axis)
        monkeypatch.setattr(modeling, name, kernel)
    pack = PackDataset(data.packed)[-1]
    batch = collator([pack])
    loss = model(**batch, use_cache=False).loss.item()
    alone = [samples[name] for name in pack.sample_ids]
    assert abs(loss - weighted_mean(model, alone, collator)) <= 1e-5
    assert leak(model, batch) == 0.0
    without = {name: value for name, value in batch.items() if name != "seq_idx"}
    assert leak(model, without) > 1e-3


@pytest.mark.parametrize("family", VISION)
def test_plain_loop_learns(few, family):
    data = few(family)
    torch.manual_seed(0)
    done = run("plain_loop.py", data.model, data.packed, data.media_root)
    half = len(done["losses"]) // 2
    assert half == len(done["dataset"])
    assert sum(done["losses"][half:]) < sum(done["losses"][:half]) - 0.1 * half


def test_stream_resumes_in_the_example(few):
    packed = few("qwen3_vl").packed
    done = run("stream_resume.py", packed)
    names = [name for pack in done["seen"] for name in pack.sample_ids]
    expected = [name for pack in PackDataset(packed) for name in pack.sample_ids]
    assert sorted(names) == sorted(expected)


@pytest.mark.parametrize("family", VISION)
def test_hf_trainer_learns_and_is_isolated(few, family, tmp_path):
    pytest.importorskip("accelerate")
    data = few(family)
    trainer = run("hf_trainer.py", data.model, data.packed, data.media_root, tmp_path)["trainer"]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.1
    batch = next(iter(trainer.get_train_dataloader()))
    assert "attention_mask" not in batch
    assert leak(trainer.model, batch) == 0.0


def test_trl_learns_and_is_isolated(few, tmp_path, monkeypatch):
    pytest.importorskip("trl")
    pytest.importorskip("accelerate")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = few("text")
    trainer = run("trl_sft.py", data.model, data.packed, tmp_path / "out")["trainer"]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.1
    batch = next(iter(trainer.get_train_dataloader()))
    assert batch["cu_seq_lens_q"].tolist()[-1] == batch["input_ids"].shape[1]
    assert batch["cu_seq_lens_q"].numel() > 2
    assert leak(trainer.model, batch) == 0.0
