"""Train from a dataset: packs as torch wants them, with nothing that merges samples.

dataset = PackDataset("packed")
collator = PackCollator(dataset.facts, MediaLoader(dataset.manifest, "media", model))
loader = DataLoader(dataset, batch_sampler=CostBatchSampler(dataset), collate_fn=collator)
"""

from packcli.train.collate import PackCollator, collate
from packcli.train.dataset import PackDataset
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
    "collate",
]
