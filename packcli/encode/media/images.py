"""Sizes of images from their headers; no pixel is decoded."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, PngImagePlugin

from packcli.contract.errors import Rejection
from packcli.encode.media.endings import image_cut_short, read_tail
from packcli.encode.media.headers import plain_size
from packcli.encode.media.headers.exif import SIDEWAYS
from packcli.encode.media.headers.png import LATE

if TYPE_CHECKING:
    from typing import BinaryIO

    from packcli.encode.media.sources import Source

Exif = Literal["apply", "ignore"]

MAX_PIXELS = 178_956_970
"""Header pixels beyond which an image is taken for a decompression bomb (Pillow's own limit)."""

_ORIENTATION = 0x0112
_NO_RGB = frozenset({"La"})
"""Pillow's modes without a way to RGB; only readers that are not its own open such images."""

_STRIPS, _TILES = (273, 279), (324, 325)


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

    Matches the size after Pillow's `ImageOps.exif_transpose` of the decoded image.

    Raises:
        Rejection: `media_undecodable`, `media_too_large` or `image_mode_unsupported`.
    """
    with source.open() as stream:
        plain = None if policy.decode else plain_size(stream)
        if plain is not None and plain.height * plain.width <= min(policy.max_pixels, MAX_PIXELS):
            upright = policy.exif == "ignore" or not plain.sideways
            sides = (plain.height, plain.width) if upright else (plain.width, plain.height)
            return ImageSize(*sides, plain.animated)
        stream.seek(0)
        return _by_pillow(stream, source, policy)


def _by_pillow(stream: BinaryIO, source: Source, policy: ImagePolicy) -> ImageSize:
    with warnings.catch_warnings():
        # what Pillow warns of is either rejected here or of no importance for a size
        warnings.simplefilter("ignore")
        try:
            with Image.open(stream) as image:
                _check_pixels(image, source.name, policy.max_pixels)
                return _describe(image, stream, source.name, policy)
        except Rejection:
            raise
        except Image.DecompressionBombError as error:
            raise Rejection("media_too_large", f"{source.name}: {error}; shrink it") from error
        except Exception as error:
            # on damaged bytes Pillow's readers raise anything
            reason = str(error).partition(" <")[0] or type(error).__name__
            message = f"{source.name}: {reason}; replace the file"
            raise Rejection("media_undecodable", message) from error


def _check_pixels(image: Image.Image, name: str, limit: int) -> None:
    width, height = image.size
    if width * height > limit:
        message = f"{name}: {width}x{height} pixels, limit {limit}; shrink it"
        raise Rejection("media_too_large", message)


def _describe(image: Image.Image, stream: BinaryIO, name: str, policy: ImagePolicy) -> ImageSize:
    if image.mode in _NO_RGB:
        message = f"{name}: mode {image.mode} cannot become RGB; save it as RGB"
        raise Rejection("image_mode_unsupported", message)
    kind = image.format or ""
    width, height = image.size
    if policy.exif == "apply" and _turned(image, stream):
        width, height = height, width
    # the other pictures of an MPO file are previews and gain maps, not frames
    animated = kind != "MPO" and bool(getattr(image, "is_animated", False))
    if image_cut_short(kind, stream) or (kind == "TIFF" and _tiff_cut_short(image, stream)):
        message = f"{name}: the {kind} file is cut short; copy it again"
        raise Rejection("media_undecodable", message)
    if policy.decode:
        stream.seek(0)
        with Image.open(stream) as whole:
            whole.load()
    return ImageSize(height, width, animated)


def _turned(image: Image.Image, stream: BinaryIO) -> bool:
    if image.format == "TIFF":
        return False  # Pillow's header size is upright already
    if image.format == "PNG":
        image.info.update(_late_png_metadata(stream))
    # of the base class: `getexif` of a PNG decodes the whole image to find what was just found
    return Image.Image.getexif(image).get(_ORIENTATION) in SIDEWAYS


def _late_png_metadata(stream: BinaryIO) -> dict[str, Any]:
    """Read what may stand behind the pixels of a PNG, in the last 64 KiB."""
    tail = read_tail(stream)
    found: dict[str, Any] = {}
    for name in LATE:
        place = tail.find(name)
        while place >= 0:
            found |= _chunk_at(tail, place - (4 if name == b"eXIf" else 8))
            place = tail.find(name, place + 1)
    return found


def _chunk_at(tail: bytes, start: int) -> dict[str, Any]:
    """Read the chunk that may start there, with Pillow's own reader."""
    chunks: Any = PngImagePlugin.PngStream(io.BytesIO(tail[max(0, start) :]))
    try:
        kind, place, length = chunks.read()
        chunks.crc(kind, chunks.call(kind, place, length))
    except Exception:  # noqa: BLE001 - no chunk but pixels that happen to spell its name
        return {}
    return chunks.im_info


def _tiff_cut_short(image: Any, stream: BinaryIO) -> bool:  # noqa: ANN401 - TiffImageFile, after its format was asked
    size = stream.seek(0, io.SEEK_END)
    for starts, counts in (_STRIPS, _TILES):
        ends = zip(image.tag_v2.get(starts, ()), image.tag_v2.get(counts, ()), strict=False)
        if any(start + count > size for start, count in ends):
            return True
    return False
