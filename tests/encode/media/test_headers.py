import io
import random
import struct

import pytest
from PIL import Image, PngImagePlugin, TiffImagePlugin, features

from packcli.contract.errors import Rejection
from packcli.encode.media import endings, images
from packcli.encode.media.headers import avif, gif, plain_size
from packcli.encode.media.headers.exif import OddExifError, sideways
from packcli.encode.media.headers.gif import TAIL, behind_blocks, ends_whole
from packcli.encode.media.headers.still import Still
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.sources import Source
from tests.encode.media.written import exif, plain

POLICY = ImagePolicy()
MODES = {
    "BMP": ("RGB", "L", "P", "RGBA"),
    "GIF": ("P", "L"),
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "RGBA", "L", "LA", "P", "1", "I;16"),
    "TIFF": ("RGB", "L", "CMYK"),
    "WEBP": ("RGB", "RGBA"),
}
AVIF = features.check("avif")
if AVIF:
    MODES["AVIF"] = ("RGB", "RGBA", "L")
LEFT = {("JPEG", "CMYK"), ("TIFF", "CMYK")}
FILES = [(kind, mode) for kind, modes in MODES.items() for mode in modes]
WITH_EXIF = ("JPEG", "PNG", "WEBP", *(["AVIF"] if AVIF else []))
MOVING = ("GIF", "PNG", "WEBP", *(["AVIF"] if AVIF else []))
NEEDS_AVIF = pytest.mark.skipif(not AVIF, reason="this Pillow writes no AVIF")


def saved(kind, mode="RGB", size=(61, 47), **options):
    out = io.BytesIO()
    picture = Image.radial_gradient("L").resize(size)
    (Image.new(mode, size) if mode == "I;16" else picture.convert(mode)).save(out, kind, **options)
    return out.getvalue()


def frames(kind, count=3):
    pictures = [Image.radial_gradient("L").rotate(30 * n).resize((61, 47)) for n in range(count)]
    out = io.BytesIO()
    pictures[0].save(out, kind, save_all=True, append_images=pictures[1:])
    return out.getvalue()


def by_pillow(data, monkeypatch):
    """What the slow way says: a size upright with its flag, or a code."""
    with monkeypatch.context() as patch:
        patch.setattr(images, "plain_size", lambda _stream: None)
        try:
            size = image_size(Source("x", None, data, len(data)), POLICY)
        except Rejection as rejection:
            return rejection.code
    return (size.height, size.width, size.animated)


def told(still):
    """The same of a header."""
    sides = (still.width, still.height) if still.sideways else (still.height, still.width)
    return (*sides, still.animated)


@pytest.mark.parametrize(("kind", "mode"), FILES)
def test_common_files_are_read_without_pillow(kind, mode, monkeypatch):
    data = saved(kind, mode)
    assert plain(data) == (None if (kind, mode) in LEFT else Still(47, 61))
    assert by_pillow(data, monkeypatch) == (47, 61, False)


@pytest.mark.parametrize("quality", [{"lossless": True}, {"quality": 30}])
def test_both_kinds_of_webp(quality):
    assert plain(saved("WEBP", size=(700, 3), **quality)) == Still(3, 700)
    extended = saved("WEBP", "RGBA", icc_profile=b"profile", xmp=b"<x/>", **quality)
    assert extended[12:16] == b"VP8X"
    assert plain(extended) == Still(47, 61)


def test_a_progressive_jpeg_with_a_comment():
    data = saved("JPEG", progressive=True, comment=b"hello", dpi=(72, 72))
    assert plain(data) == Still(47, 61)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("packed", [None, "tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg"])
def test_tiff_of_both_byte_orders(order, packed, monkeypatch):
    monkeypatch.setattr(TiffImagePlugin, "STRIP_SIZE", 1000)
    if order == ">":
        monkeypatch.setattr(TiffImagePlugin, "native_prefix", b"MM", raising=False)
    data = saved("TIFF", compression=packed)
    assert plain(data) == Still(47, 61)


@pytest.mark.parametrize("kind", [*MOVING, "TIFF"])
def test_frames_are_counted(kind, monkeypatch):
    assert plain(frames(kind)) == Still(47, 61, animated=True)
    assert plain(frames(kind, 1)) == Still(47, 61)
    assert by_pillow(frames(kind), monkeypatch) == (47, 61, True)


@pytest.mark.parametrize(
    "options", [{}, {"lossless": True}, {"quality": 40, "minimize_size": True}]
)
def test_frames_of_webp(options, monkeypatch):
    pictures = [Image.radial_gradient("L").rotate(30 * n).convert("RGBA") for n in range(5)]
    for number, picture in enumerate(pictures):
        picture.putalpha(Image.linear_gradient("L").rotate(40 * number))
    out = io.BytesIO()
    pictures[0].save(
        out, "WEBP", save_all=True, append_images=pictures[1:], exif=exif(t0112=6), **options
    )
    data = out.getvalue()
    assert plain(data) == Still(256, 256, sideways=True, animated=True)
    assert by_pillow(data, monkeypatch) == (256, 256, True)


@pytest.mark.parametrize(("count", "default"), [(1, False), (1, True), (2, False), (3, True)])
def test_frames_of_png_with_and_without_an_image_in_front(count, default, monkeypatch):
    pictures = [Image.radial_gradient("L").rotate(30 * n) for n in range(count + default)]
    out = io.BytesIO()
    pictures[0].save(out, "PNG", save_all=True, append_images=pictures[1:], default_image=default)
    data = out.getvalue()
    assert told(plain(data)) == by_pillow(data, monkeypatch) == (256, 256, count + default > 1)
    assert b"acTL" in data or count + default == 1


def noisy_gif(count, size):
    pictures = [Image.effect_noise(size, 90 + n) for n in range(count)]
    out = io.BytesIO()
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:])
    return out.getvalue()


@pytest.mark.parametrize(("count", "size"), [(5, (200, 150)), (40, (20, 16)), (3, (9, 2))])
def test_an_animated_gif_is_read_up_to_its_second_frame(count, size, monkeypatch):
    data = noisy_gif(count, size)
    assert ends_whole(data[-TAIL:])
    asked = []
    monkeypatch.setattr(gif, "behind_blocks", lambda *a: asked.append(a) or behind_blocks(*a))
    assert plain(data) == Still(*size[::-1], animated=True)
    assert len(asked) < 10


@pytest.mark.parametrize(("count", "size"), [(5, (200, 150)), (40, (20, 16)), (3, (9, 2))])
def test_a_gif_that_is_cut_has_no_end(count, size, monkeypatch):
    data = noisy_gif(count, size)
    ends = [n for n in range(len(data)) if ends_whole(data[max(0, n - TAIL) : n])]
    assert ends == []
    # with an end put behind the cut it is whole where every block is, and only there
    monkeypatch.setattr(endings, "ends_whole", lambda _tail: False)
    for stop in range(90, len(data) - 2, 7):
        mended = data[:stop] + b"\0;"
        assert not (
            ends_whole(mended[-TAIL:]) and endings.image_cut_short("GIF", io.BytesIO(mended))
        )


def test_a_gif_that_is_damaged_in_a_late_frame_is_not_cut(monkeypatch):
    data = bytearray(noisy_gif(6, (200, 150)))
    place = len(data) * 2 // 3
    data[place : place + 600] = bytes(600)
    assert told(plain(bytes(data))) == by_pillow(bytes(data), monkeypatch) == (150, 200, True)


@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize("size", [(300, 200), (900, 700)])
def test_a_file_on_disk_reads_like_bytes(kind, size, tmp_path):
    data = saved(kind, "P" if kind == "GIF" else "RGB", size=size)
    (tmp_path / "x").write_bytes(data)
    with (tmp_path / "x").open("rb") as stream:
        assert plain_size(stream) == plain(data) == Still(*size[::-1])


@pytest.mark.parametrize("kind", WITH_EXIF)
@pytest.mark.parametrize("orientation", [None, 1, 3, 5, 6, 8, 9])
def test_orientation_is_read(kind, orientation, monkeypatch):
    tags = {"t010f": "maker", "t0132": "2020:01:01 00:00:00"}
    tags |= {} if orientation is None else {"t0112": orientation}
    data = saved(kind, exif=exif(**tags))
    assert plain(data) == Still(47, 61, sideways=orientation in (5, 6, 8))
    assert told(plain(data)) == by_pillow(data, monkeypatch)


@pytest.mark.parametrize("kind", WITH_EXIF)
@pytest.mark.parametrize(("orientation", "known"), [(None, False), (6, True)])
def test_xmp_that_turns_is_left_to_pillow_where_exif_is_silent(kind, orientation, known):
    xmp = b'<rdf:Description tiff:Orientation="6"/>'
    tags = {"t010f": "maker"} | ({"t0112": orientation} if orientation else {})
    options = {"exif": exif(**tags), "xmp": xmp}
    if kind == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_itxt("XML:com.adobe.xmp", xmp.decode())
        options = {"exif": exif(**tags), "pnginfo": info}
        known = False  # the chunk stands in front of EXIF
    data = saved(kind, **options)
    assert plain(data) == (Still(47, 61, sideways=True) if known else None)


def test_an_orientation_that_is_turned_off():
    data = saved("JPEG", exif=exif(t0112=6))
    for read, expected in (("apply", (61, 47)), ("ignore", (47, 61))):
        size = image_size(Source("x", None, data, len(data)), ImagePolicy(exif=read))
        assert (size.height, size.width) == expected


XMP = b'<rdf:Description tiff:Orientation="6"/>'
KEPT = ("none", "plain", "sub")
"""EXIF data: none, such as Pillow writes anew without fail, and with a directory inside."""


def avif_file(orientation=None, kept="none", frames=1, mode="RGB", **options):
    """An AVIF file, see-through in its own way if the mode is RGBA."""
    pictures = [Image.radial_gradient("L").rotate(30 * n).resize((61, 47)) for n in range(frames)]
    pictures = [picture.convert(mode) for picture in pictures]
    if mode == "RGBA":
        for number, picture in enumerate(pictures):
            picture.putalpha(Image.linear_gradient("L").rotate(20 * number).resize((61, 47)))
    tags = Image.Exif()
    if kept != "none":
        tags[0x010F], tags[0x011A], tags[0x0128] = "maker", 72.0, 2
    if kept == "sub":
        tags.get_ifd(0x8769)[0x9003] = "2020:01:01 00:00:00"
    if orientation is not None:
        tags[0x0112] = orientation
    if len(tags):
        options["exif"] = tags
    if frames > 1:
        options |= {"save_all": True, "append_images": pictures[1:]}
    out = io.BytesIO()
    pictures[0].save(out, "AVIF", speed=10, **options)
    return out.getvalue()


@NEEDS_AVIF
@pytest.mark.parametrize("xmp", [None, XMP])
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("orientation", [None, *range(1, 9)])
def test_orientation_of_avif_is_the_one_of_the_image(orientation, kept, xmp, monkeypatch):
    data = avif_file(orientation, kept, mode="RGBA", **({"xmp": xmp} if xmp else {}))
    turned = orientation not in (None, 1)
    sideways = orientation in (5, 6, 7, 8)
    # Pillow writes a directory inside EXIF data anew, and may look at XMP
    left = (turned and kept == "sub") or (xmp is not None and not turned)
    assert plain(data) == (None if left else Still(47, 61, sideways=sideways))
    pillow = (61, 47) if sideways or (xmp and not turned) else (47, 61)
    assert by_pillow(data, monkeypatch) == (*pillow, False)


@NEEDS_AVIF
@pytest.mark.parametrize("orientation", [None, 3, 6, 8])
def test_exif_of_avif_that_says_something_else_does_not_count(orientation, monkeypatch):
    data = avif_file(orientation, "plain")
    unit, turned = b"\x01\x28\0\3\0\0\0\1\0\2", b"\x01\x12\0\3\0\0\0\1\0\6"
    assert data.count(unit) == 1
    other = data.replace(unit, turned)
    assert plain(other) == Still(47, 61, sideways=orientation in (6, 8))
    assert told(plain(other)) == by_pillow(other, monkeypatch)


@NEEDS_AVIF
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("options", [{}, {"icc_profile": b"profile" * 9}, {"subsampling": "4:4:4"}])
def test_frames_of_avif(mode, options, monkeypatch):
    for count in (2, 5):
        data = avif_file(frames=count, mode=mode, **options)
        assert plain(data) == Still(47, 61, animated=True)
        assert by_pillow(data, monkeypatch) == (47, 61, True)


@NEEDS_AVIF
@pytest.mark.parametrize("frames", [1, 3])
def test_an_avif_that_is_cut_or_points_beyond_its_end(frames, monkeypatch):
    data = avif_file(frames=frames)
    for stop in range(40, len(data), 13):
        assert plain(data[:stop]) is None
        assert by_pillow(data[:stop], monkeypatch) == "media_undecodable"
    # the box of the bytes is whole, and they reach beyond it
    short = bytearray(data[:-20])
    place = short.rfind(b"mdat") - 4
    short[place : place + 4] = (len(short) - place).to_bytes(4, "big")
    assert plain(bytes(short)) is None


@NEEDS_AVIF
def test_a_pillow_without_avif_is_asked(monkeypatch):
    monkeypatch.setattr(avif, "_by_pillow", lambda: False)
    assert plain(avif_file()) is None


@NEEDS_AVIF
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"orientation": 7, "kept": "plain", "mode": "RGBA", "xmp": XMP},
        {"orientation": 1, "kept": "sub", "icc_profile": b"profile"},
        {"frames": 3},
        {"frames": 3, "mode": "RGBA"},
    ],
)
def test_damaged_descriptions_of_avif(options, monkeypatch):
    whole = avif_file(**options)
    end = whole.rfind(b"mdat") + 40
    draw = random.Random(str(options))
    sure = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            place = draw.randrange(end)
            data[place] = draw.choice((0, 1, 2, 0xFF, data[place] ^ 1 << draw.randrange(8)))
        still = plain(bytes(data))
        if still is not None and still.height * still.width <= images.MAX_PIXELS:
            sure += 1
            assert by_pillow(bytes(data), monkeypatch) == told(still)
    assert sure > 0


def test_a_directory_that_is_odd():
    whole = b"MM\0*" + struct.pack(">LHHHLHHL", 8, 1, 0x112, 3, 1, 6, 0, 0)
    assert sideways(whole) is True
    assert sideways(whole.replace(b"\x01\x12", b"\x01\x13")) is None
    odd = (
        b"",
        whole[:7],
        whole[:-1],
        b"II" + whole[2:],
        whole.replace(b"\0\3\0\0\0\1", b"\0\4\0\0\0\1"),
        b"MM\0*" + struct.pack(">LH", 8, 2) + whole[10:22] * 2 + bytes(4),
    )
    for data in odd:
        with pytest.raises(OddExifError):
            sideways(data)


@pytest.mark.parametrize(
    ("chunk", "known"),
    [
        (("add_text", "Comment", "hello"), True),
        (("add_text", "Raw profile type exif", "x"), False),
        (("add_text", "exif", "x"), False),
        (("add_itxt", "Title", "title"), True),
        (("add_itxt", "Title", "title", "", "", True), False),
        (("add_text", "Comment", "hello", True), False),
    ],
)
def test_text_in_front_of_the_pixels_of_a_png(chunk, known):
    info = PngImagePlugin.PngInfo()
    method, *told_ = chunk
    getattr(info, method)(*told_)
    assert plain(saved("PNG", pnginfo=info)) == (Still(47, 61) if known else None)


def test_a_profile_of_a_png():
    assert plain(saved("PNG", icc_profile=b"profile" * 50)) == Still(47, 61)
    assert plain(saved("PNG", icc_profile=bytes(3 * 2**20))) is None


@pytest.mark.parametrize("late", [False, True])
def test_a_png_of_many_chunks(late, monkeypatch):
    noise = Image.effect_noise((900, 700), 90)
    out = io.BytesIO()
    monkeypatch.setattr(PngImagePlugin.ImageFile, "MAXBLOCK", 1 << 12)
    noise.save(out, "PNG")
    data = out.getvalue()
    assert data.count(b"IDAT") > 64
    if late:
        turned = exif(t0112=6).removeprefix(b"Exif\0\0")
        chunks = io.BytesIO()
        PngImagePlugin.putchunk(chunks, b"eXIf", turned)
        data = data[:-12] + chunks.getvalue() + data[-12:]
    assert plain(data) == (None if late else Still(700, 900))
    assert by_pillow(data, monkeypatch) == ((900, 700) if late else (700, 900)) + (False,)


def test_chains_of_blocks():
    full, short = b"\xff" + bytes(255), b"\x03abc"
    for chain in (b"", full, short, full * 300, full * 3 + short, (full + short) * 300):
        data = b"x" + chain + b"\0;"
        assert behind_blocks(data, 1) == len(data) - 1
        assert behind_blocks(data[:-2], 1) >= len(data) - 2


def test_a_gif_whose_first_frame_reaches_beyond_its_screen(monkeypatch):
    data = bytearray(saved("GIF", "P"))
    data[6:10] = struct.pack("<HH", 10, 60)
    assert plain(bytes(data)) == Still(60, 61)
    assert by_pillow(bytes(data), monkeypatch) == (60, 61, False)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_a_file_that_is_cut_short(kind, monkeypatch):
    data = frames(kind) if kind == "GIF" else saved(kind)
    for stop in range(60, len(data), 101):
        still = plain(data[:stop])
        assert still is None or told(still) == by_pillow(data[:stop], monkeypatch)
        if kind != "TIFF":  # Pillow writes its directory behind the pixels or in front of them
            assert still is None


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *FILES,
        *[("frames", k) for k in MOVING],
        ("jpeg", "TIFF"),
        *[("exif", k) for k in WITH_EXIF],
    ],
)
def test_damaged_files_never_get_a_size_that_pillow_denies(kind, mode, monkeypatch):
    whole = {
        "frames": lambda: frames(mode),
        "jpeg": lambda: saved(mode, compression="jpeg"),
        "exif": lambda: saved(mode, exif=exif(t010f="maker", t0112=6), icc_profile=b"profile"),
    }.get(kind, lambda: saved(kind, mode))()
    draw = random.Random(f"{kind}{mode}")
    sure = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 4))):
            place = min(len(data) - 1, int(draw.expovariate(1 / 60)))
            data[place] = draw.choice((0, 1, 0xFF, data[place] ^ 1 << draw.randrange(8)))
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        still = plain(bytes(data))
        if still is not None and still.height * still.width <= images.MAX_PIXELS:
            sure += 1
            assert by_pillow(bytes(data), monkeypatch) == told(still), bytes(data[:64])
    if plain(whole) is not None:
        assert sure > 0
