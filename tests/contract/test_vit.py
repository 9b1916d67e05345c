from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.model import VitWindows
from packcli.contract.vit import block_order, patch_positions, vit_cu_seqlens

SIDES = st.integers(1, 5)


def test_positions_of_two_images_in_blocks_of_two():
    found = patch_positions([[1, 4, 4], [1, 2, 4]], 2)
    assert found.dtype == np.int64
    assert found.shape == (24, 3)
    assert found[:9].tolist() == [
        [0, 0, 0],
        [0, 0, 1],
        [0, 1, 0],
        [0, 1, 1],
        [0, 0, 2],
        [0, 0, 3],
        [0, 1, 2],
        [0, 1, 3],
        [0, 2, 0],
    ]
    # the second image is at time 0 too
    assert found[16:20].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]


def test_positions_in_blocks_of_three():
    rows_and_columns = [tuple(p) for p in patch_positions([[1, 3, 6]], 3)[:13, 1:].tolist()]
    block = [(row, column) for row in range(3) for column in range(3)]
    assert rows_and_columns == [*block, (0, 3), (0, 4), (0, 5), (1, 3)]


def test_frames_have_times_of_their_own():
    found = patch_positions([[2, 2, 2], [1, 2, 2]], 2, [(3, 8), None])
    assert found[:, 0].tolist() == [3, 3, 3, 3, 8, 8, 8, 8, 0, 0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(frames=SIDES, rows=SIDES, columns=SIDES, side=st.sampled_from([1, 2, 3]))
def test_order_is_a_permutation_block_by_block(frames, rows, columns, side):
    grid = (frames, rows * side, columns * side)
    order = block_order(grid, side)
    assert sorted(order.tolist()) == list(range(frames * rows * columns * side**2))
    blocks = patch_positions([grid], side)[:, 1:].reshape(-1, side * side, 2)
    assert (np.ptp(blocks // side, axis=1) == 0).all()


@pytest.mark.parametrize(("patch", "merge"), [(14, 2), (16, 3), (14, 3)])
def test_order_is_the_image_processors(patch, merge):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    rows, columns = merge * 3, merge * 4
    real = Qwen2VLImageProcessorPil(
        patch_size=patch,
        merge_size=merge,
        temporal_patch_size=1,
        do_resize=False,
        do_rescale=False,
        do_normalize=False,
    )
    place = np.indices((rows, columns)).repeat(patch, axis=1).repeat(patch, axis=2)
    image = np.concatenate([place, np.zeros_like(place[:1])]).astype(np.uint8)
    done = real(image, input_data_format="channels_first")
    assert done["image_grid_thw"].tolist() == [[1, rows, columns]]
    shown = np.asarray(done["pixel_values"]).reshape(-1, 3, patch, patch)[:, :2, 0, 0]
    assert shown.tolist() == patch_positions([[1, rows, columns]], merge)[:, 1:].tolist()


def test_grid_that_is_not_in_blocks_is_refused():
    with pytest.raises(ValueError, match="whole blocks"):
        patch_positions([[1, 3, 4]], 2)
    with pytest.raises(ValueError, match="2 frames, 1 times"):
        patch_positions([[2, 2, 2]], 2, [(0,)])


@pytest.mark.parametrize(
    ("grids", "frames", "temporal"),
    [
        ([[6, 2, 4]], [0, 32, 48], [0, 8, 16, 24, 32, 40, 48]),
        ([[1, 2, 4]] * 6, [0, 8, 16, 24, 32, 40, 48], [0, 8, 16, 24, 32, 40, 48]),
        ([[4, 2, 2]], [0, 16], [0, 4, 8, 12, 16]),
        ([[5, 2, 2], [1, 4, 2]], [0, 16, 20, 28], [0, 4, 8, 12, 16, 20, 28]),
        ([], [0], [0]),
    ],
)
def test_windows(grids, frames, temporal):
    assert vit_cu_seqlens(grids).tolist() == frames
    assert vit_cu_seqlens(grids).dtype == np.int32
    assert vit_cu_seqlens(grids, VitWindows.TEMPORAL).tolist() == temporal


@settings(max_examples=60, deadline=None)
@given(
    grids=st.lists(st.tuples(st.integers(1, 13), SIDES, SIDES), max_size=6),
    reading=st.sampled_from(VitWindows),
)
def test_windows_cover_every_patch_once(grids, reading):
    found = vit_cu_seqlens(grids, reading)
    ends = np.cumsum([t * h * w for t, h, w in grids])
    assert found[0] == 0
    assert (np.diff(found) > 0).all()
    assert set(ends.tolist()) <= set(found.tolist())
