"""How many tiles of one size an image is cut into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt
from typing import TYPE_CHECKING

from packcli.families.family import ImagePlan

if TYPE_CHECKING:
    from packcli.contract.model import Grid

Tiling = tuple[int, int]
"""Rows and columns of tiles."""

_COVERED = 0.9
_LARGEST_SIDE = 4096


@dataclass(frozen=True, slots=True)
class Tile:
    """What one tile is worth.

    Attributes:
        rows: patches.
        columns: patches.
        merge_size: patches per side of a slot.
    """

    rows: int
    columns: int
    merge_size: int

    @property
    def slots(self) -> int:
        """Token slots of one tile."""
        return self.rows * self.columns // self.merge_size**2

    def grid(self, count: int = 1) -> Grid:
        """Return the patches of so many tiles."""
        return count, self.rows, self.columns

    def plan(self, tiles: Tiling) -> ImagePlan:
        """Return the plan of an image cut up; more than one tile come with an overview."""
        count = tiles[0] * tiles[1]
        return ImagePlan(self.grid(count + 1 if count > 1 else 1), tiles)


def tile_of(slots: int, pixels: int, patch_size: int) -> Tile:
    """Tell the patches of a tile whose slots the processor states.

    Args:
        slots: token slots of one tile.
        pixels: side of a tile.
        patch_size: pixels per side of a patch.
    """
    side, patches = isqrt(slots), pixels // patch_size
    if side * side != slots:
        return Tile(1, slots, 1)
    merge = patches // side
    return Tile(patches, patches, merge) if merge * side == patches else Tile(side, side, 1)


@cache
def tilings(least: int, most: int) -> tuple[Tiling, ...]:
    """Return every tiling of `least` to `most` tiles, small ones first."""
    every = ((rows, columns) for columns in range(1, most + 1) for rows in range(1, most + 1))
    return tuple(sorted((t for t in every if least <= t[0] * t[1] <= most), key=_count))


def closest_shape(height: int, width: int, tile: tuple[int, int], among: range) -> Tiling:
    """Choose the tiling whose shape is most like the image's.

    Matches transformers' `get_optimal_tiled_canvas` (models/got_ocr2, which InternVL and Aya
    Vision use): of equal shapes, more tiles win while the image fills more than half of them.

    Args:
        height: pixels.
        width: pixels.
        tile: height and width of a tile, pixels.
        among: counts of tiles that are allowed.
    """
    best, least = (1, 1), float("inf")
    for rows, columns in tilings(among.start, among.stop - 1):
        difference = abs(width / height - columns / rows)
        filled = width * height > 0.5 * tile[0] * tile[1] * rows * columns
        if difference < least or (difference == least and filled):
            best, least = (rows, columns), difference
    return best


def least_enlarged(height: int, width: int, tile: int, most: int) -> Tiling:
    """Choose the tiling that needs the least enlarging, else the least shrinking.

    Matches transformers' `get_optimal_tiled_canvas` (models/cohere2_vision).

    Args:
        height: pixels.
        width: pixels.
        tile: pixels per side of a tile.
        most: tiles, at most.
    """
    scales = {
        (rows, columns): min(columns * tile / width, rows * tile / height)
        for rows, columns in tilings(1, most)
    }
    enlarging = {tiling: scale for tiling, scale in scales.items() if scale >= 1}
    if enlarging:
        return min(enlarging, key=enlarging.__getitem__)
    return max(scales, key=scales.__getitem__)


def covering(height: int, width: int, tile: int, most: int) -> Tiling:
    """Choose the fewest tiles that show nine tenths of the image without shrinking it.

    Matches transformers' `get_min_tile_covering_grid` (models/ovis2).

    Args:
        height: pixels.
        width: pixels.
        tile: pixels per side of a tile.
        most: tiles, at most.
    """
    shown = {
        (rows, columns): _shown(height, width, (columns, rows), tile) / (width * height)
        for rows, columns in tilings(1, most)
    }
    enough = [tiling for tiling in shown if shown[tiling] > _COVERED]
    if enough:
        return min(enough, key=lambda tiling: (_count(tiling), -shown[tiling]))
    return min(shown, key=lambda tiling: (-shown[tiling], _count(tiling)))


def _shown(height: int, width: int, cuts: tuple[int, int], tile: int) -> float:
    """Pixels that stay when every piece is shrunk to a tile.

    Upstream cuts the height by the tiling's columns and the width by its rows; so do we.
    """
    heights = _pieces(height, cuts[0])
    widths = _pieces(width, cuts[1])
    return sum(_kept(max(h, w), min(h, w), tile) for h in heights for w in widths)


def _pieces(side: int, count: int) -> list[int]:
    each = side // count
    return [each] * (count - 1) + [side - each * (count - 1)]


def _kept(long: int, short: int, tile: int) -> float:
    return short / long * tile * tile if long > tile else long * short


def longest_edge_tiles(height: int, width: int, longest: int, tile: int) -> Tiling:
    """Bring the longer side to a length, and cut both sides into tiles.

    Matches transformers' `resize`, `resize_for_vision_encoder` and `split_images`
    (models/idefics3): sides are cut off, then made even, then filled up to whole tiles.

    Args:
        height: pixels.
        width: pixels.
        longest: pixels of the longer side.
        tile: pixels per side of a tile.

    Returns:
        Rows and columns; (1, 1) is not split.
    """
    height, width = _brought_to(height, width, longest)
    height, width = max(height + height % 2, 1), max(width + width % 2, 1)
    if max(height, width) > _LARGEST_SIDE:
        height, width = _brought_to(height, width, _LARGEST_SIDE)
    filled = ceil(max(height, width) / tile) * tile
    height, width = _brought_to(max(height, 1), max(width, 1), filled)
    return max(ceil(height / tile), 1), max(ceil(width / tile), 1)


def _brought_to(height: int, width: int, longest: int) -> tuple[int, int]:
    # one ratio for both shapes, multiplied or divided by: the other way rounds otherwise
    ratio = width / height
    if width >= height:
        return int(longest / ratio), longest
    return longest, int(longest * ratio)


def _count(tiling: Tiling) -> int:
    return tiling[0] * tiling[1]
