"""Patch positions of canvases, read from the `.npy` files beside them."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import Rejection
from packcli.contract.vit import block_order
from packcli.encode.media.sources import locate
from packcli.encode.records.conversation import MediaRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import Grid
    from packcli.encode.media.sources import MediaRoot, Source

_COLUMNS = 3
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def beside(images: Sequence[MediaRef], root: MediaRoot) -> list[MediaRef | None]:
    """Find the file of positions of every image: named by the record, else of the same stem.

    Raises:
        Rejection: `bad_media_ref`, some images have one and others have none.
    """
    found = [image.positions or _sibling(image, root) for image in images]
    if any(found) and not all(found):
        name = next(image.uri for image, file in zip(images, found, strict=True) if file is None)
        message = f"{name} has no .npy of patch positions beside it, other images have"
        raise Rejection("bad_media_ref", f"{message}; write it, or remove the others")
    return found


def _sibling(image: MediaRef, root: MediaRoot) -> MediaRef | None:
    if not image.uri or ":" in image.uri[:8]:
        return None
    file = MediaRef("image", uri=str(PurePath(image.uri).with_suffix(".npy")))
    try:
        locate(file, root)
    except Rejection:
        return None
    return file


def read_positions(sources: Sequence[Source], grid: Grid, merge_size: int) -> NDArray[np.int64]:
    """Read where the patches of all canvases stand.

    Args:
        sources: one file a canvas: (h * w, 3) integers, time index, row and column, row-major.
        grid: patches: canvases, height and width of each.
        merge_size: patches per side of a slot.

    Returns:
        (t * h * w, 3) int64, in the order of the pixels, merger block by merger block.

    Raises:
        Rejection: `bad_media_ref`, a file is no such array, or was brought into block order.
    """
    _, rows, columns = grid
    parts = [_array(source, rows * columns) for source in sources]
    order = block_order((1, rows, columns), merge_size)
    in_blocks = np.indices((rows, columns)).reshape(2, -1).T[order]
    for source, part in zip(sources, parts, strict=True):
        if merge_size > 1 and np.array_equal(part[:, 1:], in_blocks) and rows > 1 < columns:
            message = f"{source.name} is in the order of merger blocks"
            raise Rejection("bad_media_ref", f"{message}; store it row by row")
    return np.concatenate(parts)[block_order(grid, merge_size)]


def _array(source: Source, patches: int) -> NDArray[np.int64]:
    """Read the positions of one canvas, whose size is known: a header may claim any."""
    try:
        with source.open() as stream:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
            if dtype.kind not in "iu" or shape != (patches, _COLUMNS):
                message = f"{source.name} holds {dtype} {shape}, not whole numbers ({patches}, 3)"
                remedy = "store time index, row and column of every patch of this model's size"
                raise Rejection("bad_media_ref", f"{message}; {remedy}")
            stream.seek(0)
            array = np.load(stream, allow_pickle=False)
    except (ValueError, KeyError, EOFError, OSError) as error:
        message = f"{source.name} is no .npy file ({error!s:.80}); write it with numpy.save"
        raise Rejection("bad_media_ref", message) from None
    if (array < 0).any() or (array > np.iinfo(np.int32).max).any():
        message = f"{source.name} holds numbers below 0 or beyond 32 bits"
        raise Rejection("bad_media_ref", f"{message}; count frames and patches from 0")
    return array.astype(np.int64)
