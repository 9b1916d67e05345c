"""What a rule is, and where it was broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from packcli.contract.columns import COLUMNS, Need, columns_for
from packcli.contract.model import Rope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows


@dataclass(frozen=True, slots=True)
class Hit:
    """One place in a batch of rows where a rule is broken.

    Attributes:
        row: the row of the batch; None when the whole shard is meant.
        message: expected, found, and what it means.
        sample: the sample in its pack.
        token: the token in its pack.
    """

    row: int | None
    message: str
    sample: int | None = None
    token: int | None = None


class FrameCheck(Protocol):
    """Looks at rows as they rest on disk."""

    def __call__(self, rows: Rows) -> Iterator[Hit]:
        """Yield a hit for each row that breaks the rule."""
        ...


class PackCheck(Protocol):
    """Looks at packs whose frame is sound, and at the derived columns stored with them."""

    def __call__(self, packs: Packs, rows: Rows) -> Iterator[Hit]:
        """Yield hits, at most one a sample."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One law of the contract.

    Attributes:
        code: stable name, e.g. ``boundary.end``.
        tier: a row that breaks a rule is not shown to rules of a higher tier, so that each
            fault is reported under its own name.
        law: what must hold.
        remedy: what to do when it does not.
        needs: columns, or what else, without which the rule cannot be checked.
        frame: the check of a frame rule, or None.
        check: the check of a rule on sound packs, or None.
    """

    code: str
    tier: int
    law: str
    remedy: str
    needs: tuple[str, ...] = ()
    frame: FrameCheck | None = None
    check: PackCheck | None = None

    def missing(self, rows: Rows) -> tuple[str, ...]:
        """Name what keeps the rule from running on these rows: columns, or facts of a model."""
        return tuple(need for need in self.needs if not _holds(need, rows))


def _holds(need: str, rows: Rows) -> bool:
    if need in _CONDITIONS:
        return _CONDITIONS[need](rows)
    return need in rows.cells


def _has_media(rows: Rows) -> bool:
    return rows.facts.has_media


def _has_mrope(rows: Rows) -> bool:
    return rows.facts.has_mrope


def _has_digested(rows: Rows) -> bool:
    """Whether the facts hold every column that a digest was taken over."""
    held = {column.name for column in columns_for(rows.facts)}
    return not any(
        column.need is Need.MEDIA and column.name not in held and column.name in rows.cells
        for column in COLUMNS
    )


def _has_weights(rows: Rows) -> bool:
    return not rows.facts.loss_scale or "loss_scale" in rows.cells


def _has_seconds(rows: Rows) -> bool:
    untimed = rows.facts.rope is not Rope.TIMED or "video_grid_thw" not in rows.cells
    return untimed or "second_per_grid_ts" in rows.cells


def _has_windows(rows: Rows) -> bool:
    stored = "vit_cu_seqlens" in rows.cells
    if rows.facts.vit_windows is None:
        return not stored
    return stored and "image_grid_thw" in rows.cells


def _has_padded(rows: Rows) -> bool:
    return ("cu_seqlens_padded" in rows.cells) == rows.facts.pads_samples


DIGESTED = "the model, as digests cover media: name --model"
PADDED = "cu_seqlens_padded, and the multiples that packs were padded to"
SECONDS = "second_per_grid_ts, as videos are timed"
WEIGHTS = "loss_scale, as labels have weights"
WINDOWS = "vit_cu_seqlens, image_grid_thw and a model with windows"
_CONDITIONS = {
    DIGESTED: _has_digested,
    PADDED: _has_padded,
    "model with media": _has_media,
    "model with mRoPE": _has_mrope,
    SECONDS: _has_seconds,
    WEIGHTS: _has_weights,
    WINDOWS: _has_windows,
}


def first_per_row(rows: NDArray[np.integer]) -> Iterator[int]:
    """Yield the index of the first entry of each row number in a sorted list of rows.

    Args:
        rows: (n,) row numbers, ascending.
    """
    if len(rows):
        change = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
        yield from change.tolist()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a flat token lies."""

    row: int
    sample: int
    token: int


def place_of(packs: Packs, flat_token: int) -> Place:
    """Tell row, sample in the pack and token in the pack of a flat token."""
    sample = int(np.searchsorted(packs.tokens.ends, flat_token, side="right"))
    row = int(np.searchsorted(packs.members.ends, sample, side="right"))
    first_sample = int(packs.members.values[row])
    return Place(row, sample - first_sample, flat_token - int(packs.tokens.values[first_sample]))


def token_hits(packs: Packs, wrong: NDArray[np.bool_], message: _Message) -> Iterator[Hit]:
    """Yield one hit a sample for tokens that are marked wrong.

    Args:
        packs: the packs.
        wrong: (N,) bool over all tokens.
        message: makes the text from a flat token number.
    """
    if wrong.any():
        yield from hits_at(packs, np.flatnonzero(wrong), message)


def hits_at(packs: Packs, tokens: NDArray[np.integer], message: _Message) -> Iterator[Hit]:
    """Yield one hit a sample for tokens that are wrong.

    Args:
        packs: the packs.
        tokens: flat token numbers, ascending.
        message: makes the text from a flat token number.
    """
    samples = np.searchsorted(packs.tokens.ends, tokens, side="right")
    for index in first_per_row(samples):
        token = int(tokens[index])
        place = place_of(packs, token)
        yield Hit(place.row, message(token), place.sample, place.token)


class _Message(Protocol):
    def __call__(self, token: int, /) -> str: ...
