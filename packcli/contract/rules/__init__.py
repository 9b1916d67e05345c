"""The rules of the contract, in the order in which they are checked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.rules.boundaries import BOUNDARIES
from packcli.contract.rules.dataset import DATASET
from packcli.contract.rules.frame import FRAME, SAMPLES
from packcli.contract.rules.identity import IDENTITY
from packcli.contract.rules.labels import LABELS
from packcli.contract.rules.padding import PADDING
from packcli.contract.rules.rule import Hit, Rule
from packcli.contract.rules.slots import SLOT_COUNT, SLOTS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows


def _order(rule: Rule) -> tuple[int, bool]:
    """Within a tier, rows are seen to be sound before packs are made of them."""
    return rule.tier, rule.check is not None


RULES: tuple[Rule, ...] = tuple(
    sorted(
        (*FRAME, *BOUNDARIES, SAMPLES, SLOT_COUNT, *LABELS, *SLOTS, *PADDING, *IDENTITY),
        key=_order,
    )
)

"""The rules that `check` runs on rows."""

BY_CODE: dict[str, Rule] = {rule.code: rule for rule in (*RULES, *DATASET)}
"""Every rule that a verdict can name."""

_FATAL = frozenset(
    {"columns.missing", "columns.type", "columns.null", "grid.dtype", "grid.shape", "slot.count"}
)
"""Codes that, raised for a whole shard, leave nothing in it to interpret."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What the rules say of a batch of rows.

    Attributes:
        hits: broken rules and where, in the order of the rules.
        skipped: rules that could not run here, and what they lack.
        packs: the rows that broke no rule; None when nothing could be read.
        sound: (n,) int64, their row numbers.
    """

    hits: tuple[tuple[Rule, Hit], ...]
    skipped: dict[str, tuple[str, ...]]
    packs: Packs | None
    sound: NDArray[np.int64]


def check(rows: Rows, without: Container[str] = ()) -> Checked:
    """Check every rule on a batch of rows, except those whose codes are in `without`.

    A row that breaks a rule is not shown to the rules of higher tiers, so each fault is
    reported under its own name and nothing is computed from boundaries that do not hold.
    """
    skipped = {rule.code: lacks for rule in RULES if (lacks := rule.missing(rows))}
    runnable = [rule for rule in RULES if rule.code not in skipped and rule.code not in without]
    hits: list[tuple[Rule, Hit]] = []
    sound = np.arange(rows.count, dtype=np.int64)
    packs: Packs | None = None
    for _, tier in groupby(runnable, key=_order):
        rules = list(tier)
        if packs is None and any(rule.check for rule in rules):
            packs = rows.packs()
        found = [(rule, hit) for rule in rules for hit in _hits(rule, rows, packs)]
        hits += [(rule, _in_batch(hit, sound)) for rule, hit in found]
        if any(hit.row is None and rule.code in _FATAL for rule, hit in found):
            return Checked(tuple(hits), skipped, None, sound[:0])
        broken = {hit.row for _, hit in found if hit.row is not None}
        if broken:
            keep = np.setdiff1d(np.arange(rows.count), list(broken))
            rows, sound = rows.take(keep), sound[keep]
            packs = None if packs is None else packs.rows(keep)
        if not rows.count:
            return Checked(tuple(hits), skipped, None, sound)
    return Checked(tuple(hits), skipped, packs, sound)


def _hits(rule: Rule, rows: Rows, packs: Packs | None) -> Iterator[Hit]:
    if rule.frame is not None:
        yield from rule.frame(rows)
    elif rule.check is not None and packs is not None:
        yield from rule.check(packs, rows)


def _in_batch(hit: Hit, sound: NDArray[np.int64]) -> Hit:
    row = None if hit.row is None else int(sound[hit.row])
    return Hit(row, hit.message, hit.sample, hit.token)
