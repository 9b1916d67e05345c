"""Padding: segments of a pack that no record made, so that lengths are multiples of a number.

Padding is a segment of its own, never a part of a sample: every law of samples holds of it, a
kernel keeps it apart, and nothing is learnt from it. It is told by a reserved name and an empty
source, which no record has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.packs import Packs

NAME = "<packcli padding>"
"""What stands in `sample_ids` for padding."""

SAMPLE_NAMES = ("sample_ids", "sample_sources")
"""Columns that tell padding from samples."""


def named_padding(names: NDArray[Any], sources: NDArray[Any]) -> NDArray[np.bool_]:
    """(S,) bool, segments that are padding.

    Args:
        names: (S,) text, `sample_ids`.
        sources: (S,) text, `sample_sources`.
    """
    found = np.asarray(names == NAME, dtype=bool)
    return found & np.asarray(sources == "", dtype=bool) if found.any() else found


def padding_of(packs: Packs) -> NDArray[np.bool_]:
    """(S,) bool, segments of packs that are padding."""
    return named_padding(packs.columns["sample_ids"], packs.columns["sample_sources"])


def without_padding(packs: Packs) -> Packs:
    """Leave padding out, and packs that held nothing else."""
    padding = padding_of(packs)
    if not padding.any():
        return packs
    held = np.bincount(packs.members.segment_ids()[~padding])
    members = Offsets.from_lengths(held[held > 0])
    return packs.take(np.flatnonzero(~padding)).grouped(members)


def rounded(lengths: NDArray[np.integer], multiple: int) -> NDArray[np.int64]:
    """Round lengths up to a multiple, tokens."""
    return -(-lengths.astype(np.int64) // multiple) * multiple
