"""Sizes from headers equal the sizes of decoded images, and files that were cut are found."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageFile, ImageOps, features

from packcli.contract.errors import Rejection
from packcli.encode.media.images import MAX_PIXELS, ImagePolicy, image_size
from packcli.encode.media.sources import Source

POLICY = ImagePolicy()
SIZE = (48, 30)


def picture(mode="RGB", size=SIZE):
    noise = np.random.default_rng(7).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    return Image.fromarray(noise, "RGBA").convert(mode)


def save(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def exif_of(orientation, thumbnail=b""):
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = exif.tobytes()
    if not thumbnail:
        return raw
    # a second directory behind the first: JPEG, where it lies, how long it is
    order = "<" if raw[6:8] == b"II" else ">"
    start = len(raw) - 6
    entries = [(0x103, 3, 6), (0x201, 4, start + 42), (0x202, 4, len(thumbnail))]
    shift = {3: 16 if order == ">" else 0, 4: 0}
    second = struct.pack(f"{order}H", len(entries)) + b"".join(
        struct.pack(f"{order}HHII", tag, kind, 1, value << shift[kind])
        for tag, kind, value in entries
    )
    first = raw[:28] + struct.pack(f"{order}I", start) + raw[32:]
    return first + second + struct.pack(f"{order}I", 0) + thumbnail


def header(data, policy=POLICY):
    size = image_size(Source("x", None, data, len(data)), policy)
    return size.width, size.height


def code(data, policy=POLICY):
    with pytest.raises(Rejection) as caught:
        header(data, policy)
    assert "\n" not in caught.value.message
    return caught.value.code


def decoded(data):
    """What transformers' loader gives: the oracle."""
    with Image.open(io.BytesIO(data)) as image:
        return ImageOps.exif_transpose(image).convert("RGB").size


AVIF = pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")
FILES = {
    "png": ("PNG", "RGB", {}),
    "png_alpha": ("PNG", "RGBA", {}),
    "png_palette": ("PNG", "P", {}),
    "png_16_bit": ("PNG", "I;16", {}),
    "png_1_bit": ("PNG", "1", {}),
    "jpeg": ("JPEG", "RGB", {}),
    "jpeg_progressive": ("JPEG", "RGB", {"progressive": True}),
    "jpeg_cmyk": ("JPEG", "CMYK", {}),
    "jpeg_grey": ("JPEG", "L", {}),
    "jpeg_restarts": ("JPEG", "RGB", {"restart_marker_blocks": 1}),
    "gif": ("GIF", "P", {}),
    "webp": ("WEBP", "RGB", {}),
    "webp_lossless": ("WEBP", "RGBA", {"lossless": True}),
    "bmp": ("BMP", "RGB", {}),
    "bmp_palette": ("BMP", "P", {}),
    "tiff": ("TIFF", "RGB", {}),
    "tiff_lzw": ("TIFF", "RGB", {"compression": "tiff_lzw"}),
    "avif": ("AVIF", "RGB", {}),
}
KNOWN = [pytest.param(name, marks=AVIF if name == "avif" else ()) for name in FILES]
TURNED = ["JPEG", "PNG", "WEBP", "TIFF", pytest.param("AVIF", marks=AVIF)]


def made(name):
    kind, mode, options = FILES[name]
    if mode == "I;16":
        return save(Image.fromarray(np.arange(1440, dtype=np.uint16).reshape(30, 48)), kind)
    return save(picture(mode), kind, **options)


@pytest.fixture
def no_pixels(monkeypatch):
    """Decoding raises."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("pixels were decoded")

    monkeypatch.setattr(Image.Image, "load", refuse)
    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", refuse)


@pytest.mark.parametrize("name", KNOWN)
def test_size_of_every_kind_without_a_pixel(name, request):
    data = made(name)
    request.getfixturevalue("no_pixels")
    assert header(data) == SIZE


@pytest.mark.filterwarnings("ignore:Palette images")
@pytest.mark.parametrize("name", KNOWN)
def test_size_equals_the_decoded(name):
    data = made(name)
    assert header(data) == decoded(data)
    assert header(data, ImagePolicy(decode=True)) == decoded(data)


@pytest.mark.parametrize("kind", TURNED)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_turns_as_the_loader_turns(kind, orientation):
    data = save(picture(), kind, exif=exif_of(orientation))
    assert header(data) == decoded(data)
    assert header(data) == (SIZE if orientation < 5 else SIZE[::-1])
    if kind in {"JPEG", "PNG", "WEBP"}:
        assert header(data, ImagePolicy(exif="ignore")) == SIZE


@pytest.mark.parametrize("kind", TURNED)
def test_orientation_is_read_without_a_pixel(kind, request):
    data = save(picture(), kind, exif=exif_of(6))
    request.getfixturevalue("no_pixels")
    assert header(data) == SIZE[::-1]


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_orientations_that_are_none_turn_nothing(value):
    data = save(picture(), "JPEG", exif=exif_of(value))
    assert header(data) == decoded(data) == SIZE


@pytest.mark.filterwarnings("ignore:Metadata Warning")
def test_orientation_of_two_values_is_none():
    exif = Image.Exif()
    exif[0x0112] = 6
    raw = exif.tobytes()
    order = "<" if raw[6:8] == b"II" else ">"
    twice = raw.replace(
        struct.pack(f"{order}HHI", 0x112, 3, 1), struct.pack(f"{order}HHI", 0x112, 3, 2)
    )
    assert twice != raw
    data = save(picture(), "JPEG", exif=twice)
    assert header(data) == decoded(data)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


XMP = b'XML:com.adobe.xmp\0\0\0\0\0<x:xmpmeta tiff:Orientation="8"/>'
PROFILE = b"Raw profile type exif\0\nexif\n      %d\n%s\n"


def profile(orientation):
    raw = exif_of(orientation)
    return PROFILE % (len(raw), raw.hex().encode())


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "extra",
    [chunk(b"eXIf", exif_of(6)[6:]), chunk(b"iTXt", XMP), chunk(b"tEXt", profile(5))],
    ids=["exif", "xmp", "profile"],
)
@pytest.mark.parametrize("size", [SIZE, (300, 200)])
def test_orientation_before_or_behind_the_pixels_of_a_png(extra, late, size, monkeypatch):
    data = save(picture(size=size), "PNG")
    place = data.index(b"IEND" if late else b"IDAT") - 4
    data = data[:place] + extra + data[place:]
    expected = decoded(data)
    assert expected == size[::-1]
    monkeypatch.setattr(ImageFile.ImageFile, "load", None)
    assert header(data) == expected


def test_a_late_orientation_wins_over_an_early_one():
    data = save(picture(), "PNG", exif=exif_of(6))
    place = data.index(b"IEND") - 4
    data = data[:place] + chunk(b"eXIf", exif_of(1)[6:]) + data[place:]
    assert header(data) == decoded(data) == SIZE


def test_pixels_that_spell_a_chunk_are_no_chunk():
    data = save(picture(), "PNG")
    place = data.index(b"IEND") - 4
    junk = chunk(b"juNk", b"\0\0\0\x0eeXIf" + exif_of(6)[6:])
    data = data[:place] + junk + data[place:]
    assert header(data) == decoded(data) == SIZE


def test_orientation_in_xmp_of_a_webp():
    data = save(picture(), "WEBP", xmp=b'<x tiff:Orientation="6"/>')
    assert header(data) == decoded(data) == SIZE[::-1]


CUTTABLE = [name for name in FILES if not (name == "avif" and not features.check("avif"))]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CUTTABLE), st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_anywhere_is_found(name, share):
    data = made(name)
    kept = int(share * len(data))
    assume(kept)
    assert code(data[:kept]) == "media_undecodable"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("lost", [1, 12, 1000, 70_000, 200_000])
def test_a_large_file_that_was_cut_is_found(kind, lost):
    image = picture(size=(640, 480)).convert("P" if kind == "GIF" else "RGB")
    data = save(image, kind, **({"quality": 95} if kind == "JPEG" else {}))
    assert len(data) > 210_000
    assert header(data) == (640, 480)
    assert code(data[:-lost]) == "media_undecodable"


def test_a_thumbnails_end_is_not_the_pictures():
    small = save(picture(size=(16, 10)), "JPEG")
    data = save(picture(size=(320, 200)), "JPEG", exif=exif_of(6, small), quality=95)
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif().get_ifd(ExifTags.IFD.IFD1)[0x202] == len(small)
    assert small in data
    assert header(data) == decoded(data) == (200, 320)
    for kept in range(len(small), len(data), 997):
        assert code(data[:kept]) == "media_undecodable"
    for lost in range(1, 40):
        assert code(data[:-lost]) == "media_undecodable"


@pytest.mark.parametrize(
    "junk", [b"\0", b"\n", b"\r\n", b"x" * 100, b"\0" * 70_000, b"PK" * 50_000]
)
@pytest.mark.parametrize(
    "name", ["jpeg", "jpeg_progressive", "png", "gif", "webp", "bmp", "tiff", "avif"]
)
def test_junk_behind_the_end_does_no_harm(name, junk):
    if name not in CUTTABLE:
        pytest.skip("this Pillow writes no AVIF")
    data = made(name) + junk
    assert header(data) == decoded(data) == SIZE


def test_junk_and_fill_bytes_between_the_segments_of_a_jpeg():
    data = save(picture(), "JPEG")
    place = 4 + struct.unpack(">H", data[4:6])[0]
    for between in (b"\xff", b"\xff\xff\xff", b"\0\0", b"junk"):
        odd = data[:place] + between + data[place:]
        assert header(odd) == decoded(odd) == SIZE


def test_animation_counts_by_its_first_frame():
    frames = [picture("P"), picture("L").convert("P"), picture("P")]
    for kind in ("GIF", "WEBP", "PNG"):
        images = [frame.convert("RGB") for frame in frames] if kind != "GIF" else frames
        data = save(images[0], kind, save_all=True, append_images=images[1:])
        size = image_size(Source("x", None, data, len(data)), POLICY)
        assert (size.width, size.height, size.animated) == (*SIZE, True)
    data = save(frames[0], "GIF")
    assert not image_size(Source("x", None, data, len(data)), POLICY).animated


def test_previews_behind_a_photograph_are_no_animation():
    data = save(picture(), "MPO", save_all=True, append_images=[picture(size=(8, 8))])
    size = image_size(Source("x", None, data, len(data)), POLICY)
    assert (size.width, size.height, size.animated) == (*SIZE, False)


@pytest.mark.parametrize("size", [(20_000, 20_000), (100_000, 2_000), (2**31 - 1, 1)])
def test_a_bomb_is_found_by_its_header(size):
    body = struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", body) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    assert size[0] * size[1] > MAX_PIXELS
    assert code(data) == "media_too_large"


def test_the_limit_of_pixels_is_the_policys():
    data = save(picture(), "PNG")
    assert header(data, ImagePolicy(max_pixels=48 * 30)) == SIZE
    assert code(data, ImagePolicy(max_pixels=48 * 30 - 1)) == "media_too_large"
    assert code(data, ImagePolicy(max_pixels=48 * 30 - 1, decode=True)) == "media_too_large"


@pytest.mark.parametrize("data", [b"x", b"hello, world", b"\0" * 4096, b"GIF89a", b"\xff\xd8\xff"])
def test_what_is_no_image_is_undecodable(data):
    assert code(data) == "media_undecodable"


def test_decoding_finds_what_headers_cannot():
    data = bytearray(save(picture(), "PNG"))
    data[data.index(b"IDAT") + 20] ^= 0xFF
    assert header(bytes(data)) == SIZE
    assert code(bytes(data), ImagePolicy(decode=True)) == "media_undecodable"


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(CUTTABLE), st.integers(0, 2**32))
def test_damaged_bytes_give_a_size_or_a_rejection(name, seed):
    """Whatever the loader still decodes has the size that we say."""
    chance = random.Random(seed)
    data = bytearray(made(name))
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(min(len(data), 200)) if chance.random() < 0.7 else -1
        data[place] = chance.randrange(256)
    try:
        found = header(bytes(data))
    except Rejection:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = decoded(bytes(data))
        except Exception:  # noqa: BLE001 - what the loader raises is not the question
            return
    assert found == expected


def test_a_mode_that_cannot_become_rgb(monkeypatch):
    """Pillow's own formats all can; one that somebody registered need not."""

    class Odd(ImageFile.ImageFile):
        format = "ODD"

        def _open(self):
            self._size, self._mode = (4, 4), "La"

    monkeypatch.setitem(Image.OPEN, "ODD", (Odd, lambda prefix: prefix.startswith(b"ODD!")))
    monkeypatch.setattr(Image, "ID", [*Image.ID, "ODD"])
    with pytest.raises(Rejection, match="mode La cannot become RGB") as caught:
        image_size(Source("a.odd", None, b"ODD!", 4), ImagePolicy())
    assert caught.value.code == "image_mode_unsupported"
