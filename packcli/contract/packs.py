"""Packs: a run of packs, column by column. An encoded sample is a pack of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import BY_NAME, RAGGED, Axis, Column, columns_for
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.contract.offsets import Places

IGNORED = -100
"""The label that no loss looks at (Hugging Face convention)."""


@dataclass(frozen=True, slots=True, eq=False)
class Packs:
    """P packs of S samples, every carried column flat over all of them, in one physical order.

    Joining packs is grouping: the samples stay where they are and only `members` changes, so
    no token-aligned column can be left behind or moved by another permutation.

    Attributes:
        facts: the model that the samples were made for.
        members: P segments over S samples: which samples share a pack.
        axes: for each ragged axis, S segments: the elements of each sample on that axis.
        columns: carried columns by name: ``(N,)`` or ``(N, width)`` arrays;
            opaque ones are object arrays.
    """

    facts: ModelFacts
    members: Offsets
    axes: Mapping[Axis, Offsets]
    columns: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        """Refuse undeclared, missing or misaligned columns, empty samples and empty packs.

        Raises:
            ValueError: naming the axis or the column.
        """
        self._check_axes()
        carried = {column.name for column in carried_columns(self.facts)}
        if unknown := set(self.columns) - carried:
            raise ValueError(f"columns that the table does not declare: {sorted(unknown)}")
        if missing := carried - set(self.columns):
            raise ValueError(f"columns are missing: {sorted(missing)}")
        for name, values in self.columns.items():
            expected = _shape(BY_NAME[name], self.count(BY_NAME[name].axis))
            if values.shape != expected:
                axis = BY_NAME[name].axis
                raise ValueError(f"{name}: shape {values.shape}, the {axis} axis needs {expected}")

    def _check_axes(self) -> None:
        for axis in held_axes(self.facts):
            found = len(self.axes[axis]) if axis in self.axes else 0
            if axis not in self.axes or found != self.members.total:
                raise ValueError(f"{axis} axis: {found} segments, {self.members.total} samples")
        if not (self.members.strict and self.tokens.strict):
            raise ValueError("every pack holds a sample, and every sample a token")

    @property
    def tokens(self) -> Offsets:
        """S segments: the tokens of each sample."""
        return self.axes[Axis.TOKEN]

    @property
    def pack_tokens(self) -> Offsets:
        """P segments: the tokens of each pack."""
        return self.members.through(self.tokens)

    def __len__(self) -> int:
        """Return the number of packs, P."""
        return len(self.members)

    def count(self, axis: Axis) -> int:
        """Return the number of elements over all packs on an axis."""
        if axis is Axis.SAMPLE:
            return self.members.total
        return len(self) if axis is Axis.PACK else self.axes[axis].total

    def grouped(self, members: Offsets) -> Packs:
        """Join: let the samples, as they lie, share packs in another way."""
        if members.total != self.members.total:
            raise ValueError(f"{members.total} members, {self.members.total} samples")
        return replace(self, members=members)

    def joined(self) -> Packs:
        """Join all packs into one."""
        return self.grouped(Offsets.from_lengths([self.members.total]))

    def apart(self) -> Packs:
        """Make each sample a pack of one."""
        return self.grouped(Offsets.unit(self.members.total))

    def take(self, order: NDArray[np.integer]) -> Packs:
        """Take samples in another order, as packs of one.

        Args:
            order: (n,) sample numbers; some may be left out or repeat.
        """
        places: dict[Axis, Places] = {axis: self.axes[axis].places(order) for axis in self.axes}
        places[Axis.SAMPLE] = np.asarray(order, dtype=np.int64)
        columns = {
            name: taken(values, places[BY_NAME[name].axis]) for name, values in self.columns.items()
        }
        axes = {axis: offsets.take(order) for axis, offsets in self.axes.items()}
        return Packs(self.facts, Offsets.unit(len(order)), axes, columns)

    def rows(self, order: NDArray[np.integer]) -> Packs:
        """Take whole packs in another order."""
        return self.take(self.members.gather(order)).grouped(self.members.take(order))

    def span(self, start: int, stop: int) -> Packs:
        """Take neighbouring packs: their columns are views, nothing is copied.

        Args:
            start: the first pack.
            stop: one past the last.
        """
        first, last = (int(place) for place in self.members.values[[start, stop]])
        axes = {axis: offsets.span(first, last) for axis, offsets in self.axes.items()}
        places = {
            axis: slice(*offsets.values[[first, last]]) for axis, offsets in self.axes.items()
        }
        places[Axis.SAMPLE] = slice(first, last)
        columns = {
            name: values[places[BY_NAME[name].axis]] for name, values in self.columns.items()
        }
        return Packs(self.facts, self.members.span(start, stop), axes, columns)

    @classmethod
    def concatenated(cls, parts: Iterable[Packs]) -> Packs:
        """Put runs of packs one behind the other.

        Parts of a generator are freed column by column: the peak is one copy and one column.

        Raises:
            ValueError: no parts, or parts made for different models.
        """
        facts: set[ModelFacts] = set()
        members: list[NDArray[Any]] = []
        lengths: dict[Axis, list[NDArray[Any]]] = {}
        values: dict[str, list[NDArray[Any]]] = {}
        for part in parts:
            facts.add(part.facts)
            members.append(part.members.lengths)
            for axis, offsets in part.axes.items():
                lengths.setdefault(axis, []).append(offsets.lengths)
            for name, column in part.columns.items():
                values.setdefault(name, []).append(column)
        if len(facts) != 1:
            raise ValueError("packs of one model are needed, at least one")
        columns = {name: _appended(values.pop(name)) for name in [*values]}
        axes = {axis: Offsets.from_lengths(np.concatenate(each)) for axis, each in lengths.items()}
        return cls(facts.pop(), Offsets.from_lengths(np.concatenate(members)), axes, columns)


@lru_cache(maxsize=32)
def carried_columns(facts: ModelFacts) -> tuple[Column, ...]:
    """Return the columns that `Packs` of a model hold; the others are derived from them."""
    return tuple(column for column in columns_for(facts) if not column.derived)


@lru_cache(maxsize=32)
def held_axes(facts: ModelFacts) -> tuple[Axis, ...]:
    """Return the ragged axes of a model's packs."""
    used = {column.axis for column in carried_columns(facts)}
    return tuple(axis for axis in RAGGED if axis in used)


def taken(values: NDArray[Any], places: Places) -> NDArray[Any]:
    """Take elements of a column by their flat places, or by runs of them."""
    if isinstance(places, list):
        return np.concatenate([values[run] for run in places])
    return values[places]


def neutral(column: Column, count: int) -> NDArray[Any]:
    """Fill a column with what says nothing: zeros, empty text and lists, ignored labels."""
    if column.opaque:
        return boxed([[] if column.dtype.startswith("list") else ""] * count)
    value = IGNORED if column.name == "labels" else 0
    return np.full(_shape(column, count), value, dtype=column.element)


def boxed(elements: Sequence[Any]) -> NDArray[Any]:
    """Put opaque elements (text, lists) into an object array, one a place."""
    box = np.empty(len(elements), dtype=object)
    for place, element in enumerate(elements):
        box[place] = element
    return box


def _shape(column: Column, count: int) -> tuple[int, ...]:
    return (count, column.width) if column.width > 1 else (count,)


def _appended(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
