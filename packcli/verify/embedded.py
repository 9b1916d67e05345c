"""Embedded media: every address that a shard names has its bytes beside the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.rules import Hit
from packcli.shards.media_store import MediaStore, names_in
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.verify.naming import finding_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.contract.rows import Rows
    from packcli.contract.verdict import Verdict
    from packcli.verify.targets import Target

_WORDS = {
    "media.missing": "it is not in media/",
    "media.sha256": "its bytes in media/ are others",
}


def check_embedded(target: Target, verdict: Verdict) -> None:
    """Hash every stored medium that a sample names, each once."""
    if target.manifest is None or "embedded" not in target.manifest.counts:
        return
    store, seen = MediaStore(target.path), set[str]()
    for path in target.shards:
        try:
            for rows, first, medium, name in _named(path, target):
                code = None if name in seen else store.fault(name)
                seen.add(name)
                if code is not None:
                    hit = _hit(rows, medium, f"sha256:{name}: {_WORDS[code]}")
                    verdict.add(finding_at(code, hit, (target.title(path), first), rows))
        except (FileNotFoundError, ShardUnreadableError):
            continue  # the rules of shards say so


def _named(path: Path, target: Target) -> Iterator[tuple[Rows, int, int, str]]:
    first = 0
    for rows in Shard.open(path).groups(target.facts, ["media", "sample_ids", "sample_sources"]):
        for medium, uri in enumerate(rows.cells["media.uri"].values.tolist()):
            for name in names_in([uri]):
                yield rows, first, medium, name
        first += rows.count


def _hit(rows: Rows, medium: int, message: str) -> Hit:
    bounds = rows.cells["media.uri"].rows
    assert bounds is not None  # noqa: S101 - a list column
    row = int(np.searchsorted(bounds, medium, side="right")) - 1
    told = rows.cells.get("media.sample_index")
    sample = -1 if told is None else int(told.values[medium])
    return Hit(row, message, sample if sample >= 0 else None)
