"""What Energon wants to know of a folder of tar files, without running its `prepare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DATASET = """\
sample_type:
  __module__: aiak_training_llm.data.multimodal
  __class__: PackedCaptioningSample
part_filter: sample_loader.py:part_filter
sample_loader: sample_loader.py:sample_loader
"""

_LOADER = '''\
"""Turns the members of a bin into the fields of PackedCaptioningSample."""


def sample_loader(raw):
    told = raw["json"]
    names = told["images"]
    positions = [
        [raw.get(f"img{i}_{j}.npy") for j in range(len(names[i]))] for i in range(len(names))
    ]
    some = any(one is not None for row in positions for one in row)
    return {
        "__key__": raw["__key__"],
        "images": [
            [raw[f"img{i}_{j}.jpg"] for j in range(len(names[i]))] for i in range(len(names))
        ],
        "prompts": told["prompts"],
        "captions": told["captions"],
        "patch_positions": positions if some else None,
        "fps": told.get("fps"),
        "timestamp_decimal": told.get("timestamp_decimal"),
    }


def part_filter(part):
    return part == "json" or part.startswith("img")
'''


def describe_webdataset(folder: Path, shards: dict[str, int]) -> None:
    """Write ``.nv-meta``: how samples are read, how many each tar holds, and the splits.

    Matches what `megatron.energon`'s `prepare` writes (version 5).

    Args:
        folder: holds the tar files.
        shards: samples of each tar file.
    """
    meta = folder / ".nv-meta"
    meta.mkdir()
    names = [*shards]
    # JSON is YAML: no second library is needed to write it
    counts = json.dumps({"shard_counts": shards}, indent=2)
    parts = {"train": names, "val": [], "test": []}
    split = json.dumps({"exclude": [], "split_parts": parts}, indent=2)
    texts = {
        "dataset.yaml": _DATASET,
        "sample_loader.py": _LOADER,
        ".info.yaml": counts + "\n",
        "split.yaml": split + "\n",
    }
    for name, text in texts.items():
        (meta / name).write_text(text, encoding="utf-8")
