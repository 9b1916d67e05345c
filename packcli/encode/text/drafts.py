"""Drafts: rendered conversations, which become ids and labels many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.packs import IGNORED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from packcli.encode.records.conversation import Turn
    from packcli.encode.text.spans import Span
    from packcli.encode.text.tokens import Vocabulary

_EVEN = {None, 1}
_Place = tuple[int, str]

_LOOK_BEHIND = (24, 256)
"""Characters behind an edge that decide, nearly always, how the text before it is tokenized."""


@dataclass(slots=True)
class Draft:
    """A conversation that is rendered and checked, and not yet tokenized.

    Attributes:
        pieces: rendered text, cut at added tokens, with marks.
        texts: the same without marks.
        learned: turns and where they stand; empty for a document, of which all is learned.
        slots: tokens, repeats of every pad in order.
    """

    pieces: list[str]
    texts: list[str]
    learned: list[tuple[Turn, Span]]
    slots: tuple[int, ...] = ()


@dataclass(slots=True)
class EncodedText:
    """One sample.

    Attributes:
        input_ids: (T,) int32, token ids.
        labels: (T,) int32, token ids, or -100 for what is not learned.
        learns: whether any token is learned; a text of one token has none.
        loss_scale: (T,) float32, weight of each label; None where all are 1.
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    learns: bool
    loss_scale: NDArray[np.float32] | None = None


class Tokens:
    """The tokens of many drafts, flat, before media slots are repeated.

    Args:
        drafts: at least one.
        vocabulary: the tokenizer.
        unmark: what a piece of rendered text looks like as it was typed.

    Attributes:
        ids: (N,) int32.
        bounds: (D + 1,) int64, tokens, where each draft starts.
    """

    def __init__(
        self, drafts: Sequence[Draft], vocabulary: Vocabulary, unmark: Callable[[str], str]
    ) -> None:
        self._drafts, self._vocabulary, self._unmark = drafts, vocabulary, unmark
        found = vocabulary.encode_pieces([draft.texts for draft in drafts])
        self.ids, self._starts = found.ids, found.bounds
        self._first = _bounds([len(draft.texts) for draft in drafts])
        self.bounds = self._starts[self._first]

    def pads(self, tokens: frozenset[int]) -> NDArray[np.int64]:
        """Find media slots: (n,) int64, flat places of added tokens with these ids."""
        piece = np.arange(len(self._starts) - 1)
        inside = piece - np.repeat(self._first[:-1], np.diff(self._first))
        places = self._starts[:-1][inside % 2 == 1]
        return places[np.isin(self.ids[places], [*tokens])]

    def ranges(self) -> list[list[tuple[int, int]]]:
        """Find what is learned: for each draft the first and the last flat token of its spans.

        A token that lies across the edge of an answer is left out.
        """
        starts: list[_Place] = []
        stops: list[int] = []
        inside: list[int] = []
        cut: list[_Place] = []
        for draft, first in zip(self._drafts, self._first.tolist(), strict=False):
            pieces = draft.pieces
            for _, span in draft.learned:
                head = pieces[span.first][: span.skip]
                starts.append((first + span.first, self._unmark(head)))
                if span.keep is not None:
                    head = pieces[span.last][: span.keep]
                    inside.append(len(stops))
                    cut.append((first + span.last, self._unmark(head)))
                stops.append(first + span.last + 1)
        ends = self._starts[stops] if stops else np.zeros(0, np.int64)
        ends[inside] = self._edges(cut, inside=True)
        spans = zip(self._edges(starts, inside=False).tolist(), ends.tolist(), strict=True)
        return [
            [next(spans) for _ in draft.learned] if draft.learned else [(start, stop)]
            for draft, start, stop in zip(
                self._drafts, self.bounds.tolist(), self.bounds[1:].tolist(), strict=False
            )
        ]

    def _edges(self, places: list[_Place], *, inside: bool) -> NDArray[np.int64]:
        """Find the tokens at which texts end that pieces start with.

        Args:
            places: piece, and how it starts.
            inside: whether a token across the edge counts to what is behind it.
        """
        edges = np.zeros(len(places), np.int64)
        by_head: dict[str, list[int]] = {}
        for number, (_, head) in enumerate(places):
            by_head.setdefault(head, []).append(number)
        if not places:
            return edges
        alone = dict(zip(by_head, self._vocabulary.encode_many([*by_head]).split(), strict=True))
        for head, numbers in by_head.items():
            pieces = np.array([places[n][0] for n in numbers])
            starts, size = self._starts[pieces], alone[head].size
            edges[numbers] = starts + size
            if not head:
                continue
            # the header is nearly always tokens of its own: compare, instead of asking for offsets
            window = np.minimum(starts[:, None] + np.arange(size), len(self.ids) - 1)
            equal = (self.ids[window] == alone[head]).all(axis=1)
            for n in np.flatnonzero(~equal | (starts + size > self._starts[pieces + 1])).tolist():
                edges[numbers[n]] = starts[n] + self._count(int(pieces[n]), head, inside=inside)
        return edges

    def _count(self, piece: int, head: str, *, inside: bool) -> int:
        """Count the tokens of a piece up to the end of a head that is no tokens of its own."""
        number = int(np.searchsorted(self._first, piece, side="right")) - 1
        text = self._drafts[number].texts[piece - int(self._first[number])]
        ids = self.ids[self._starts[piece] : self._starts[piece + 1]].tolist()
        covers: list[tuple[int, int]] = []
        across = 0
        for end in (*(len(head) + some for some in _LOOK_BEHIND), len(text)):
            some, covers = self._vocabulary.backend.encode_with_ends(text[:end])
            across = sum(start < len(head) for start, _ in covers)
            # equal ids cover equal text: then it does not matter that the rest was left out
            if some[:across] == ids[:across]:
                break
        return sum(stop <= len(head) for _, stop in covers) if inside else across


def encode_drafts(
    tokens: Tokens, drafts: Sequence[Draft], pads: frozenset[int]
) -> list[EncodedText]:
    """Label the tokens, and repeat every pad as often as its medium has slots.

    Args:
        tokens: the tokens of the drafts.
        drafts: what was tokenized.
        pads: ids of the tokens that are repeated.

    Returns:
        One a draft. The first label of each is -100, it has nothing before it.
    """
    labels = np.full(tokens.ids.shape, IGNORED, np.int32)
    ranges = tokens.ranges()
    for start, stop in chain.from_iterable(ranges):
        labels[start:stop] = tokens.ids[start:stop]
    places = tokens.pads(pads)
    labels[places] = IGNORED
    bounds = tokens.bounds
    labels[bounds[:-1][np.diff(bounds) > 0]] = IGNORED
    scales = [
        _scale(*one)
        for one in zip(drafts, ranges, bounds.tolist(), bounds[1:].tolist(), strict=False)
    ]
    ids, counts = tokens.ids, _repeats(tokens, drafts, places)
    if counts is not None:
        ids, labels = np.repeat(ids, counts), np.repeat(labels, counts)
        scales = [
            scale if scale is None else np.repeat(scale, counts[start : start + scale.size])
            for scale, start in zip(scales, bounds.tolist(), strict=False)
        ]
        bounds = _bounds(counts)[bounds]
    learned = np.searchsorted(np.flatnonzero(labels != IGNORED), bounds)
    flags = (np.diff(learned) > 0).tolist()
    edges = bounds.tolist()
    return [
        EncodedText(ids[start:stop], labels[start:stop], learns, scale)
        for start, stop, learns, scale in zip(edges, edges[1:], flags, scales, strict=False)
    ]


def _bounds(sizes: Sequence[int] | NDArray[np.generic]) -> NDArray[np.int64]:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def _repeats(
    tokens: Tokens, drafts: Sequence[Draft], places: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    found = np.diff(np.searchsorted(places, tokens.bounds))
    slots = [draft.slots for draft in drafts]
    if found.tolist() != [len(one) for one in slots]:
        raise ValueError(f"{found.tolist()} pads in the texts, {slots} runs of slots")
    if not len(places):
        return None
    counts = np.ones(tokens.ids.size, np.int64)
    counts[places] = list(chain.from_iterable(slots))
    return counts


def _scale(
    draft: Draft, ranges: list[tuple[int, int]], start: int, stop: int
) -> NDArray[np.float32] | None:
    weights = [turn.weight for turn, _ in draft.learned]
    if {*weights} <= _EVEN:
        return None
    scale = np.zeros(stop - start, np.float32)
    for weight, (first, last) in zip(weights, ranges, strict=True):
        scale[first - start : last - start] = 1 if weight is None else weight
    return scale
