"""Images shown once as a whole and once in tiles whose padding is cut off again (LLaVA-NeXT)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import InputError
from packcli.families.processors.model_files import sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packcli.families.family import Setting
    from packcli.families.processors.model_files import ModelFiles

Size = tuple[int, int]
"""Height and width."""

_SLACK = 1.1


@dataclass(frozen=True, slots=True)
class AnyResolution:
    """How an image of any size is cut up.

    Attributes:
        canvases: heights and widths that an image may be brought to, pixels.
        tile: height and width of a tile, pixels.
        patches: rows and columns of patches in a tile.
        most_tiles: tiles whose patches may be kept, None for all of them.
    """

    canvases: Sequence[Size]
    tile: Size
    patches: Size
    most_tiles: int | None = None

    @property
    def settings(self) -> dict[str, Setting]:
        """What decides lengths."""
        return {
            "canvases": " ".join(f"{rows}x{columns}" for rows, columns in self.canvases),
            "tile_height": self.tile[0],
            "tile_width": self.tile[1],
            "tile_rows": self.patches[0],
            "tile_columns": self.patches[1],
            "most_tiles": self.most_tiles,
        }

    def features(self, height: int, width: int) -> int:
        """Count patches of the tiles, padding cut off, and one line end for each of their rows.

        Matches transformers' `_get_number_of_features` without the overview (models/llava_next,
        models/llava_onevision).
        """
        canvas = best_canvas(height, width, self.canvases)
        rows = self.patches[0] * (canvas[0] // self.tile[0])
        columns = self.patches[1] * (canvas[1] // self.tile[1])
        rows, columns = _without_padding(height, width, (rows, columns))
        if self.most_tiles is not None:
            ratio = sqrt(rows * columns / (self.most_tiles * self.patches[0] ** 2))
            if ratio > _SLACK:
                rows, columns = int(rows // ratio), int(columns // ratio)
        return rows * columns + rows


def read_canvases(files: ModelFiles, default: Sequence[Size]) -> tuple[Size, ...]:
    """Return the `image_grid_pinpoints` of the image processor.

    Raises:
        InputError: they are no list of heights and widths.
    """
    found = files.image.get("image_grid_pinpoints")
    if found is None:
        return tuple(default)
    if not isinstance(found, list) or not found:
        raise InputError(f"{files.directory}: image_grid_pinpoints must be a list of sizes")
    return tuple(sides({"pinpoint": size}, "pinpoint") for size in cast("list[Any]", found))


def best_canvas(height: int, width: int, canvases: Sequence[Size]) -> Size:
    """Choose the canvas that keeps most of the image, and of these the one that wastes least.

    Matches transformers' `select_best_resolution` (image_processing_utils).
    """

    def merit(canvas: Size) -> tuple[int, int]:
        scale = min(canvas[1] / width, canvas[0] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - canvas[0] * canvas[1]

    return max(canvases, key=merit)


def _without_padding(height: int, width: int, patches: Size) -> Size:
    rows, columns = patches
    if width / height > columns / rows:
        # upstream rounds to seven digits before cutting off
        kept = int(round(height * (columns / width), 7))
        return rows - (rows - kept) // 2 * 2, columns
    kept = int(round(width * (rows / height), 7))
    return rows, columns - (columns - kept) // 2 * 2
