"""Label rules: what is supervised, and that no loss looks across a boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.derived import loss_mask
from packcli.contract.packs import IGNORED
from packcli.contract.padding import padding_of
from packcli.contract.rules.rule import WEIGHTS, Hit, Rule, token_hits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows


def slots_of(packs: Packs) -> NDArray[np.bool_]:
    """(N,) bool, tokens that stand for an image or a video."""
    ids = packs.columns["input_ids"]
    marked = np.zeros(len(ids), dtype=bool)
    for token in (packs.facts.image_token_id, packs.facts.video_token_id):
        if token is not None:
            marked |= ids == token
    return marked


def _first(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    labels = packs.columns["labels"]
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[packs.tokens.starts] = labels[packs.tokens.starts] != IGNORED
    yield from token_hits(
        packs,
        wrong,
        lambda token: f"first label is {labels[token]}: the sample before would predict it",
    )


def _value(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    labels, ids = packs.columns["labels"], packs.columns["input_ids"]
    wrong = (labels != IGNORED) & (labels != ids)
    wrong[packs.tokens.starts] = False
    yield from token_hits(
        packs, wrong, lambda token: f"label {labels[token]}, token {ids[token]} at its place"
    )


def _media(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    labels = packs.columns["labels"]
    wrong = slots_of(packs) & (labels == packs.columns["input_ids"])
    wrong[packs.tokens.starts] = False
    yield from token_hits(packs, wrong, lambda token: f"media slot {labels[token]} is supervised")


def _scale(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    if not packs.facts.loss_scale:
        return
    scale, labels = packs.columns["loss_scale"], packs.columns["labels"]
    yield from token_hits(
        packs,
        ~np.isfinite(scale) | (scale < 0) | ((labels == IGNORED) & (scale != 0)),
        lambda token: f"weight {scale[token]} of the label {labels[token]}",
    )


def _none(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    starts = packs.tokens.starts
    taught = np.logical_or.reduceat(packs.columns["labels"] != IGNORED, starts)
    wrong = np.zeros(packs.tokens.total, dtype=bool)
    wrong[starts[~taught & ~padding_of(packs)]] = True
    yield from token_hits(packs, wrong, lambda _: "every label is -100: nothing is learnt")


def _shift(packs: Packs, rows: Rows) -> Iterator[Hit]:
    stored = rows.cells["loss_mask"].values
    if "labels" not in rows.cells:
        yield from _unlabelled(packs, stored)
        return
    expected = loss_mask(packs)
    yield from token_hits(
        packs,
        stored != expected,
        lambda token: f"loss_mask is {stored[token]}, the labels say {expected[token]}",
    )


def _unlabelled(packs: Packs, stored: NDArray[np.integer]) -> Iterator[Hit]:
    """Check what holds of a mask whatever the labels are.

    A 1 at the last token of a sample is none of it: NeMo writes some, and its reader drops them.

    Args:
        packs: the packs.
        stored: (N,) integers, the mask of all tokens.
    """
    yield from token_hits(
        packs,
        (stored < 0) | (stored > 1),
        lambda token: f"loss_mask is {stored[token]}, expected 0 or 1",
    )


def _range(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    ids, size = packs.columns["input_ids"], packs.facts.vocab_size
    yield from token_hits(
        packs,
        (ids < 0) | (ids >= size),
        lambda token: f"token id {ids[token]} is outside the vocabulary of {size}",
    )


LABELS = (
    Rule(
        "vocab.range",
        9,
        "every token id lies in the model's vocabulary",
        "encode with the model's own tokenizer",
        check=_range,
    ),
    Rule(
        "label.first",
        10,
        "the first label of every sample is -100",
        "mask it: after the shift it meets the last token of the sample before",
        ("labels",),
        check=_first,
    ),
    Rule(
        "label.value",
        10,
        "a label is -100 or the token id at its own place, unshifted",
        "move labels by the permutation of input_ids, and do not shift them",
        ("labels",),
        check=_value,
    ),
    Rule(
        "label.media",
        10,
        "labels of media slots are -100",
        "mask image and video slots",
        ("labels", "model with media"),
        check=_media,
    ),
    Rule(
        "loss_scale.value",
        11,
        "a weight is finite and not negative, and 0 where the label is -100",
        "move loss_scale by the permutation of input_ids; encode again if weights are wrong",
        ("labels", WEIGHTS),
        check=_scale,
    ),
    Rule(
        "label.none",
        11,
        "every sample has a supervised token; padding has none",
        "drop the sample: it costs attention and teaches nothing",
        ("labels",),
        check=_none,
    ),
    Rule(
        "loss_mask.shift",
        12,
        "loss_mask[i] is 1 where labels[i + 1] of the same sample is supervised, else 0; "
        "without labels too it is 0 or 1",
        "derive loss_mask from the labels, shifted by one inside each sample",
        ("loss_mask",),
        check=_shift,
    ),
)
