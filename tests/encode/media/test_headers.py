import io
import random

import pytest
from PIL import Image

from packcli.contract.errors import Rejection
from packcli.encode.media import images
from packcli.encode.media.headers import plain_size
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.sources import Source

POLICY = ImagePolicy()
MODES = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"),
    "WEBP": ("RGB", "RGBA"),
}
FILES = [(kind, mode) for kind, modes in MODES.items() for mode in modes]


def saved(kind, mode="RGB", size=(61, 47), **options):
    out = io.BytesIO()
    picture = Image.radial_gradient("L").resize(size)
    (Image.new(mode, size) if mode == "I;16" else picture.convert(mode)).save(out, kind, **options)
    return out.getvalue()


def by_pillow(data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(images, "plain_size", lambda _stream: None)
        try:
            size = image_size(Source("x", None, data, len(data)), POLICY)
        except Rejection as rejection:
            return rejection.code
    return None if size.animated else (size.height, size.width)


@pytest.mark.parametrize(("kind", "mode"), FILES)
def test_common_files_are_read_without_pillow(kind, mode):
    size = plain_size(io.BytesIO(saved(kind, mode)))
    assert size == (None if mode == "CMYK" else (47, 61))


@pytest.mark.parametrize("quality", [{"lossless": True}, {"quality": 30}])
def test_both_kinds_of_webp(quality):
    assert plain_size(io.BytesIO(saved("WEBP", size=(700, 3), **quality))) == (3, 700)


def test_a_progressive_jpeg_with_a_comment():
    data = saved("JPEG", progressive=True, comment=b"hello", dpi=(72, 72))
    assert plain_size(io.BytesIO(data)) == (47, 61)


@pytest.mark.parametrize("kind", MODES)
def test_a_file_on_disk_reads_like_bytes(kind, tmp_path):
    (tmp_path / "x").write_bytes(saved(kind, size=(300, 200)))
    with (tmp_path / "x").open("rb") as stream:
        assert plain_size(stream) == (200, 300)


@pytest.mark.parametrize("kind", MODES)
def test_a_picture_that_has_orientation_is_left_to_pillow(kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert plain_size(io.BytesIO(saved(kind, exif=exif.tobytes()))) is None


@pytest.mark.parametrize(("kind", "mode"), FILES)
def test_damaged_files_never_get_a_size_that_pillow_denies(kind, mode, monkeypatch):
    whole = saved(kind, mode)
    draw = random.Random(f"{kind}{mode}")
    sure = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 4))):
            place = min(len(data) - 1, int(draw.expovariate(1 / 60)))
            data[place] = draw.choice((0, 1, 0xFF, data[place] ^ 1 << draw.randrange(8)))
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        size = plain_size(io.BytesIO(bytes(data)))
        if size is not None:
            sure += 1
            assert by_pillow(bytes(data), monkeypatch) == size, bytes(data[:64])
    if plain_size(io.BytesIO(whole)) is not None:
        assert sure > 0
