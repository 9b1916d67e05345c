"""Boundaries of one row, stated twice: as a kernel gets them, and from somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from packcli.contract.offsets import Offsets
from packcli.contract.vit import window_sizes
from packcli.verify.bounds import WINDOWS, PackBounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.rows import Rows

COLUMNS = (
    "input_ids",
    "position_ids",
    "seq_lengths",
    "cu_seqlens",
    "max_seqlen",
    "image_grid_thw",
    "vit_cu_seqlens",
    "sample_ids",
    "sample_sources",
)
"""What is read to tell them."""

_MOST_SIDE = 1 << 20  # three of them make no number that int64 cannot hold


def pack_bounds(rows: Rows, row: int) -> PackBounds | None:
    """State the boundaries of one pack twice: as a kernel gets them, and independently.

    Returns:
        None when the row does not tell its boundaries twice.
    """
    positions, cu = _cell(rows, "position_ids", row), _cell(rows, "cu_seqlens", row)
    lengths, ids = _cell(rows, "seq_lengths", row), _cell(rows, "sample_ids", row)
    total = int(rows.tokens[row])
    if lengths is not None and not (_sums_to(lengths, total) and (lengths > 0).all()):
        lengths = None
    if cu is None and lengths is not None and positions is not None:
        cu = Offsets.from_lengths(lengths).values
    if cu is None or not total:
        return None
    if positions is not None and len(positions) == total and positions[0] == 0:
        starts = np.flatnonzero(positions == 0)
        expected = Offsets.from_values(np.append(starts, total))
    elif lengths is not None:
        expected = Offsets.from_lengths(lengths)
    else:
        return None
    stored = _cell(rows, "max_seqlen", row)
    longest = int(np.diff(cu.astype(np.int64)).max()) if len(cu) > 1 else 0
    most = longest if stored is None or len(stored) != 1 else int(stored[0])
    return PackBounds(cu, most, expected, _names(ids, len(expected)))


def window_bounds(rows: Rows, row: int) -> PackBounds | None:
    """State the windows of the vision tower over one pack: as stored, and as its grids make them.

    Towers whose boundaries no column holds (Qwen2-VL's and its kin's) have none to state: the
    model cuts them from the grids itself, and what a kernel made of them could only be compared
    with the same grids. There `slot.count` and `slot.grid_order` hold the grids to the tokens.

    Returns:
        None when the row tells no windows twice, or has none.
    """
    reading, stored = rows.facts.vit_windows, _cell(rows, "vit_cu_seqlens", row)
    images = _images(rows, row)
    if reading is None or stored is None or images is None or not len(images.grids):
        return None
    expected = Offsets.from_lengths(window_sizes(images.grids, reading)[1])
    most = int(np.diff(stored.astype(np.int64)).max()) if len(stored) > 1 else 0
    return PackBounds(stored, most, expected, words=WINDOWS)


def window_sample(rows: Rows, row: int, window: int, samples: Offsets) -> int | None:
    """Return the sample whose image holds a window; None where the row has no windows.

    Args:
        rows: a batch of rows.
        row: the pack in it.
        window: counted over the pack.
        samples: B segments over the tokens of the pack.
    """
    reading, images = rows.facts.vit_windows, _images(rows, row)
    if reading is None or images is None:
        return None
    counts, _ = window_sizes(images.grids, reading)
    image = int(np.searchsorted(np.cumsum(counts), window, side="right"))
    first = images.slots[int(rows.facts.slots(images.grids[:image]).sum())]
    return int(np.searchsorted(samples.ends, first, side="right"))


class _Images(NamedTuple):
    """Grids of one row, (n, 3) patches, and its image slots, (m,) tokens."""

    grids: NDArray[np.int64]
    slots: NDArray[np.int64]


def _images(rows: Rows, row: int) -> _Images | None:
    """Return grids and slots of one row; None where they do not add up to each other.

    What is stored may be as large as its type: slots bound the patches that a kernel is run on.
    """
    cells, ids = rows.cells.get("image_grid_thw"), _cell(rows, "input_ids", row)
    if cells is None or cells.rows is None or cells.inner is None or ids is None:
        return None
    inner = cells.inner[cells.rows[row] : cells.rows[row + 1] + 1]
    triples = cells.values.dtype.kind in "iu" and bool((np.diff(inner) == 3).all())  # noqa: PLR2004 - t, h, w
    grids = cells.values[inner[0] : inner[-1]]
    if not triples or np.any(grids < 1) or np.any(grids > _MOST_SIDE):
        return None
    grids, slots = grids.astype(np.int64).reshape(-1, 3), np.flatnonzero(_slot(ids, rows))
    patches = slots.size * rows.facts.merge_size**2
    return _Images(grids, slots) if int(grids.prod(axis=1).sum()) == patches else None


def _slot(ids: NDArray[Any], rows: Rows) -> NDArray[np.bool_]:
    return ids == (-1 if rows.facts.image_token_id is None else rows.facts.image_token_id)


def _sums_to(lengths: NDArray[np.integer], total: int) -> bool:
    """Add up without wrapping: what is stored may be as large as its type."""
    return len(lengths) <= total and sum(lengths.tolist()) == total


def _names(ids: NDArray[Any] | None, count: int) -> tuple[str, ...] | None:
    return None if ids is None or len(ids) != count else tuple(map(str, ids.tolist()))


def _cell(rows: Rows, name: str, row: int) -> NDArray[Any] | None:
    """Return one cell; None when the column is missing or holds nothing of its kind."""
    cells = rows.cells.get(name)
    if cells is None or cells.inner is not None:
        return None
    if name != "sample_ids" and cells.values.dtype.kind not in "iu":
        return None
    if cells.rows is None:
        return cells.values[row : row + 1]
    return cells.values[cells.rows[row] : cells.rows[row + 1]]
