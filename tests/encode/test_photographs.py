"""Grids of real photographs equal the number that transformers' image processor counts."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from packcli.contract.errors import Rejection
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.sources import Source
from packcli.families.family import PixelLimits
from tests.encode.running import family, image_processor

skimage = pytest.importorskip("skimage", reason="its wheel holds photographs")
KINDS = {".png", ".jpg", ".tif", ".gif"}
FOREIGN = {"multipage_rgb.tif"}
"""Pillow does not know its layout of pixels."""

DATA = Path(skimage.__file__).parent / "data"
PHOTOGRAPHS = sorted(
    path for path in DATA.iterdir() if path.suffix in KINDS and path.name not in FOREIGN
)


def read(path):
    return image_size(Source(path.name, str(path), None, path.stat().st_size), ImagePolicy())


def test_there_are_photographs():
    assert len(PHOTOGRAPHS) >= 20
    assert {path.suffix for path in PHOTOGRAPHS} >= {".png", ".jpg", ".gif"}


def test_what_pillow_does_not_know_is_rejected():
    for name in FOREIGN:
        with pytest.raises(Rejection) as caught:
            read(DATA / name)
        assert caught.value.code == "media_undecodable"


@pytest.mark.parametrize("path", PHOTOGRAPHS, ids=lambda path: path.name)
def test_size_equals_the_decoded(path):
    size = read(path)
    with Image.open(path) as image:
        assert (size.width, size.height) == ImageOps.exif_transpose(image).size
        assert size.animated == (getattr(image, "n_frames", 1) > 1)


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_patches_equal_the_processors(model):
    for path in PHOTOGRAPHS:
        size = read(path)
        for asked in ({}, {"max_pixels": 100_352}, {"min_pixels": 1_003_520}):
            grid = family(model).image_plan(size.height, size.width, PixelLimits(**asked)).grid
            count = image_processor(model).get_number_of_image_patches(
                size.height, size.width, asked
            )
            assert prod(grid) == count, (path.name, asked)


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_grids_equal_the_processors_on_pixels(model):
    for path in [path for path in PHOTOGRAPHS if path.stat().st_size < 200_000][:5]:
        size = read(path)
        with Image.open(path) as image:
            grid = image_processor(model)(images=[image.convert("RGB")], return_tensors="np")
        expected = grid["image_grid_thw"].tolist()
        assert [[*family(model).image_plan(size.height, size.width).grid]] == expected
