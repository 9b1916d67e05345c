"""Pixel limits under which a processor resizes to exactly the grid that encode wrote."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from packcli.families.processors.resize import Clip, ClipBudget, fit_image, fit_volume

if TYPE_CHECKING:
    from collections.abc import Iterator

_NONE = 2**40
"""More pixels than any limit."""
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Resizing:
    """A resize whose outcome is known.

    Attributes:
        height: pixels before.
        width: pixels before.
        new_height: pixels of the stored grid.
        new_width: pixels of the stored grid.
        factor: pixels per side of a slot.
        frames: frames whose volume is limited; 0 where one image or frame is limited.
        temporal: frames per temporal patch.
    """

    height: int
    width: int
    new_height: int
    new_width: int
    factor: int
    frames: int = 0
    temporal: int = 2

    def limits(self) -> tuple[int, int] | None:
        """Return least and most pixels that lead to the outcome, None when none do.

        The rule rounds both sides to `factor`; if that is too much or too little, it scales both
        sides by one number and rounds down or up. Given the outcome that number lies in an
        interval, whose end is tried. So limits set by a call or record at encode need not be
        known here. Inverts transformers' `smart_resize` (models/qwen2_vl, models/qwen3_vl).
        """
        for least, most in self._tries():
            if self._fit(least, most) == (self.new_height, self.new_width):
                return least, most
        return None

    def _tries(self) -> Iterator[tuple[int, int]]:
        yield 1, _NONE
        old, new = self._start(), (self.new_height, self.new_width)
        scale = max(self.frames, 1) * old[0] * old[1]
        shares = [(after / before) ** 2 for after, before in zip(new, old, strict=True)]
        # a side of one slot was perhaps raised to it: it then says nothing of the scale
        shrunk = [s for s, side in zip(shares, new, strict=True) if side > self.factor]
        yield 1, ceil(scale * max(shrunk, default=0) * (1 + _SLACK)) or 1
        yield floor(scale * min(shares) * (1 - _SLACK)), _NONE

    def _start(self) -> tuple[float, float]:
        """Return the sides that are scaled: clips start with at least one slot."""
        grow = max(1.0, self.factor / self.height, self.factor / self.width)
        if not self.frames or grow == 1:
            return self.height, self.width
        return int(self.height * grow), int(self.width * grow)

    def _fit(self, least: int, most: int) -> tuple[int, int]:
        if not self.frames:
            return fit_image(self.height, self.width, self.factor, least, most)
        clip = Clip(self.frames, self.height, self.width)
        return fit_volume(clip, ClipBudget(self.factor, self.temporal, least, most))
