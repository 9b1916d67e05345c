"""Neighbouring samples of one pack, cut out and ready to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.offsets import Offsets
from packcli.verify.model_pack import ModelPack, window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packcli.verify.bounds import PackBounds
    from packcli.verify.sampling import Chosen


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What is run of one pack.

    Attributes:
        pack: as stored, cut to the samples.
        parts: each sample by itself, cut where a source other than `cu_seqlens` says.
        expected: B segments over the cut's tokens.
        bounds: of the whole pack, to name samples.
        chosen: where the pack lies.
        first: number of the first sample in the whole pack.
    """

    pack: ModelPack
    parts: list[ModelPack]
    expected: Offsets
    bounds: PackBounds
    chosen: Chosen
    first: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a pack is run.

    Attributes:
        tokens: at most.
        around: a sample that must be among those that are run; None for any.
    """

    tokens: int
    around: int | None = None


def cut_case(
    pack: ModelPack,
    chosen: Chosen,
    bounds: PackBounds,
    grids: Mapping[str, Offsets],
    limits: Limits,
) -> Case | None:
    """Cut neighbouring samples out of a pack.

    Args:
        pack: T tokens, with the stored boundaries.
        chosen: where it lies.
        bounds: of the whole pack.
        grids: by kind of media, B segments over its grids.
        limits: how much to take.

    Returns:
        None where no two neighbours are short enough.
    """
    fits = window(bounds.expected, limits.tokens, limits.around)
    if fits is None:
        return None
    taken = np.arange(*fits)
    tokens = bounds.expected
    parts = [
        pack.cut(
            slice(int(tokens.starts[sample]), int(tokens.ends[sample])),
            {
                kind: slice(int(held.starts[sample]), int(held.ends[sample]))
                for kind, held in grids.items()
            },
        )
        for sample in taken
    ]
    whole = slice(int(tokens.starts[fits[0]]), int(tokens.ends[fits[1] - 1]))
    media = {
        kind: slice(int(held.starts[fits[0]]), int(held.ends[fits[1] - 1]))
        for kind, held in grids.items()
    }
    cut = replace(pack.cut(whole, media), samples=_inside(pack.samples, whole))
    return Case(cut, parts, tokens.take(taken), bounds, chosen, fits[0])


def _inside(stored: Offsets, tokens: slice) -> Offsets:
    """Keep the stored boundaries that lie inside a cut."""
    values = stored.values
    inner = values[(values > tokens.start) & (values < tokens.stop)] - tokens.start
    return Offsets.from_values([0, *inner.tolist(), tokens.stop - tokens.start])
