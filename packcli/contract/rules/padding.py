"""Padding rules: what fills packs up is recognised, teaches nothing, and makes whole multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.derived import DERIVED, padded_rows
from packcli.contract.model import Padding
from packcli.contract.packs import IGNORED
from packcli.contract.padding import SAMPLE_NAMES, padding_of
from packcli.contract.rules.rule import PADDED, Hit, Rule, first_per_row, place_of, token_hits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows


def _value(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    segments = np.flatnonzero(padding_of(packs))
    if not segments.size:
        return
    places = packs.tokens.gather(segments)
    ids, labels = packs.columns["input_ids"], packs.columns["labels"]
    told = packs.facts.padding
    first = np.repeat(ids[packs.tokens.starts[segments]], packs.tokens.lengths[segments])
    wrong = np.zeros(len(ids), dtype=bool)
    wrong[places] = ids[places] != (first if told is None else told.token)
    wrong[places] |= labels[places] != IGNORED
    yield from token_hits(
        packs, wrong, lambda token: f"padding holds token {ids[token]}, label {labels[token]}"
    )


def _behind(packs: Packs, rows: Rows) -> Iterator[Hit]:
    """Padding stands behind a sample: not first in its pack, and not behind padding."""
    del rows
    padding = padding_of(packs)
    before = np.concatenate([[True], padding[:-1]])
    before[packs.members.starts] = True
    for segment in np.flatnonzero(padding & before).tolist():
        place = place_of(packs, int(packs.tokens.starts[segment]))
        yield Hit(place.row, "padding stands behind no sample", place.sample, place.token)


def _multiple(packs: Packs, rows: Rows) -> Iterator[Hit]:
    told = packs.facts.padding or Padding(0)
    lengths = packs.pack_tokens.lengths
    for row in np.flatnonzero(lengths % told.pack_multiple).tolist():
        yield Hit(row, f"{lengths[row]} tokens, no multiple of {told.pack_multiple}")
    if told.sample_multiple > 1:
        yield from _padded(packs, rows, told.sample_multiple)


def _padded(packs: Packs, rows: Rows, multiple: int) -> Iterator[Hit]:
    """Compare what is stored with where samples start, and count the tokens between."""
    cells, bounds = rows.cells["cu_seqlens_padded"], padded_rows(packs)
    count, expected = np.diff(bounds), DERIVED["cu_seqlens_padded"](packs)
    short = cells.lengths != count
    for row in np.flatnonzero(short).tolist():
        yield Hit(row, f"cu_seqlens_padded has {cells.lengths[row]} values, expected {count[row]}")
    if short.any():
        return
    wrong = cells.values != expected
    wrong |= (expected % multiple).astype(bool)
    places = np.flatnonzero(wrong)
    row = np.searchsorted(bounds, places, side="right") - 1
    for index in first_per_row(row):
        at, number = int(places[index]), int(row[index])
        message = f"cu_seqlens_padded says {cells.values[at]}, samples and padding {expected[at]}"
        yield Hit(number, f"{message}, to be a multiple of {multiple}")


PADDING = (
    Rule(
        "padding.value",
        8,
        "padding is one token over and over, unlabelled",
        "pack again; do not write samples under the name of padding",
        ("labels", *SAMPLE_NAMES),
        check=_value,
    ),
    Rule(
        "padding.place",
        9,
        "padding stands behind a sample, once",
        "pack again; padding goes where its sample goes",
        ("labels", *SAMPLE_NAMES),
        check=_behind,
    ),
    Rule(
        "padding.multiple",
        12,
        "a sample with its padding, and a pack, are multiples of what they were padded to, and "
        "cu_seqlens_padded says where",
        "pack again with --pad-sample-multiple or --pad-pack-multiple",
        (PADDED,),
        check=_multiple,
    ),
)
