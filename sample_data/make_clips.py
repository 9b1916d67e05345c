"""Two short clips and one list of frames: something moves, something changes, something grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
from av.codec.codec import UnknownCodecError
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FPS = 8


def _codec() -> str:
    """Return the best encoder that this PyAV was built with."""
    for name in ("libx264", "mpeg4"):
        try:
            av.Codec(name, "w")
        except UnknownCodecError:
            continue
        return name
    raise SystemExit("PyAV lacks both the libx264 and the mpeg4 encoder; install the PyPI wheel")


def ball() -> Iterator[Image.Image]:
    """Three seconds: an orange ball rolls over grass from the left edge to the right."""
    for step in range(24):
        image = Image.new("RGB", (320, 240), "#cfe8f5")
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 180, 320, 240), fill="#7cb342")
        x = 24 + round(272 * step / 23)
        pen.ellipse((x - 20, 140, x + 20, 180), fill="#f3722c", outline="#8a3b12", width=2)
        yield image


def light() -> Iterator[Image.Image]:
    """Two seconds: a traffic light is red for one second, then green."""
    for step in range(2 * FPS):
        image = Image.new("RGB", (256, 192), "#d9d9d9")
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((98, 16, 158, 176), 12, fill="#2b2d42")
        lamps = (
            ("#e63946", "#4a4a2a", "#1f3d26") if step < FPS else ("#4a1f22", "#4a4a2a", "#2ecc71")
        )
        for number, colour in enumerate(lamps):
            y = 26 + 50 * number
            pen.ellipse((108, y, 148, y + 40), fill=colour)
        yield image


def plant() -> Iterator[Image.Image]:
    """Four frames: a seedling grows from bare soil and opens two leaves."""
    for stage in range(4):
        image = Image.new("RGB", (160, 120), "#eef6ee")
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 90, 160, 120), fill="#6d4c41")
        top = 90 - 20 * stage
        pen.line([(80, 90), (80, top)], fill="#2e7d32", width=4)
        if stage >= 2:
            pen.ellipse((50, top + 4, 80, top + 18), fill="#66bb6a")
            pen.ellipse((80, top + 4, 110, top + 18), fill="#66bb6a")
        yield image


def save_clip(path: Path, frames: Iterable[Image.Image]) -> None:
    """Write frames as an mp4 at 8 frames a second; one thread, so that bytes do not vary."""
    images = list(frames)
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream(_codec(), rate=FPS)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = images[0].size
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.bit_rate = 200_000
        for frame in [*map(av.VideoFrame.from_image, images), None]:  # None flushes the encoder
            for packet in stream.encode(frame):
                container.mux(packet)


def write(folder: Path) -> None:
    """Save the clips and the frame list."""
    folder.mkdir(parents=True, exist_ok=True)
    save_clip(folder / "ball.mp4", ball())
    save_clip(folder / "light.mp4", light())
    for number, image in enumerate(plant()):
        image.save(folder / f"plant_{number}.jpg", quality=80)
