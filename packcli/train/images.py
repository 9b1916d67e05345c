"""Pixels of an image as transformers sees them: upright, on white, eight bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from packcli.shards.media_files import MediaBytes

_WIDE = frozenset({"I;16", "I;16B", "I;16L", "I;16N"})
_TO_BYTE = 257
"""65535 // 255: sixteen bits to eight, white to white."""


def open_image(file: MediaBytes, *, upright: bool = True) -> Image.Image:
    """Decode an image.

    Sixteen-bit grey is scaled, which Pillow's `convert` clips to white; grey of 32 bits tells no
    range and is clipped. Matches transformers' `load_image` (image_utils) in EXIF orientation and
    32 bits, and the `convert_to_rgb` (image_transforms) of image processors in alpha: it is laid
    on white, where `load_image` drops it.

    Args:
        file: where its bytes lie.
        upright: whether EXIF orientation turns it, as it did at encode.

    Raises:
        InputError: it cannot be decoded.
    """
    try:
        # never by path: Pillow maps some TIFF files before it turns them, and so garbles them
        with file.open() as stream, Image.open(stream) as image:
            turned = ImageOps.exif_transpose(image) if upright else image
            return _rgb(turned)
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{file.name}: cannot be decoded: {error}; copy it again") from error


def brought_to(image: Image.Image, shortest: int) -> Image.Image:
    """Bring a short side to a length and leave the other one.

    Matches LLaVA-OneVision-2's training encoder (mm_plugin): it repeats pixels.

    Args:
        image: any.
        shortest: pixels.
    """
    width, height = max(image.width, shortest), max(image.height, shortest)
    if (width, height) == image.size:
        return image
    return image.resize((width, height), Image.Resampling.NEAREST)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _WIDE:
        grey = np.asarray(image).astype(np.int64) // _TO_BYTE
        image = Image.fromarray(grey.clip(0, 255).astype(np.uint8))
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")
