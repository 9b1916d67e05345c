"""A set of generated images of every kind: each grid is the one that the processor makes."""

from __future__ import annotations

import random
from math import prod

import pytest
from PIL import Image, ImageOps

from packcli.contract.errors import Rejection
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.sources import Source
from tests.encode.running import family, image_processor

FORMATS = {
    "jpg": ("RGB", "L", "CMYK"),
    "png": ("RGB", "RGBA", "P", "LA", "I;16", "1"),
    "webp": ("RGB", "RGBA"),
    "gif": ("P", "L"),
    "bmp": ("RGB", "L"),
    "tif": ("RGB", "L", "CMYK"),
}
ORIENTATION, TALLEST_RATIO = 0x0112, 200


def drawn(number, folder):
    """Write one image, from a dot to two megapixels, some of them turned or elongated."""
    chance = random.Random(number)
    kind = chance.choice([*FORMATS])
    pixels, ratio = 10 ** chance.uniform(0, 6.3), 2 ** chance.uniform(-8.5, 8.5)
    ratio = ratio if chance.random() < 0.2 else ratio ** (1 / 8)
    width = max(1, round((pixels * ratio) ** 0.5))
    height = max(1, round((pixels / ratio) ** 0.5))
    image = Image.new(chance.choice(FORMATS[kind]), (width, height))
    exif = Image.Exif()
    if kind in {"jpg", "png", "webp", "tif"} and chance.random() < 0.4:
        exif[ORIENTATION] = chance.randint(1, 8)
    path = folder / f"{number}.{kind}"
    image.save(path, **({"exif": exif} if len(exif) else {}))
    return path


def compared(number, folder):
    """Compare one image with Pillow and the processors; tell whether its shape is taken."""
    path = drawn(number, folder)
    source = Source(path.name, str(path), None, path.stat().st_size)
    size = image_size(source, ImagePolicy())
    # from a stream: Pillow maps some TIFF files whose path it knows before it turns them, and so
    # garbles them
    with path.open("rb") as stream, Image.open(stream) as image:
        upright = ImageOps.exif_transpose(image)
    assert (size.width, size.height) == upright.size, path.name
    if max(upright.size) > TALLEST_RATIO * min(upright.size):
        with pytest.raises(Rejection) as caught:
            family("qwen2_vl").image_plan(size.height, size.width)
        assert caught.value.code == "aspect_ratio"
        return False
    for model in ("qwen2_vl", "qwen3_vl"):
        grid = family(model).image_plan(size.height, size.width).grid
        count = image_processor(model).get_number_of_image_patches(size.height, size.width, {})
        assert prod(grid) == count, (path.name, model)
        if number % 10 == 0:
            made = image_processor(model)(images=[upright.convert("RGB")], return_tensors="np")
            assert [[*grid]] == made["image_grid_thw"].tolist(), (path.name, model)
    return True


def test_grids_of_a_hundred_images(tmp_path):
    assert sum(compared(number, tmp_path) for number in range(100)) > 80


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_grids_of_a_thousand_images(first, tmp_path):
    assert sum(compared(number, tmp_path) for number in range(first, first + 100)) > 80
