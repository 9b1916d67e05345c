"""Ids that come twice, found without holding them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from packcli.encode.outcome import warned_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from packcli.contract.rejections import WarnedLine
    from packcli.encode.options import Part
    from packcli.encode.sample import Sample


def identities(samples: Iterable[Sample]) -> NDArray[np.int64]:
    """(n, 2) int64, 64 bits of each sample's id, equal in every process, and its line."""
    told = [
        (
            int.from_bytes(_hash(sample.id), "little", signed=True),
            int(sample.source.rpartition(":")[2]),
        )
        for sample in samples
    ]
    return np.array(told, np.int64).reshape(-1, 2)


def _hash(identity: str) -> bytes:
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def repeated(
    parts: Sequence[Part], ids: Sequence[NDArray[np.int64]], named: int | None
) -> tuple[int, list[WarnedLine]]:
    """Find every sample that has the id of one before it.

    Args:
        parts: where the samples come from.
        ids: what `identities` says of each part's samples.
        named: how many to name; None for all.

    Returns:
        How many there are, and the first of them.
    """
    every = np.concatenate([np.zeros((0, 2), np.int64), *ids])
    owner = np.repeat(np.arange(len(parts)), [len(one) for one in ids])
    order = np.argsort(every[:, 0], kind="stable")
    same = np.diff(every[order, 0]) == 0
    later = np.sort(order[1:][same])
    told = zip(owner[later[:named]].tolist(), every[later[:named], 1].tolist(), strict=True)
    return len(later), [warned_line(parts[n].name, line, "duplicate_id") for n, line in told]
