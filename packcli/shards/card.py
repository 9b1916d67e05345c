"""The dataset card: front matter for `load_dataset`, what is in it, how it was made, loaders."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from packcli.contract.columns import columns_for
from packcli.contract.padding import NAME as PADDING_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packcli.shards.manifest import Manifest

_FRONT = """\
---
configs:
- config_name: {name}
  data_files:
  - split: train
    path: data/*.parquet
tags:
- packcli
- {kind}
---
"""

_DATASETS = """\
```python
from datasets import load_dataset

rows = load_dataset("path/to/this/folder", split="train")
```
"""

_TORCH = """\
Plain PyTorch; `{loader}` gives the model what the rows describe, boundaries included:

```python
from torch.utils.data import DataLoader
from packcli.train import {names}

dataset = PackDataset("path/to/this/folder")
{media}collator = PackCollator({arguments})
loader = DataLoader(dataset, batch_sampler=CostBatchSampler(dataset), collate_fn=collator)
for batch in loader:
    loss = model(**batch, use_cache=False).loss  # without it sdpa ignores the boundaries
```

Hugging Face Trainer, with the same `dataset` and `collator` (needs `pip install accelerate`):

```python
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments("output", per_device_train_batch_size=1)
Trainer(model, arguments, train_dataset=dataset, data_collator=collator).train()
```
"""
_MEDIA = 'media = MediaLoader(dataset, "folder/of/media", "model/directory")\n'


def encoded_card(manifest: Manifest) -> str:
    """Return the card of an encoded dataset."""
    counts = manifest.counts
    lines = [
        f"# Encoded for {manifest.model.family}",
        "",
        (
            f"{counts['kept']:,} samples, {counts['tokens']:,} tokens "
            f"({counts['supervised_tokens']:,} supervised), {counts['media']['images']:,} images, "
            f"{counts['media']['videos']:,} videos; {counts['rejected']:,} of "
            f"{counts['records']:,} records rejected (`rejected.jsonl`)."
        ),
        "",
        "One row is one sample, a pack of one. Next: `packcli pack`.",
    ]
    return _card(manifest, lines, [_DATASETS])


def packed_card(manifest: Manifest) -> str:
    """Return the card of a packed dataset."""
    counts = manifest.counts
    lines = [
        f"# Packed for {manifest.model.family}",
        "",
        (
            f"{counts['packs']:,} packs of at most {counts['capacity']:,} tokens, "
            f"{counts['samples']:,} samples, {counts['tokens']:,} tokens, "
            f"fill {100 * counts['fill']:.2f} %; no plan needs fewer than "
            f"{counts['lower_bound']:,} packs. {counts['rejected']:,} samples were rejected "
            "(`rejected.jsonl`)."
        ),
        "",
        (
            "One row is one pack. `position_ids` and `cu_seqlens` carry the boundaries; there is "
            "no attention mask, and none must be added. Check with `packcli verify`."
        ),
    ]
    if manifest.model.padding is not None:
        told = manifest.model.padding
        lines += [
            "",
            (
                f"{counts['padding']:,} tokens more are padding, so that samples are multiples of "
                f"{told.sample_multiple} tokens and packs of {told.pack_multiple}: segments of "
                f"token {told.token} without labels, called `{PADDING_NAME}` in `sample_ids`."
            ),
        ]
    return _card(manifest, lines, [_DATASETS, _torch(manifest)])


def _torch(manifest: Manifest) -> str:
    names = ["CostBatchSampler", "PackCollator", "PackDataset"]
    media = manifest.model.has_media
    return _TORCH.format(
        loader="packcli.train",
        names=", ".join(sorted([*names, *(["MediaLoader"] if media else [])])),
        media=_MEDIA if media else "",
        arguments="dataset.facts, media" if media else "dataset.facts",
    )


def _card(manifest: Manifest, lines: list[str], loaders: list[str]) -> str:
    columns = [f"| `{c.name}` | {c.axis} | {c.meaning} |" for c in columns_for(manifest.model)]
    body = [
        *lines,
        "",
        "## How it was made",
        "",
        *_made(manifest),
        "",
        "## Load",
        "",
        "\n".join(loaders),
        "## Columns",
        "",
        "| column | one value a | meaning |",
        "|---|---|---|",
        *columns,
    ]
    front = _FRONT.format(kind=manifest.kind, name=config_name(manifest))
    return front + "\n".join(body) + "\n"


def config_name(manifest: Manifest) -> str:
    """Name the rows by their bytes: `datasets` caches rows by the folder's last name and by this.

    Two folders `packed`, or one that is written anew, would else be given each other's rows.
    """
    state = sha256("".join(shard.sha256 for shard in manifest.shards).encode())
    return f"{manifest.kind}-{state.hexdigest()[:16]}"


def _made(manifest: Manifest) -> list[str]:
    """Say with which tools, options and inputs; `manifest.json` says all of it."""
    tools = ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))
    options = ", ".join(f"{name} {value}" for name, value in _flat(manifest.options))
    return [
        f"With {tools}. Fingerprint `{manifest.fingerprint}`: equal inputs, model files, options",
        "and versions give equal bytes.",
        "",
        f"Options: {options or 'defaults'}.",
        "",
        "Inputs:",
        "",
        *(f"- {_input(one)}" for one in manifest.inputs),
    ]


def _flat(options: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """List what was set; None means that nothing was."""
    told: list[tuple[str, Any]] = []
    for name, value in sorted(options.items()):
        if isinstance(value, dict):
            told += _flat(value, f"{before}{name}.")
        elif value is not None:
            told.append((f"`{before}{name}`", value))
    return told


def _input(one: Mapping[str, Any]) -> str:
    if "sha256" in one:
        return f"`{one['name']}`, {one['bytes']:,} bytes, sha256 `{one['sha256']}`"
    files = ", ".join(f"`{file.get('name', '?')}`" for file in one.get("inputs", []))
    mixed = f", {one['epochs']:g} epochs: {one['drawn']:,} uses" if "epochs" in one else ""
    made = f" made from {files}" if files else ""
    return f"dataset `{one['fingerprint']}`{made}, {one['samples']:,} samples{mixed}"
