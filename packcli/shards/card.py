"""The dataset card: front matter for `load_dataset`, a summary, loader snippets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.columns import columns_for

if TYPE_CHECKING:
    from packcli.shards.manifest import Manifest

_FRONT = """\
---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*.parquet
tags:
- packcli
- {kind}
---
"""


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
    return _card(manifest, lines)


def packed_card(manifest: Manifest) -> str:
    """Return the card of a packed dataset."""
    counts = manifest.counts
    lines = [
        f"# Packed for {manifest.model.family}",
        "",
        (
            f"{counts['packs']:,} packs of at most {counts['capacity']:,} tokens, "
            f"{counts['samples']:,} samples, {counts['tokens']:,} tokens, "
            f"fill {100 * counts['fill']:.2f} %."
        ),
        "",
        (
            "One row is one pack. `position_ids` and `cu_seqlens` carry the boundaries; there is "
            "no attention mask, and none must be added. Check with `packcli verify`."
        ),
    ]
    return _card(manifest, lines)


def _card(manifest: Manifest, lines: list[str]) -> str:
    columns = [f"| `{c.name}` | {c.axis} | {c.meaning} |" for c in columns_for(manifest.model)]
    snippet = [
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'rows = load_dataset("path/to/this/folder", split="train")',
        "```",
        "",
        "| column | one value a | meaning |",
        "|---|---|---|",
    ]
    front = _FRONT.format(kind=manifest.kind)
    return front + "\n".join([*lines, *snippet, *columns]) + "\n"
