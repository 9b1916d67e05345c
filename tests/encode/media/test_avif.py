import io
import random
import struct

import pytest
from PIL import Image, features

from packcli.contract.errors import Rejection
from packcli.encode.media import images
from packcli.encode.media.endings import image_cut_short
from packcli.encode.media.headers.still import Still
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.sources import Source
from tests.encode.media.written import exif, plain

pytestmark = pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")
SIZE = (61, 47)


def saved(mode="RGB", count=1, size=SIZE, **options):
    pictures = [Image.radial_gradient("L").rotate(30 * n).resize(size) for n in range(count)]
    pictures = [picture.convert(mode) for picture in pictures]
    if mode == "RGBA":
        for picture in pictures:
            picture.putalpha(Image.linear_gradient("L").resize(size))
    out = io.BytesIO()
    if count > 1:
        options |= {"save_all": True, "append_images": pictures[1:]}
    pictures[0].save(out, "AVIF", speed=10, quality=40, **options)
    return out.getvalue()


def told(still):
    sides = (still.width, still.height) if still.sideways else (still.height, still.width)
    return (*sides, still.animated)


def asked(data):
    try:
        size = image_size(Source("x", None, data, len(data)), ImagePolicy())
    except Rejection as rejection:
        return rejection.code
    return (size.height, size.width, size.animated)


def by_pillow(data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(images, "plain_size", lambda _stream: None)
        return asked(data)


def widened(data, kinds, more):
    """The same file with bytes at the end of a box in boxes; its items stand behind them."""
    place, data = 0, bytearray(data)
    for kind in kinds:
        place = data.index(kind, place)
        length = int.from_bytes(data[place - 4 : place], "big") + len(more)
        data[place - 4 : place] = length.to_bytes(4, "big")
    end = place - 4 + length
    data[end - len(more) : end - len(more)] = more
    for item in places(data):
        moved = int.from_bytes(data[item : item + 4], "big") + len(more)
        data[item : item + 4] = moved.to_bytes(4, "big")
    return bytes(data)


def places(data):
    """Where the places of items stand."""
    start = data.index(b"iloc")
    count = int.from_bytes(data[start + 10 : start + 12], "big")
    return [start + 18 + 14 * n for n in range(count)]


@pytest.mark.parametrize("turn", [b"\0\0\0\x09irot\1", b"\0\0\0\x09imir\1"])
def test_a_sequence_that_is_turned(turn, monkeypatch):
    data = saved(count=3)
    kinds = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"av01")
    data = widened(data, kinds, turn)
    chunk = data.index(b"stco") + 12
    place = int.from_bytes(data[chunk : chunk + 4], "big") + len(turn)
    data = data[:chunk] + place.to_bytes(4, "big") + data[chunk + 4 :]
    assert plain(data) == Still(47, 61, sideways=b"irot" in turn, animated=True)
    assert told(plain(data)) == by_pillow(data, monkeypatch)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_what_is_not_plain_is_left_to_pillow(mode, monkeypatch):
    data = saved(mode)
    assert plain(widened(data, (b"meta",), b"\0\0\0\x08free")) is None
    assert plain(widened(data, (b"meta", b"iprp", b"ipco"), b"\0\0\0\x08what")) is None
    assert plain(data + b"\0\0\0\x08what") is None
    for kind in (b"av01", b"pitm", b"ispe", b"av1C"):
        other = data.replace(kind, b"grid", 1)
        assert plain(other) is None
        assert asked(other) == by_pillow(other, monkeypatch)
    for brand in (b"heic", b"msf1", b"mp42"):
        other = data[:8] + brand + data[12:]
        assert plain(other) is None
        assert asked(other) == by_pillow(other, monkeypatch)
    version = data[:8] + b"mif1avif" + data[16:].replace(b"avif", b"mif1", 1)
    assert plain(version) is None
    assert asked(version) == "media_undecodable"


def with_places(data, version, base, wide, moved=0):
    """The same file, its items' places in another form: with a base, or in eight bytes."""
    start = data.index(b"iloc") - 4
    length = int.from_bytes(data[start : start + 4], "big")
    rows = list(struct.iter_unpack(">HHHII", data[start + 16 : start + length]))
    number = ">Q" if wide else ">I"
    sizes = (0x88 if wide else 0x44) << 8 | (0x40 if base else 0)
    body = struct.pack(">4sB3xHH", b"iloc", version, sizes, len(rows))
    for item, _, _, place, count in rows:
        body += struct.pack(">HH", item, 0) + bytes(2 * version)
        body += struct.pack(">I", 5) * base + struct.pack(">H", 1)
        body += struct.pack(number, place + moved - 5 * base) + struct.pack(number, count)
    grown = len(body) + 4 - length
    if not moved and grown:
        return with_places(data, version, base, wide, grown)
    meta = data.index(b"meta") - 4
    new = int.from_bytes(data[meta : meta + 4], "big") + grown
    box = (len(body) + 4).to_bytes(4, "big") + body
    return (
        data[:meta] + new.to_bytes(4, "big") + data[meta + 4 : start] + box + data[start + length :]
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_places_of_items_in_other_forms(version, base, wide, monkeypatch):
    data = with_places(saved("RGBA", exif=exif(t0112=8, t010f="maker")), version, base, wide)
    assert plain(data) == (None if wide else Still(47, 61, sideways=True))
    assert by_pillow(data, monkeypatch) == (61, 47, False)
    with Image.open(io.BytesIO(data)) as image:
        image.load()
    draw = random.Random(f"{version}{base}{wide}")
    for _ in range(200):
        other = bytearray(data)
        place = draw.randrange(data.index(b"iloc"), data.index(b"iinf"))
        other[place] = draw.choice((0, 1, 2, 0xFF, other[place] ^ 1 << draw.randrange(8)))
        still = plain(bytes(other))
        assert still is None or told(still) == by_pillow(bytes(other), monkeypatch)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_file_that_is_cut_anywhere(mode, count):
    data = saved(mode, count, exif=exif(t0112=6)) if count == 1 else saved(mode, count)
    assert plain(data) is not None
    for stop in range(1, len(data)):
        assert plain(data[:stop]) is None
        assert stop % 7 or asked(data[:stop]) == "media_undecodable"


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_item_that_ends_behind_the_file(mode, monkeypatch):
    data = bytearray(saved(mode))
    # the last box says nothing of its length: it reaches to the end
    start = data.index(b"mdat") - 4
    data[start : start + 4] = bytes(4)
    assert plain(bytes(data)) is None
    assert asked(bytes(data)) == (47, 61, False)
    assert not image_cut_short("AVIF", io.BytesIO(data))
    for stop in range(start + 8, len(data), 5):
        assert image_cut_short("AVIF", io.BytesIO(data[:stop]))
        assert asked(bytes(data[:stop])) == "media_undecodable"
    whole = bytearray(saved(mode))
    for item in places(whole):
        far = bytes(whole[:item]) + (len(whole)).to_bytes(4, "big") + bytes(whole[item + 4 :])
        assert plain(far) is None
        assert asked(far) == by_pillow(far, monkeypatch) == "media_undecodable"


@pytest.mark.parametrize("name", ["image", "alpha", "turned", "exif", "sequence", "alphas"])
@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_files_never_get_a_size_that_pillow_denies(name, count, monkeypatch):
    whole = {
        "image": saved,
        "alpha": lambda: saved("RGBA", xmp=b"<x/>", icc_profile=b"p" * 200),
        "turned": lambda: saved(exif=exif(t0112=5)),
        "exif": lambda: saved(exif=exif(t0112=6, t010f="maker", t011a=72.0)),
        "sequence": lambda: saved(count=3),
        "alphas": lambda: saved("RGBA", 3),
    }[name]()
    header = whole.index(b"mdat") + 120
    draw = random.Random(name)
    sure = 0
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            place = draw.randrange(min(header, len(data)))
            near = (data[place] + draw.choice((1, -1))) & 0xFF
            data[place] = draw.choice((0, 1, 2, 0xFF, near, data[place] ^ 1 << draw.randrange(8)))
        if draw.random() < 0.15:
            place = draw.randrange(len(data))
            del data[place : place + draw.choice((1, 4, 12, len(data)))]
        still = plain(bytes(data))
        if still is not None and still.height * still.width <= images.MAX_PIXELS:
            sure += 1
            assert by_pillow(bytes(data), monkeypatch) == told(still), bytes(data[:header])
    assert sure > count / 20
