"""Samples that a target cannot hold: told with their reason, and left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.offsets import Offsets
from packcli.contract.packs import IGNORED

if TYPE_CHECKING:
    from packcli.contract.packs import Packs


class Reason(NamedTuple):
    """Why a sample stays out, and what to do; `detail` is what differs from sample to sample."""

    why: str
    remedy: str
    detail: str = ""


class UnfitError(Exception):
    """A sample does not fit into the target.

    Attributes:
        reason: why, and what to do.
    """

    def __init__(self, why: str, remedy: str, detail: str = "") -> None:
        super().__init__(f"{why}; {remedy} {detail}")
        self.reason = Reason(why, remedy, detail)


Refused = dict[int, Reason]
"""Reasons by the sample's number in its row group."""

_MEDIA = Reason(
    "holds images or videos, and the target takes text alone",
    "train it with packcli.train, or export to llamafactory, qwen-vl-finetune or ms-swift",
)
_VIDEO = Reason(
    "holds a video, of which the target chooses frames by its own rule",
    "train it with packcli.train, or give the frames as images and encode again",
)
_WEIGHT = Reason(
    "has labels of a weight other than 1, and the target has no place for weights",
    "encode without loss scale, or train it with packcli.train",
)
_SHORT = Reason("has one token, so there is nothing to predict", "drop the record")


def with_media(packs: Packs) -> Refused:
    """Refuse samples that hold media."""
    return _where(packs, Axis.MEDIUM, _MEDIA)


def with_video(packs: Packs) -> Refused:
    """Refuse samples that hold videos."""
    return _where(packs, Axis.VIDEO, _VIDEO)


def _where(packs: Packs, axis: Axis, reason: Reason) -> Refused:
    if axis not in packs.axes:
        return {}
    return dict.fromkeys(np.flatnonzero(packs.axes[axis].lengths).tolist(), reason)


def weighted(packs: Packs) -> Refused:
    """Refuse samples whose labels do not all weigh 1."""
    scale = packs.columns.get("loss_scale")
    if scale is None:
        return {}
    places = np.flatnonzero((packs.columns["labels"] != IGNORED) & (scale != 1))
    samples = np.unique(np.searchsorted(packs.tokens.ends, places, side="right"))
    return dict.fromkeys(samples.tolist(), _WEIGHT)


def unpredictable(packs: Packs) -> Refused:
    """Refuse samples of one token, which shifting leaves empty."""
    return dict.fromkeys(np.flatnonzero(packs.tokens.lengths == 1).tolist(), _SHORT)


def without(packs: Packs, refused: Refused) -> Packs:
    """Leave samples out, and packs that are empty then."""
    if not refused:
        return packs
    stay = np.ones(packs.members.total, dtype=bool)
    stay[list(refused)] = False
    sizes = np.bincount(packs.members.segment_ids()[stay], minlength=len(packs))
    members = Offsets.from_lengths(sizes[sizes > 0])
    return packs.take(np.flatnonzero(stay)).grouped(members)
