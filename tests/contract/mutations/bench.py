"""Rows of valid packs, opened for damage: one mutable value a row and column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from packcli.contract.rows import Cells, Rows
from packcli.shards.arrow import to_batch, to_rows

EVERYWHERE = ("cu_seqlens", "seq_lengths", "seq_start_id", "max_seqlen")
COUNTED = ("num_samples", "sum_sq_len")


class UnfitError(Exception):
    """These packs hold nothing that the mutation could be done to; try others."""


@dataclass(frozen=True)
class Place:
    """Where the damage must be reported; row None: the whole shard, sample None: any."""

    row: int | None
    sample: int | None = None


@dataclass(frozen=True)
class Mutation:
    name: str
    code: str
    families: tuple[str, ...]
    damage: object


MUTATIONS: list[Mutation] = []
ALL = ("text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
MEDIA = ALL[1:]


def mutation(code, families=ALL):
    def note(damage):
        MUTATIONS.append(Mutation(damage.__name__, code, tuple(families), damage))
        return damage

    return note


class Bench:
    """`bench[name][row]` is a number, an array, or a list of arrays (nested lists)."""

    def __init__(self, packs, rng):
        self.packs, self.rng, self.facts = packs, rng, packs.facts
        rows = to_rows(to_batch(packs), packs.facts)
        self.count = rows.count
        self.dtypes = {name: cells.dtype for name, cells in rows.cells.items()}
        self.nulls = dict.fromkeys(rows.cells, 0)
        self.columns = {name: _per_row(cells) for name, cells in rows.cells.items()}

    def __getitem__(self, name):
        return self.columns[name]

    def rows(self):
        cells = {
            name: _cells(values, self.dtypes[name], self.nulls[name])
            for name, values in self.columns.items()
        }
        return Rows(self.count, cells, self.facts)

    def drop(self, *names):
        for name in names:
            del self.columns[name]

    # choosing

    def pick(self, places):
        places = list(places)
        if not places:
            raise UnfitError
        return places[int(self.rng.integers(len(places)))]

    def row(self, samples=1):
        """Any row of at least so many samples."""
        lengths = self.packs.members.lengths
        return self.pick(np.flatnonzero(lengths >= samples).tolist())

    def samples(self, fits=lambda _row, _sample, _span: True):
        """All (row, sample, span) for which `fits` holds."""
        found = []
        for row in range(self.count):
            bounds = self["cu_seqlens"][row]
            spans = [slice(a, b) for a, b in pairwise(bounds)]
            found += [(row, n, span) for n, span in enumerate(spans) if fits(row, n, span)]
        return found

    def sample(self, fits=lambda _row, _sample, _span: True):
        return self.pick(self.samples(fits))

    def supervised(self, row, span):
        return span.start + np.flatnonzero(self["labels"][row][span] != -100)

    def prompt(self, row, span):
        """Text tokens without a label, the first of the sample left out."""
        ids, labels = self["input_ids"][row][span], self["labels"][row][span]
        places = span.start + np.flatnonzero((labels == -100) & (ids < 1000))
        return places[places > span.start]

    def slots(self, row, span):
        return span.start + np.flatnonzero(np.isin(self["input_ids"][row][span], [1001, 1002]))

    # re-deriving

    def bound(self, row, lengths, names):
        """Tell other sample lengths in the columns named."""
        ends = np.cumsum(lengths)
        told = {
            "cu_seqlens": np.concatenate([[0], ends]),
            "seq_lengths": np.array(lengths),
            "seq_start_id": ends - lengths,
            "max_seqlen": max(lengths),
            "num_samples": len(lengths),
            "sum_sq_len": int(np.square(lengths).sum()),
            "position_ids": np.concatenate([np.arange(length) for length in lengths]),
        }
        for name in names:
            self[name][row] = told[name]

    def remask(self, row):
        """Derive loss_mask from labels and boundaries, as they now are."""
        mask = np.append(self["labels"][row][1:] != -100, 0).astype(int)
        mask[self["cu_seqlens"][row][1:] - 1] = 0
        self["loss_mask"][row] = mask
        return mask


def _per_row(cells):
    if cells.rows is None:
        return cells.values.tolist()
    pieces = [slice(a, b) for a, b in zip(cells.rows[:-1], cells.rows[1:], strict=True)]
    if cells.inner is None:
        return [cells.values[piece].copy() for piece in pieces]
    inner = np.split(cells.values, cells.inner[1:-1]) if len(cells.inner) > 1 else []
    return [[part.copy() for part in inner[piece]] for piece in pieces]


def _cells(values, dtype, nulls):
    if not dtype.startswith(("list", "large_list")):
        return Cells(np.array(values), None, None, dtype, nulls)
    rows = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int64)
    if not isinstance(values[0], list):
        return Cells(np.concatenate(values), rows, None, dtype, nulls)
    lists = [part for value in values for part in value]
    inner = np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
    flat = np.concatenate(lists) if lists else np.zeros(0, np.int32)
    return Cells(flat, rows, inner, dtype, nulls)
