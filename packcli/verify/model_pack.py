"""A pack as the model level runs it: what the collator takes, cut at independent boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.contract.rows import Rows
    from packcli.verify.bounds import PackBounds

_KINDS = ("image", "video")


@dataclass(frozen=True, slots=True, eq=False)
class ModelPack:
    """A pack or a sample; one of `packcli.batch`'s `PackLike`.

    Attributes:
        input_ids: (T,) int32, token ids.
        labels: (T,) int32; all -100, as the model level looks at logits.
        samples: B segments over T tokens, as stored.
        mrope_position_ids: (3, T) int32; None in families without mRoPE.
        image_grid_thw: (n, 3) int32, patches.
        video_grid_thw: (m, 3) int32, patches.
    """

    input_ids: NDArray[np.integer]
    labels: NDArray[np.integer]
    samples: Offsets
    mrope_position_ids: NDArray[np.integer] | None
    image_grid_thw: NDArray[np.integer]
    video_grid_thw: NDArray[np.integer]

    def cut(self, tokens: slice, media: dict[str, slice]) -> ModelPack:
        """Take one sample by its tokens and grids, as a pack of one."""
        planes = self.mrope_position_ids
        return ModelPack(
            self.input_ids[tokens],
            self.labels[tokens],
            Offsets.from_lengths([tokens.stop - tokens.start]),
            None if planes is None else planes[:, tokens],
            self.image_grid_thw[media["image"]],
            self.video_grid_thw[media["video"]],
        )


def read_pack(rows: Rows, row: int, bounds: PackBounds) -> ModelPack | None:
    """Read one row for a model.

    Returns:
        None when the stored boundaries are none that a collator accepts, or a column that the
        model needs is not there.
    """
    ids = _cell(rows, "input_ids", row)
    stored = bounds.cu_seqlens.astype(np.int64)
    sound = len(stored) > 1 and stored[0] == 0 and stored[-1] == ids.size
    if not sound or (np.diff(stored) <= 0).any():
        return None
    planes: NDArray[Any] | None = None
    if rows.facts.has_mrope:
        if "mrope_position_ids" not in rows.cells:
            return None
        planes = _cell(rows, "mrope_position_ids", row).reshape(3, -1)
        if planes.shape[1] != ids.size:
            return None
    return ModelPack(
        ids,
        np.full(ids.size, -100, dtype=np.int32),
        Offsets.from_values(stored),
        planes,
        _cell(rows, "image_grid_thw", row).reshape(-1, 3),
        _cell(rows, "video_grid_thw", row).reshape(-1, 3),
    )


def _cell(rows: Rows, name: str, row: int) -> NDArray[Any]:
    cells = rows.cells.get(name)
    if cells is None or cells.rows is None:
        return np.zeros(0, dtype=np.int32)
    lists = cells.rows[row : row + 2]
    first, last = lists if cells.inner is None else cells.inner[lists]
    return cells.values[first:last]


def grid_places(pack: ModelPack, expected: Offsets, facts: ModelFacts) -> dict[str, Offsets] | None:
    """Tell how many grids of each kind every sample holds, by the slots that it holds.

    Args:
        pack: T tokens.
        expected: B segments over T tokens.
        facts: the model.

    Returns:
        By kind B segments; None where slots and grids do not add up sample by sample.
    """
    places: dict[str, Offsets] = {}
    for kind in _KINDS:
        token = getattr(facts, f"{kind}_token_id")
        grids: NDArray[np.integer] = getattr(pack, f"{kind}_grid_thw")
        slots = np.zeros(0, np.int64)
        if token is not None:
            slots = np.flatnonzero(pack.input_ids == token)
        held = np.add.reduceat(pack.input_ids == (-1 if token is None else token), expected.starts)
        filled = np.cumsum(np.concatenate([[0], facts.slots(grids)]))
        ends = np.searchsorted(filled, np.cumsum(held))
        if filled[-1] != slots.size or not np.array_equal(filled[ends], np.cumsum(held)):
            return None
        places[kind] = Offsets.from_values(np.concatenate([[0], ends]))
    return places


def window(expected: Offsets, most: int, around: int | None) -> tuple[int, int] | None:
    """Choose neighbouring samples that fit into a number of tokens.

    Args:
        expected: B segments, tokens.
        most: tokens, at most.
        around: a sample that must be among them; None for the first that fit.

    Returns:
        First and one past the last sample; None where no two neighbours fit.
    """
    lengths = expected.lengths
    if len(lengths) < 2:  # noqa: PLR2004 - a sample alone has no neighbour to see
        return (0, 1) if lengths.sum() <= most else None
    pairs = lengths[1:] + lengths[:-1]
    first = int(pairs.argmin()) if around is None or around == 0 else around - 1
    if around is None and pairs[0] <= most:
        first = 0
    if around == 0:
        first = 0
    if pairs[first] > most:
        return None
    last = first + 2
    while last < len(lengths) and lengths[first : last + 1].sum() <= most:
        last += 1
    return first, last
