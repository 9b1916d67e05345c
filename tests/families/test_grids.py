from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.families.family import PixelLimits

NAMES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
SIDES = st.one_of(st.integers(1, 64), st.integers(1, 9000))
LIMITS = st.one_of(st.none(), st.integers(1, 20_000_000))


def upstream_grid(processor, height, width, limits):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    low = limits.min_pixels or processor.size["shortest_edge"]
    high = limits.max_pixels or processor.size["longest_edge"]
    patch = processor.patch_size
    factor = patch * processor.merge_size
    rows, columns = smart_resize(height, width, factor, min_pixels=low, max_pixels=high)
    return 1, rows // patch, columns // patch


@pytest.mark.parametrize("name", NAMES)
def test_every_size_gets_the_processors_grid(name, family_of, image_processor_of):
    family, processor = family_of(name), image_processor_of(name)

    @settings(max_examples=200, deadline=None)
    @given(height=SIDES, width=SIDES, low=LIMITS, high=LIMITS)
    def check(height, width, low, high):
        limits = PixelLimits(low, high)
        try:
            expected = upstream_grid(processor, height, width, limits)
        except ValueError:
            with pytest.raises(Rejection) as caught:
                family.image_plan(height, width, limits)
            assert caught.value.code == "aspect_ratio"
            return
        grid = family.image_plan(height, width, limits).grid
        assert grid == expected
        given_limits = {"min_pixels": low, "max_pixels": high}
        kwargs = {key: value for key, value in given_limits.items() if value is not None}
        patches = processor.get_number_of_image_patches(height, width, kwargs)
        assert np.prod(grid) == patches

    check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 199), (1, 200), (200, 1), (20, 30), (30, 20), (57, 83), (100, 8000)]
)
def test_whole_processor_agrees_on_extreme_images(name, size, family_of, image_processor_of):
    image = np.zeros((*size, 3), dtype=np.uint8)
    grid = image_processor_of(name)(image, input_data_format="channels_last")["image_grid_thw"][0]
    assert family_of(name).image_plan(*size).grid == tuple(grid)


@pytest.mark.parametrize(
    ("name", "size", "limits", "grid"),
    [
        ("qwen2_5_vl", (480, 640), {}, (1, 34, 46)),
        ("qwen2_5_vl", (3000, 4000), {}, (1, 214, 286)),
        ("qwen2_5_vl", (3000, 4000), {"max_pixels": 1003520}, (1, 60, 82)),
        ("qwen3_vl", (480, 640), {}, (1, 30, 40)),
        ("qwen3_vl", (3000, 4000), {"max_pixels": 1003520}, (1, 54, 72)),
        ("qwen3_5", (30, 20), {}, (1, 20, 14)),
        ("qwen2_vl", (639, 31), {"max_pixels": 15680, "min_pixels": 3136}, (1, 40, 2)),
    ],
)
def test_known_grids(name, size, limits, grid, family_of):
    assert family_of(name).image_plan(*size, PixelLimits(**limits)).grid == grid


def test_elongated_image_is_rejected_with_its_ratio(family_of):
    with pytest.raises(Rejection, match=r"4096x18 has aspect ratio 227\.56") as caught:
        family_of("qwen3_vl").image_plan(18, 4096)
    assert caught.value.code == "aspect_ratio"


def test_image_without_pixels_is_rejected(family_of):
    with pytest.raises(Rejection) as caught:
        family_of("qwen3_vl").image_plan(0, 10)
    assert caught.value.code == "media_empty"


def test_limit_of_zero_is_rejected(family_of):
    with pytest.raises(Rejection, match="min_pixels must be at least 1, found 0"):
        family_of("qwen2_vl").image_plan(10, 10, PixelLimits(min_pixels=0))
