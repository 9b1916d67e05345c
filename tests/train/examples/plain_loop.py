"""Train a vision model on packs with plain PyTorch.

python plain_loop.py MODEL_DIRECTORY PACKED MEDIA_ROOT
"""

import sys

import torch
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForImageTextToText

from packcli.train import CostBatchSampler, MediaLoader, PackCollator, PackDataset

model_directory, packed, media_root = sys.argv[1:]

dataset = PackDataset(packed)
media = MediaLoader(dataset, media_root, model_directory)
sampler = CostBatchSampler(dataset)  # steps of near-equal cost on all ranks
loader = DataLoader(
    dataset, batch_sampler=sampler, collate_fn=PackCollator(dataset.facts, media), num_workers=2
)

model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(model_directory))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

losses = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch in loader:
        # without use_cache=False sdpa ignores the boundaries; an attention_mask does the same
        loss = model(**batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
