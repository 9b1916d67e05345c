from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from packcli.contract.errors import InputError
from packcli.shards.media_files import MediaBytes
from packcli.train.images import open_image
from packcli.train.videos import read_frames


def stored(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return MediaBytes("made", None, stream.getvalue())


def test_alpha_is_laid_on_white_as_transformers_does():
    from transformers.image_transforms import convert_to_rgb

    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (5, 7, 4), dtype=np.uint8), "RGBA")
    found = open_image(stored(image))
    assert np.array_equal(np.asarray(found), np.asarray(convert_to_rgb(image)))
    clear = Image.new("LA", (2, 2), (0, 0))
    assert np.asarray(open_image(stored(clear))).tolist() == [[[255] * 3] * 2] * 2


def test_transparent_palette_is_laid_on_white():
    image = Image.new("P", (2, 1), 0)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    found = open_image(stored(image, transparency=0))
    assert np.asarray(found).tolist() == [[[255, 255, 255], [40, 50, 60]]]


def test_sixteen_bits_are_scaled():
    grey = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    found = np.asarray(open_image(stored(Image.fromarray(grey))))
    assert found[0, :, 0].tolist() == [0, 1, 128, 255]


def test_grey_of_32_bits_is_clipped_as_transformers_does(tmp_path):
    from transformers.image_utils import load_image

    path = tmp_path / "wide.tif"
    Image.fromarray(np.array([[0, 1, 128, 255, 256, 70000, -5]], dtype=np.int32)).save(path)
    with Image.open(path) as image:
        assert image.mode == "I"
    found = np.asarray(open_image(MediaBytes("wide.tif", path)))
    assert found[0, :, 0].tolist() == [0, 1, 128, 255, 255, 255, 0]
    assert np.array_equal(found, np.asarray(load_image(str(path))))


@pytest.mark.parametrize(("upright", "size"), [(True, (3, 8)), (False, (8, 3))])
def test_exif_turns_it(upright, size):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = open_image(stored(Image.new("RGB", (8, 3)), "JPEG", exif=exif), upright=upright)
    assert image.size == size
    assert image.mode == "RGB"


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    stream = io.BytesIO()
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    found = open_image(MediaBytes("made", None, stream.getvalue()))
    assert found.getpixel((0, 0)) == (255, 0, 0)


def test_no_image_is_named():
    with pytest.raises(InputError, match="made: cannot be decoded"):
        open_image(MediaBytes("made", None, b"not an image"))


def test_frames_are_those_of_the_file(sample_data):
    from transformers.video_utils import load_video

    path = sample_data / "media" / "ball.mp4"
    every, _ = load_video(str(path), backend="pyav")
    found = read_frames(MediaBytes("ball", path), (0, 5, 5, 23))
    assert np.array_equal(found, np.asarray(every)[[0, 5, 5, 23]])
    assert np.array_equal(
        read_frames(MediaBytes("ball", None, path.read_bytes()), (3,))[0], every[3]
    )


def test_frames_that_are_not_there(sample_data):
    with pytest.raises(InputError, match="frame 24 cannot be decoded"):
        read_frames(MediaBytes("ball", sample_data / "media" / "ball.mp4"), (0, 24))
    with pytest.raises(InputError, match="cannot be decoded"):
        read_frames(MediaBytes("made", None, b"not a video"), (0,))


def test_a_mapped_tiff_is_turned(tmp_path):
    # Pillow garbles this one when it is opened by its path
    pixels = np.arange(40 * 60, dtype=np.uint8).reshape(40, 60)
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "turned.tif"
    Image.fromarray(pixels).save(path, exif=exif)
    opened = np.asarray(open_image(MediaBytes("turned.tif", path)))
    assert np.array_equal(opened[..., 0], np.rot90(pixels, -1))
