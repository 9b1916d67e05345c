"""Embedded media: every address that a shard names has its bytes beside the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.verdict import Finding, Verdict
from packcli.shards.media_store import MediaStore, names_in
from packcli.shards.reader import Shard, ShardUnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
            for row, name in _named(path, target):
                code = None if name in seen else store.fault(name)
                seen.add(name)
                if code is not None:
                    message = f"sha256:{name}: {_WORDS[code]}"
                    verdict.add(Finding(code, message, target.title(path), row))
        except (FileNotFoundError, ShardUnreadableError):
            continue  # the rules of shards say so


def _named(path: Path, target: Target) -> Iterator[tuple[int, str]]:
    first = 0
    for rows in Shard.open(path).groups(target.facts, ["media"]):
        cells = rows.cells["media.uri"]
        assert cells.rows is not None  # noqa: S101 - a list column
        for place, uri in enumerate(cells.values.tolist()):
            row = first + int(np.searchsorted(cells.rows, place, side="right")) - 1
            for name in names_in([uri]):
                yield row, name
        first += rows.count
