"""Padding packs: a segment behind each sample that needs one, and behind the last of a pack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.derived import sum_per_pack
from packcli.contract.digests import sample_digests
from packcli.contract.model import Padding
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, boxed, carried_columns, held_axes, neutral
from packcli.contract.padding import NAME, rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.pack.options import PlanOptions
    from packcli.shards.manifest import Manifest


def chosen_padding(source: Manifest, options: PlanOptions) -> Padding | None:
    """Say what packs are padded with: the model's own padding token where encode knew it."""
    if options.unit == 1:
        return None
    facts = source.model
    slots = {facts.image_token_id, facts.video_token_id}
    known = source.settings.get("pad_token_id")
    tries = [*range(len(slots) + 1)]
    if isinstance(known, int) and 0 <= known < facts.vocab_size:
        tries.insert(0, known)
    token = next(one for one in tries if one not in slots)
    return Padding(token, options.pad_sample_multiple, options.pad_pack_multiple)


def padded(packs: Packs, facts: ModelFacts) -> Packs:
    """Put padding behind samples, one segment each.

    Args:
        packs: samples alone.
        facts: the model, and what to pad to; None of that pads nothing.
    """
    packs = replace(packs, facts=facts)
    if facts.padding is None:
        return packs
    gaps = _gaps(packs, facts.padding)
    behind = gaps > 0
    sizes, number = np.unique(gaps[behind], return_inverse=True)
    if not sizes.size:
        return packs
    held = 1 + behind
    place = np.cumsum(held) - held
    order = np.empty(int(held.sum()), dtype=np.int64)
    order[place] = np.arange(gaps.size)
    order[place[behind] + 1] = gaps.size + number
    counts = sum_per_pack(packs, held, Axis.SAMPLE)
    both = Packs.concatenated([packs.apart(), _segments(facts, facts.padding, sizes)])
    return both.take(order).grouped(Offsets.from_lengths(counts))


def _gaps(packs: Packs, padding: Padding) -> NDArray[np.int64]:
    """(S,) int64, tokens that each sample lacks, and the last of a pack for all of it."""
    lengths = packs.tokens.lengths
    gaps = rounded(lengths, padding.sample_multiple) - lengths
    totals = sum_per_pack(packs, lengths + gaps, Axis.SAMPLE)
    gaps[packs.members.ends - 1] += rounded(totals, padding.unit) - totals
    return gaps


def _segments(facts: ModelFacts, padding: Padding, sizes: NDArray[np.int64]) -> Packs:
    """Make one segment of padding of each size, as packs of one."""
    tokens, none = Offsets.from_lengths(sizes), np.zeros(sizes.size, dtype=np.int64)
    axes = {axis: Offsets.from_lengths(none) for axis in held_axes(facts)} | {Axis.TOKEN: tokens}
    held = dict.fromkeys(axes, 0) | {Axis.TOKEN: tokens.total, Axis.SAMPLE: sizes.size}
    columns: dict[str, NDArray[Any]] = {
        column.name: neutral(column, held[column.axis]) for column in carried_columns(facts)
    }
    columns["input_ids"][:] = padding.token
    columns["sample_ids"] = boxed([NAME] * sizes.size)
    segments = Packs(facts, Offsets.unit(sizes.size), axes, columns)
    columns["sample_digests"][:] = sample_digests(segments)
    return segments
