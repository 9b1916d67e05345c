"""Packed against alone: what training on a pack must be equal to."""

from __future__ import annotations

import torch

from packcli.train import PackDataset

IGNORED = -100


def by_id(encoded):
    dataset = PackDataset(encoded)
    return {pack.sample_ids[0]: pack for pack in dataset}


def model_of(auto, directory, seed=0):
    from transformers import AutoConfig

    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(directory)
    return auto.from_config(config, attn_implementation="sdpa").train()


def weighted_mean(model, samples, collator):
    """Token-weighted mean of the losses of samples run one at a time; gradients add up."""
    batches = [collator([sample]) for sample in samples]
    counts = [int((batch["labels"] != IGNORED).sum()) for batch in batches]
    total = 0.0
    for batch, count in zip(batches, counts, strict=True):
        loss = model(**batch, use_cache=False).loss * (count / sum(counts))
        loss.backward()
        total += loss.item()
    return total


def gradients(model):
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def leak(model, batch, sample=0):
    """Largest gradient of later samples' logits with respect to a sample's embeddings."""
    kept = []

    def keep(_module, _inputs, output):
        output.requires_grad_(True)
        output.retain_grad()
        kept.append(output)

    handle = model.get_input_embeddings().register_forward_hook(keep)
    start, stop = batch["cu_seq_lens_q"][sample : sample + 2].tolist()
    shown = {name: value for name, value in batch.items() if name != "labels"}
    logits = model(**{"use_cache": False, **shown}).logits
    handle.remove()
    logits[0, stop:].square().sum().backward()
    found = kept[0].grad[0, start:stop].abs().max().item()
    own = kept[0].grad[0, stop:].abs().max().item()
    model.zero_grad()
    assert own > 0
    return found


def largest_difference(left, right):
    assert left.keys() == right.keys()
    return max(float((left[n] - right[n]).abs().max()) for n in left)
