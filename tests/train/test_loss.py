from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from packcli.contract.errors import InputError
from packcli.train import PackCollator, PackDataset, WeightedLoss, weighted_loss
from tests.train.alone import model_of


@pytest.fixture
def row():
    """Two samples of three and four tokens, and logits."""
    torch.manual_seed(0)
    labels = torch.tensor([[-100, 4, 2, -100, -100, 1, 3]])
    weights = torch.tensor([[0.0, 0.5, 2.0, 0.0, 0.0, 1.0, 0.25]])
    return torch.randn(1, 7, 6, dtype=torch.float64), labels, weights


def by_hand(logits, labels, weights):
    """Weighted log likelihoods, sample by sample: token i is asked of the one before it."""
    total = 0.0
    for start, stop in ((0, 3), (3, 7)):
        for place in range(start + 1, stop):
            if labels[0, place] == -100:
                continue
            scores = logits[0, place - 1].float()
            share = scores.exp() / scores.exp().sum()
            total -= float(weights[0, place]) * float(share[labels[0, place]].log())
    return total


def test_it_is_the_sum_by_hand(row):
    logits, labels, weights = row
    expected = by_hand(*row)
    assert weighted_loss(*row).item() == pytest.approx(expected / 4, abs=1e-6)
    assert weighted_loss(*row, num_items=10).item() == pytest.approx(expected / 10, abs=1e-6)
    # what stands on the last token of a sample is asked of nobody
    moved = logits.clone()
    moved[0, 2] = 9.0
    assert weighted_loss(moved, labels, weights).item() == weighted_loss(*row).item()


def test_weights_of_one_are_the_loss_of_the_model(few):
    data = few("text")
    batch = PackCollator()([PackDataset(data.packed)[0]])
    model = model_of(AutoModelForCausalLM, data.model)
    outputs = model(**batch, use_cache=False)
    ones = torch.ones_like(batch["labels"], dtype=torch.float32)
    loss = weighted_loss(outputs.logits, batch["labels"], ones)
    assert loss.item() == pytest.approx(outputs.loss.item(), abs=1e-6)


def test_other_shapes_are_refused(row):
    logits, labels, weights = row
    with pytest.raises(InputError, match="not of one row"):
        weighted_loss(logits, labels, weights[:, 1:])


def weighing(row):
    """Rows as a dataset with weights has them."""
    generator = torch.Generator().manual_seed(len(row))
    row = {"input_ids": row.input_ids, "labels": row.labels, "cu_seqlens": row.samples.values}
    return row | {"loss_scale": torch.rand(len(row["labels"]), generator=generator).numpy()}


def collate_weighed(rows):
    return PackCollator()([weighing(row) for row in rows])


def test_the_trainer_weighs(few, tmp_path):
    """Two steps of accumulation: gradients are those of all labels of both packs."""
    pytest.importorskip("accelerate")
    data = few("text")
    model = model_of(AutoModelForCausalLM, data.model)
    packs = list(PackDataset(data.packed))[:2]
    batches = [collate_weighed([pack]) for pack in packs]
    count = sum(int((batch["labels"] != -100).sum()) for batch in batches)
    for batch in batches:
        weights = batch.pop("loss_scale")
        logits = model(**batch, use_cache=False).logits
        weighted_loss(logits, batch["labels"], weights, count).backward()
    expected = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    arguments = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=1, gradient_accumulation_steps=2, max_steps=1,
        learning_rate=0.0, max_grad_norm=0.0, report_to=[], use_cpu=True, save_strategy="no",
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=packs, data_collator=collate_weighed,
        compute_loss_func=WeightedLoss(model),
    )  # fmt: skip
    kept = {}
    step = trainer.create_optimizer()
    step.register_step_pre_hook(
        lambda *_: kept.update({n: w.grad.clone() for n, w in model.named_parameters()})
    )
    trainer.train()
    assert kept.keys() == expected.keys()
    worst = max(float((kept[name] - expected[name]).abs().max()) for name in expected)
    assert worst <= 1e-6


def test_a_batch_without_weights_is_told(few):
    data = few("text")
    model = model_of(AutoModelForCausalLM, data.model)
    loss = WeightedLoss(model)
    batch = PackCollator()([PackDataset(data.packed)[0]])
    labels = batch.pop("labels")
    outputs = model(**batch, use_cache=False)
    with pytest.raises(InputError, match="no loss_scale"):
        loss(outputs, labels)
