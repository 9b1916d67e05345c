"""Datasets made by the real pipeline, once a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from packcli.contract.model import ModelFacts
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing as EncodeWriting
from packcli.encode.run import encode
from packcli.encode.sample import Sample, packs_of_one
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing as PackWriting
from packcli.pack.run import pack
from packcli.shards import writer
from packcli.shards.directory import OutputDirectory
from packcli.shards.manifest import Manifest
from packcli.train import MediaLoader, PackCollator, PackDataset

CAPACITY = 2048


@dataclass(frozen=True)
class Made:
    """A model directory and its datasets."""

    model: Path
    encoded: Path
    packed: Path
    media_root: Path

    def collator(self):
        dataset = PackDataset(self.packed)
        media = MediaLoader(dataset.source.manifest, self.media_root, self.model)
        return PackCollator(dataset.facts, media)


@pytest.fixture(scope="session")
def made(tmp_path_factory, sample_data):
    """Give a function: family name to its datasets, made from sample_data/chats.jsonl."""
    done: dict[str, Made] = {}

    def make(family: str) -> Made:
        if family not in done:
            folder = tmp_path_factory.mktemp(family)
            model = sample_data / "models" / family
            job = EncodeJob(model, None, EncodeOptions())
            encode([sample_data / "chats.jsonl"], job, EncodeWriting(folder / "encoded"))
            options = PlanOptions(capacity=CAPACITY)
            pack([folder / "encoded"], options, PackWriting(folder / "packed"))
            done[family] = Made(model, folder / "encoded", folder / "packed", sample_data)
        return done[family]

    return make


FACTS = ModelFacts("text", 1000)


def write(folder: Path, lengths: list[list[int]], group_tokens: int) -> Path:
    """Write samples of the given lengths, one list a shard; ids tell sample and place apart."""
    folder.mkdir(parents=True, exist_ok=True)
    directory = OutputDirectory.open(folder, Manifest("encoded", FACTS, {}, {}, {}, []))
    entries, number = [], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_TOKENS", group_tokens)
        for place, sizes in enumerate(lengths):
            name = f"train-{place:05d}-of-{len(lengths):05d}.parquet"
            with directory.shard(name, FACTS) as (shard, done):
                for size in sizes:
                    ids = (np.arange(size) + 7 * number).astype(np.int32) % 1000
                    labels = np.where(np.arange(size) == 0, -100, ids).astype(np.int32)
                    one = Sample(f"s{number}", f"made:{number}", ids, labels)
                    shard.write(packs_of_one([one], FACTS))
                    number += 1
            entries += done
    manifest = Manifest("encoded", FACTS, {}, {}, {}, [], shards=tuple(entries))
    directory.finish(manifest, card="", rejected=iter(()))
    return folder


@pytest.fixture(scope="session")
def many(tmp_path_factory) -> Path:
    """Give 101 samples in three shards with about 30 row groups."""
    sizes = np.random.default_rng(5).integers(1, 40, 101).tolist()
    shards = [sizes[:50], sizes[50:53], sizes[53:]]
    return write(tmp_path_factory.mktemp("many") / "data", shards, 64)
