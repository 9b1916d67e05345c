"""Datasets made by the real pipeline, once a session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Made:
    """A model directory and its datasets."""

    model: Path
    encoded: Path
    packed: Path
    media_root: Path

    def collator(self):
        dataset = PackDataset(self.packed)
        media = MediaLoader(dataset, self.media_root, self.model)
        return PackCollator(dataset.facts, media)


def _made(folder: Path, sample_data: Path, family: str, step: int, capacity: int) -> Made:
    model = sample_data / "models" / family
    lines = (sample_data / "chats.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "chats.jsonl").write_text("".join(lines[::step]), encoding="utf-8")
    job = EncodeJob(model, sample_data, EncodeOptions())
    encode([folder / "chats.jsonl"], job, EncodeWriting(folder / "encoded"))
    options = PlanOptions(capacity=capacity)
    pack([folder / "encoded"], options, PackWriting(folder / "packed"))
    return Made(model, folder / "encoded", folder / "packed", sample_data)


@pytest.fixture(scope="session")
def made(tmp_path_factory, sample_data):
    """Give a function: family name to its datasets, made from sample_data/chats.jsonl."""

    @cache
    def make(family: str) -> Made:
        return _made(tmp_path_factory.mktemp(family), sample_data, family, 1, 2048)

    return make


@pytest.fixture(scope="session")
def few(tmp_path_factory, sample_data):
    """Give the same of every ninth record: small enough to train on."""

    @cache
    def make(family: str) -> Made:
        step = 3 if family == "text" else 9
        capacity = 2048 if family == "qwen2_5_vl" else 1024  # its videos are long
        return _made(tmp_path_factory.mktemp(f"{family}_few"), sample_data, family, step, capacity)

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
