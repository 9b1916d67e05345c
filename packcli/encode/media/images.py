"""Sizes of images from their headers; no pixel is decoded."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from PIL import Image, UnidentifiedImageError

from packcli.contract.errors import Rejection
from packcli.encode.media.endings import cut_short

if TYPE_CHECKING:
    from packcli.encode.media.sources import Source

Exif = Literal["apply", "ignore"]

MAX_PIXELS = 178_956_970
"""Header pixels beyond which an image is taken for a decompression bomb (Pillow's own limit)."""

_ORIENTATION = 0x0112
_SIDEWAYS = frozenset({5, 6, 7, 8})
_HEADER_EXIF = frozenset({"JPEG", "MPO", "TIFF"})


@dataclass(frozen=True, slots=True)
class ImageSize:
    """What a header says.

    Attributes:
        height: pixels, upright when EXIF orientation is applied.
        width: pixels, the same.
        animated: more than one frame; the first one counts.
    """

    height: int
    width: int
    animated: bool


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """How headers are read.

    Attributes:
        exif: whether orientation turns the image, as transformers' and datasets' loaders do.
        max_pixels: larger images are rejected.
        decode: decode every image to prove that it can be.
    """

    exif: Exif = "apply"
    max_pixels: int = MAX_PIXELS
    decode: bool = False


def image_size(source: Source, policy: ImagePolicy) -> ImageSize:
    """Read an image's size.

    Raises:
        Rejection: `media_undecodable` or `media_too_large`.
    """
    with source.open() as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(stream) as image:
                width, height = image.size
                turned = policy.exif == "apply" and _orientation(image) in _SIDEWAYS
                animated = bool(getattr(image, "is_animated", False))
                kind = image.format or ""
                if policy.decode and width * height <= policy.max_pixels:
                    image.load()
        except Image.DecompressionBombError as error:
            raise Rejection("media_too_large", f"{source.name}: {error}; shrink it") from error
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            reason = str(error).partition(" <")[0] or type(error).__name__
            raise Rejection("media_undecodable", f"{source.name}: {reason}") from error
        if width * height > policy.max_pixels:
            message = f"{source.name}: {width}x{height} pixels, limit {policy.max_pixels}"
            raise Rejection("media_too_large", f"{message}; shrink it")
        if cut_short(kind, stream, source.size):
            message = f"{source.name}: the {kind} file is cut short; copy it again"
            raise Rejection("media_undecodable", message)
    return ImageSize(width, height, animated) if turned else ImageSize(height, width, animated)


def _orientation(image: Image.Image) -> int:
    """Read the EXIF orientation; `getexif()` of a PNG would decode the whole image."""
    if image.format in _HEADER_EXIF:
        return int(image.getexif().get(_ORIENTATION, 1))
    raw = image.info.get("exif")
    if not isinstance(raw, bytes):
        return 1
    exif = Image.Exif()
    exif.load(raw)
    return int(exif.get(_ORIENTATION, 1))
