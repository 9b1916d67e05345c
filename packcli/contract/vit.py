"""What the vision tower of LLaVA-OneVision-2 is given besides pixels, computed from grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.model import VitWindows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from packcli.contract.model import Grid

FRAMES_A_WINDOW = 4
"""Its `frame_windows_size`."""


def block_order(grid: Grid, merge_size: int) -> NDArray[np.int64]:
    """Order in which an image processor lays patches out: merger block by merger block.

    Matches transformers' `Qwen2VLImageProcessor` with `temporal_patch_size` 1 (models/qwen2_vl).

    Args:
        grid: patches: t, h, w.
        merge_size: patches per side of a block.

    Returns:
        (t * h * w,) int64, row-major patch numbers.

    Raises:
        ValueError: height or width is no whole number of blocks.
    """
    frames, rows, columns = grid
    side = merge_size
    if rows % side or columns % side:
        raise ValueError(f"grid {grid} is not in whole blocks of {side} x {side} patches")
    numbers = np.arange(frames * rows * columns, dtype=np.int64)
    blocks = numbers.reshape(frames, rows // side, side, columns // side, side)
    return blocks.transpose(0, 1, 3, 2, 4).reshape(-1)


def patch_positions(
    grids: ArrayLike, merge_size: int, times: Sequence[Sequence[int] | None] | None = None
) -> NDArray[np.int64]:
    """Return where every patch stands, in the order of the pixels.

    Args:
        grids: (n, 3) patches.
        merge_size: patches per side of a block, 2 or 3.
        times: for each grid the temporal index of each of its frames; None for an image, whose
            patches are all at 0, whichever image of the sample it is.

    Returns:
        (N, 3) int64: temporal index, row and column of each patch.

    Raises:
        ValueError: a grid is not in whole blocks, or has other than one time for each frame.
    """
    rows: list[Grid] = [(int(t), int(h), int(w)) for t, h, w in np.asarray(grids).reshape(-1, 3)]
    each = [None] * len(rows) if times is None else times
    parts = [_positions(grid, merge_size, own) for grid, own in zip(rows, each, strict=True)]
    return np.concatenate(parts) if parts else np.zeros((0, 3), np.int64)


def _positions(grid: Grid, merge_size: int, times: Sequence[int] | None) -> NDArray[np.int64]:
    frames, rows, columns = grid
    if times is not None and len(times) != frames:
        raise ValueError(f"grid {grid} has {frames} frames, {len(times)} times were given")
    at = np.zeros(frames, np.int64) if times is None else np.asarray(times, np.int64)
    place = np.indices(grid, dtype=np.int64).reshape(3, rows * columns * frames)
    place[0] = at[place[0]]
    return place.T[block_order(grid, merge_size)]


def window_sizes(grids: ArrayLike, reading: VitWindows) -> tuple[NDArray[np.int64], ...]:
    """Cut grids into the windows inside which patches attend to each other.

    No window reaches from one grid into another. Frames of one grid have times of their own, so
    by `TEMPORAL` each frame is a window.

    Args:
        grids: (n, 3) patches; the frames of a video are one grid.
        reading: how many frames share a window.

    Returns:
        (n,) int64 windows of each grid, and (W,) int64 patches of each window.
    """
    rows = np.asarray(grids, dtype=np.int64).reshape(-1, 3)
    most = FRAMES_A_WINDOW if reading is VitWindows.FRAMES else 1
    counts = -(-rows[:, 0] // most)
    frames = np.full(int(counts.sum()), most, dtype=np.int64)
    frames[np.cumsum(counts) - 1] = rows[:, 0] - (counts - 1) * most
    return counts, frames * np.repeat(rows[:, 1] * rows[:, 2], counts)


def vit_cu_seqlens(grids: ArrayLike, reading: VitWindows = VitWindows.FRAMES) -> NDArray[np.int32]:
    """Return the boundaries of the windows of one sample or pack.

    Args:
        grids: (n, 3) patches; the frames of a video are one grid.
        reading: how many frames share a window.

    Returns:
        (W + 1,) int32, patches.
    """
    _, sizes = window_sizes(grids, reading)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
