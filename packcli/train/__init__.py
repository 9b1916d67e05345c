"""Train from a dataset: packs as torch wants them, with nothing that merges samples.

dataset = PackDataset("packed")
collator = PackCollator(dataset.facts, MediaLoader(dataset, "media", model))
loader = DataLoader(dataset, batch_sampler=CostBatchSampler(dataset), collate_fn=collator)
"""

from packcli.batch import packed_seq_params
from packcli.train.collate import PackCollator, collate
from packcli.train.dataset import PackDataset
from packcli.train.loss import WeightedLoss, weighted_loss
from packcli.train.media import MediaLoader
from packcli.train.row import Medium, Pack
from packcli.train.sampler import CostBatchSampler
from packcli.train.stream import PackStream, StreamOptions

__all__ = [
    "CostBatchSampler",
    "MediaLoader",
    "Medium",
    "Pack",
    "PackCollator",
    "PackDataset",
    "PackStream",
    "StreamOptions",
    "WeightedLoss",
    "collate",
    "packed_seq_params",
    "weighted_loss",
]
