"""Train on packs with DistributedDataParallel: every pack is seen by one of the processes.

torchrun --nproc-per-node 2 ddp.py MODEL_DIRECTORY PACKED OUTPUT
"""

import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForCausalLM

from packcli.train import PackCollator, PackStream

model_directory, packed, output = sys.argv[1:]

distributed.init_process_group("gloo")
rank, ranks = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)
config = AutoConfig.from_pretrained(model_directory)
model = DistributedDataParallel(AutoModelForCausalLM.from_config(config))
stream = PackStream(packed)  # asks torch.distributed which part is its own
loader = DataLoader(stream, batch_size=None)
collator = PackCollator(stream.facts)
labels = torch.tensor(sum(int((pack.labels != -100).sum()) for packs in loader for pack in packs))
distributed.all_reduce(labels)

names: list[str] = []
with model.join():  # the processes may have one batch more or less
    for packs in loader:
        names += [name for pack in packs for name in pack.sample_ids]
        batch = collator(packs)
        count = (batch["labels"] != -100).sum()
        # DDP takes the mean over processes; the loss is one over all labels
        loss = model(**batch, use_cache=False).loss * count * ranks / labels
        loss.backward()

gradients = {name: weight.grad for name, weight in model.module.named_parameters()}
torch.save({"names": names, "gradients": gradients}, Path(output) / f"{rank}.pt")
distributed.destroy_process_group()
