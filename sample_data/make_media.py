"""Own drawings and synthetic photos: shapes, gradients and seeded noise, no foreign material."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from pathlib import Path

INK = "#2b2d42"
PAPER = "#faf7f0"


def _canvas(
    width: int, height: int, colour: str = PAPER
) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return a fresh RGB picture and its pen."""
    image = Image.new("RGB", (width, height), colour)
    return image, ImageDraw.Draw(image)


def _sky(width: int, height: int, top: tuple[int, ...], bottom: tuple[int, ...]) -> Image.Image:
    """Return a vertical gradient from `top` to `bottom`."""
    weight = np.linspace(0, 1, height)[:, None, None]
    rows = np.asarray(top) * (1 - weight) + np.asarray(bottom) * weight
    return Image.fromarray(np.broadcast_to(rows, (height, width, 3)).astype(np.uint8))


def _grain(image: Image.Image, seed: int, sigma: float = 4.0) -> Image.Image:
    """Add the noise of a camera sensor, the same on every run."""
    noise = np.random.default_rng(seed).normal(0, sigma, (image.height, image.width, 1))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def shapes() -> Image.Image:
    """A red circle, a blue square and a yellow triangle in a row."""
    image, pen = _canvas(320, 240)
    pen.ellipse((24, 76, 112, 164), fill="#d62839", outline=INK, width=3)
    pen.rectangle((124, 76, 208, 164), fill="#277da1", outline=INK, width=3)
    pen.polygon([(258, 72), (302, 164), (216, 164)], fill="#f9c74f", outline=INK, width=3)
    return image


def _house(pen: ImageDraw.ImageDraw, left: int, wall: str, height: int) -> None:
    """Draw one house of width 96 that stands on the pavement at y = 230."""
    top = 230 - height
    pen.polygon([(left - 8, top), (left + 48, top - 44), (left + 104, top)], fill="#6d4c41")
    pen.rectangle((left, top, left + 96, 230), fill=wall, outline=INK, width=2)
    pen.rectangle((left + 38, 186, left + 60, 230), fill="#4e342e")
    for x in (left + 12, left + 66):
        pen.rectangle((x, top + 16, x + 20, top + 38), fill="#e3f2fd", outline=INK, width=2)


def street() -> Image.Image:
    """Three houses (red, yellow, blue) at a road with one green car, a tree and the sun."""
    image = _sky(480, 320, (120, 190, 240), (222, 240, 250))
    pen = ImageDraw.Draw(image)
    pen.ellipse((404, 22, 452, 70), fill="#ffd54f")
    pen.rectangle((0, 230, 480, 252), fill="#bdbdbd")
    pen.rectangle((0, 252, 480, 320), fill="#555b6e")
    for x in range(10, 480, 60):
        pen.rectangle((x, 283, x + 30, 288), fill="#f5f5f5")
    for left, wall, height in ((20, "#e63946", 96), (136, "#f4d35e", 120), (252, "#4d7ea8", 84)):
        _house(pen, left, wall, height)
    pen.rectangle((402, 170, 414, 232), fill="#795548")
    pen.ellipse((372, 104, 444, 182), fill="#43a047")
    pen.rounded_rectangle((150, 262, 260, 296), 10, fill="#2e7d32")
    pen.polygon([(172, 264), (188, 240), (224, 240), (242, 264)], fill="#a5d6a7", outline="#2e7d32")
    for x in (168, 222):
        pen.ellipse((x, 284, x + 24, 308), fill="#212121", outline="#eeeeee", width=3)
    return image


def chart() -> Image.Image:
    """A bar chart of five days: 3, 7, 5, 9 and 4 cups of tea."""
    image, pen = _canvas(400, 300, "#ffffff")
    font = ImageFont.load_default(16)
    pen.text((200, 20), "Cups of tea", fill=INK, font=ImageFont.load_default(20), anchor="mm")
    pen.line([(50, 40), (50, 260), (380, 260)], fill=INK, width=2)
    days = (("Mon", 3), ("Tue", 7), ("Wed", 5), ("Thu", 9), ("Fri", 4))
    for number, (day, cups) in enumerate(days):
        x = 66 + 63 * number
        pen.rectangle((x, 260 - 22 * cups, x + 42, 259), fill="#f3722c" if cups == 9 else "#43aa8b")
        pen.text((x + 21, 274), day, fill=INK, font=font, anchor="mm")
        pen.text((x + 21, 250 - 22 * cups), str(cups), fill=INK, font=font, anchor="mm")
    return image


def page() -> Image.Image:
    """A printed page: a title and eight short lines."""
    image, pen = _canvas(360, 480, "#fffdf5")
    pen.rectangle((14, 14, 345, 465), outline="#c8b88a", width=2)
    pen.text((180, 52), "The Harbour Cat", fill=INK, font=ImageFont.load_default(28), anchor="mm")
    lines = (
        "Every morning at six the boats",
        "came home, and every morning",
        "the cat sat on the third post",
        "and counted them: one, two,",
        "three, four. On Sunday only",
        "three came. The cat waited",
        "until the fourth, a small white",
        "boat, came in at noon.",
    )
    for number, line in enumerate(lines):
        pen.text((34, 100 + 40 * number), line, fill=INK, font=ImageFont.load_default(20))
    pen.text((180, 440), "7", fill="#8d8d8d", font=ImageFont.load_default(16), anchor="mm")
    return image


def sunset() -> Image.Image:
    """A synthetic photo: a golden sun half sunk in the sea, with its glitter on the water."""
    image = _sky(512, 384, (64, 52, 110), (255, 150, 80))
    pen = ImageDraw.Draw(image)
    pen.ellipse((206, 180, 306, 280), fill=(255, 214, 120))
    rng = np.random.default_rng(11)
    pen.rectangle((0, 230, 512, 384), fill=(38, 48, 92))
    for y in range(234, 384, 5):
        half = 50 + (y - 230) // 3
        for x in rng.integers(256 - half, 256 + half, 9):
            pen.line([(int(x), y), (int(x) + 12, y)], fill=(255, 190, 110), width=2)
    return _grain(image, 12)


def hills() -> Image.Image:
    """A synthetic photo: four rows of hills, darker the nearer, under a pale morning sky."""
    image = _sky(448, 336, (250, 222, 200), (255, 244, 230))
    pen = ImageDraw.Draw(image)
    x = np.arange(0, 449, 4)
    for row, colour in enumerate(("#b7c9d3", "#86a7b0", "#4f7f80", "#23524f")):
        wave = np.sin(x / (70 - 9 * row) + 2.1 * row) + 0.4 * np.sin(x / 19 + row)
        y = 130 + 52 * row - 22 * wave
        ridge = list(zip(x.tolist(), y.tolist(), strict=True))
        pen.polygon([(0, 336), *ridge, (448, 336)], fill=colour)
    return _grain(image, 21, 2.0)


def target() -> Image.Image:
    """Five rings, red and white in turn, red in the middle; few colours, so a GIF holds it."""
    image, pen = _canvas(200, 200, "#ffffff")
    for number, radius in enumerate((90, 72, 54, 36, 18)):
        colour = "#d62839" if number % 2 == 0 else "#ffffff"
        pen.ellipse((100 - radius, 100 - radius, 100 + radius, 100 + radius), fill=colour)
    return image


def badge() -> Image.Image:
    """A green five-pointed star; everything around it is transparent."""
    image = Image.new("RGBA", (128, 128), (0, 0, 0, 0))
    radii = [58 if corner % 2 == 0 else 24 for corner in range(10)]
    angles = [math.pi * corner / 5 - math.pi / 2 for corner in range(10)]
    points = [
        (64 + r * math.cos(a), 66 + r * math.sin(a)) for r, a in zip(radii, angles, strict=True)
    ]
    ImageDraw.Draw(image).polygon(points, fill=(46, 160, 67, 255), outline=(20, 90, 40, 255))
    return image


def flower() -> Image.Image:
    """A potted flower, upright: five violet petals, two leaves, a brown pot on a table."""
    image = _sky(300, 400, (236, 244, 238), (205, 224, 214))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 350, 300, 400), fill="#a1887f")
    pen.line([(150, 140), (150, 280)], fill="#2e7d32", width=7)
    pen.ellipse((86, 206, 148, 236), fill="#43a047")
    pen.ellipse((152, 182, 214, 212), fill="#43a047")
    for petal in range(5):
        angle = 2 * math.pi * petal / 5 - math.pi / 2
        x, y = 150 + 42 * math.cos(angle), 112 + 42 * math.sin(angle)
        pen.ellipse((x - 28, y - 28, x + 28, y + 28), fill="#8e44ad")
    pen.ellipse((126, 88, 174, 136), fill="#f9c74f")
    pen.polygon([(100, 276), (200, 276), (184, 362), (116, 362)], fill="#8d5524")
    return _grain(image, 31, 3.0)


def dot() -> Image.Image:
    """Twelve by nine pixels, the left half red and the right half white."""
    image, pen = _canvas(12, 9, "#ffffff")
    pen.rectangle((0, 0, 5, 8), fill="#ff0000")
    return image


def lighthouse() -> Image.Image:
    """A tall strip: a lighthouse with four red and four white bands and a yellow lamp."""
    image = _sky(64, 720, (70, 130, 190), (200, 225, 240))
    pen = ImageDraw.Draw(image)
    pen.rectangle((18, 40, 46, 80), fill="#ffe066", outline=INK, width=2)
    pen.polygon([(14, 40), (32, 10), (50, 40)], fill=INK)
    for band in range(8):
        y = 80 + 76 * band
        half = 15 + band
        colour = "#d62839" if band % 2 == 0 else "#ffffff"
        pen.rectangle((32 - half, y, 32 + half, y + 75), fill=colour)
    pen.rectangle((0, 688, 64, 720), fill="#5d737e")
    return image


def clock() -> Image.Image:
    """A grey clock face without digits that shows three o'clock."""
    image = Image.new("L", (240, 240), 235)
    pen = ImageDraw.Draw(image)
    pen.ellipse((20, 20, 220, 220), fill=255, outline=40, width=6)
    for hour in range(12):
        x, y = math.sin(math.pi * hour / 6), math.cos(math.pi * hour / 6)
        pen.line([(120 + 80 * x, 120 - 80 * y), (120 + 92 * x, 120 - 92 * y)], fill=40, width=5)
    pen.line([(120, 120), (120, 44)], fill=40, width=5)
    pen.line([(120, 120), (172, 120)], fill=40, width=9)
    pen.ellipse((112, 112, 128, 128), fill=40)
    return image


def dice() -> Image.Image:
    """A white die on green cloth that shows five pips."""
    image = _grain(_sky(256, 256, (34, 110, 70), (20, 80, 50)), 41)
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((58, 58, 198, 198), 22, fill="#fdfdfd", outline="#9e9e9e", width=3)
    for x, y in ((92, 92), (164, 92), (128, 128), (92, 164), (164, 164)):
        pen.ellipse((x - 13, y - 13, x + 13, y + 13), fill="#1b1b1b")
    return image


def write(folder: Path) -> None:
    """Save every still picture, one of each format and oddity that encode must carry."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (shapes, chart, badge, dot, lighthouse, clock):
        draw().save(folder / f"{draw.__name__}.png", optimize=True)
    page().quantize(16).save(folder / "page.png", optimize=True)
    street().save(folder / "street.jpg", quality=85)
    sunset().save(folder / "sunset.jpg", quality=80)
    dice().save(folder / "dice.jpg", quality=80, progressive=True)
    hills().save(folder / "hills.webp", quality=75)
    target().quantize(8).save(folder / "target.gif")
    # stored lying on its side, as a phone does: orientation 6 means "turn 90 degrees clockwise"
    exif = Image.Exif()
    exif[0x0112] = 6
    lying = flower().transpose(Image.Transpose.ROTATE_90)
    lying.save(folder / "flower.jpg", quality=80, exif=exif)
