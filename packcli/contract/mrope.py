"""mRoPE: three planes of positions for one sample, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.model import ModelFacts, Rope
from packcli.contract.offsets import Offsets
from packcli.contract.slot_runs import slot_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from packcli.contract.slot_runs import SlotRuns


class _Blocks(NamedTuple):
    """Blocks: runs of slots that each fill one grid, (n,) int64 unless said otherwise.

    Attributes:
        starts: first token of each block.
        sides: (n, 3) slots: temporal, height, width.
        steps: (n,) float32, temporal positions per temporal patch.
    """

    starts: NDArray[np.int64]
    sides: NDArray[np.int64]
    steps: NDArray[np.float32]


def mrope(
    input_ids: NDArray[np.integer],
    image_grids: ArrayLike,
    video_grids: ArrayLike,
    facts: ModelFacts,
    seconds_per_grid: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Return the positions of one sample, from 0.

    Matches transformers' `get_rope_index` (models/qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5).
    Blocks are told apart by the grids, so two media may touch; upstream fails on those.

    Args:
        input_ids: (T,) int32, token ids.
        image_grids: (n, 3) patches, in the order of their slots.
        video_grids: (m, 3) patches, in the order of their slots.
        facts: the model.
        seconds_per_grid: (m,) float64, seconds per temporal patch; None means 1.

    Returns:
        (3, T) int32: temporal, height and width plane.

    Raises:
        ValueError: slots and grids do not match, or the model has no mRoPE.
    """
    ids = np.asarray(input_ids)
    tokens = Offsets.from_lengths([ids.size])
    slots = slot_runs(ids, facts)
    return mrope_planes(slots, tokens, (image_grids, video_grids), facts, seconds_per_grid)


def mrope_planes(
    slots: Mapping[str, SlotRuns],
    tokens: Offsets,
    grids: tuple[ArrayLike, ArrayLike],
    facts: ModelFacts,
    seconds_per_grid: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Return the positions of many samples, each from 0: `mrope` of all of them at once.

    Args:
        slots: of images and videos, by tokens of all samples.
        tokens: S segments over N tokens.
        grids: images (n, 3) and videos (m, 3), patches, in the order of their slots.
        facts: the model.
        seconds_per_grid: (m,) float64, seconds per temporal patch; None means 1.

    Returns:
        (3, N) int32: temporal, height and width plane.

    Raises:
        ValueError: slots and grids do not match, or the model has no mRoPE.
    """
    if facts.rope is Rope.TEXT:
        raise ValueError(f"family {facts.family} has one plane of positions, not three")
    images = _place(slots["image"], _sides(grids[0], facts), "image")
    videos = _video_blocks(slots["video"], _sides(grids[1], facts), facts, seconds_per_grid)
    if not images.starts.size + videos.starts.size:
        return np.broadcast_to(tokens.restarting(), (3, tokens.total))
    starts = np.concatenate([images.starts, videos.starts])
    sides = np.concatenate([images.sides, videos.sides])
    steps = np.concatenate([images.steps, videos.steps])
    order = np.argsort(starts)
    return _fill(tokens, _Blocks(starts[order], sides[order], steps[order]))


def _sides(grids: ArrayLike, facts: ModelFacts) -> NDArray[np.int64]:
    patches = np.asarray(grids, dtype=np.int64).reshape(-1, 3)
    if np.any(patches < 1) or np.any(patches[:, 1:] % facts.merge_size):
        raise ValueError(
            f"grids must be positive multiples of merge_size {facts.merge_size} in height and "
            f"width, found {patches.tolist()[:4]}"
        )
    return patches // np.array([1, facts.merge_size, facts.merge_size])


def _video_blocks(
    runs: SlotRuns,
    sides: NDArray[np.int64],
    facts: ModelFacts,
    seconds_per_grid: ArrayLike | None,
) -> _Blocks:
    videos = sides.shape[0]
    if facts.rope is Rope.FRAMES:
        sides = np.repeat(sides, sides[:, 0], axis=0)
        sides[:, 0] = 1
    blocks = _place(runs, sides, "video")
    if facts.rope is Rope.TIMED:
        # float32 throughout: upstream's seconds are a float32 tensor, and its product is cut off
        seconds = np.ones(videos) if seconds_per_grid is None else np.asarray(seconds_per_grid)
        if seconds.size != videos:
            raise ValueError(f"{videos} video grids need as many seconds, found {seconds.size}")
        steps = seconds.reshape(-1).astype(np.float32) * np.float32(facts.tokens_per_second)
        blocks = blocks._replace(steps=steps)
    return blocks


def _place(runs: SlotRuns, sides: NDArray[np.int64], kind: str) -> _Blocks:
    """Find where each grid's slots start; every one must stand in a run without a gap."""
    sizes = sides.prod(axis=1)
    ends = np.cumsum(sizes)
    needed = int(ends[-1]) if ends.size else 0
    if runs.total != needed:
        raise ValueError(
            f"{runs.total} {kind} slots, but the {sides.shape[0]} {kind} grids need {needed}"
        )
    starts = runs.places(ends - sizes)
    broken = np.flatnonzero(runs.places(ends - 1) - starts + 1 != sizes)
    if broken.size:
        raise ValueError(f"the slots of {kind} grid {int(broken[0])} do not stand side by side")
    return _Blocks(starts, sides, np.ones(sizes.size, dtype=np.float32))


def _fill(tokens: Offsets, blocks: _Blocks) -> NDArray[np.int32]:
    frames, rows, columns = blocks.sides.T
    areas = rows * columns
    sizes = frames * areas
    ends = blocks.starts + sizes
    sample = np.searchsorted(tokens.ends, blocks.starts, side="right")
    if np.any(ends > tokens.ends[sample]):
        raise ValueError("the slots of a grid reach into the next sample")
    # a block advances the text after it by its longer side only, not by its slots
    text = _lagging(tokens, ends, sizes - np.maximum(rows, columns))
    base, lines = text[blocks.starts], frames * rows
    gaps = np.append(blocks.starts, tokens.total)
    gaps[1:] -= ends
    step = _counted(frames).astype(np.float32) * np.repeat(blocks.steps, frames)
    frame = np.repeat(base, frames) + step.astype(np.int64)
    line = np.repeat(base, lines) + _counted(np.repeat(rows, frames))
    before = _counted(lines) * np.repeat(columns, lines)
    by_frame, by_line = _parts(gaps, frames, areas), _parts(gaps, lines, columns)
    planes = np.empty((3, tokens.total), dtype=np.int32)
    np.multiply(text, by_frame.over(np.zeros(frame.size), 1), out=planes[0])
    np.add(planes[0], by_line.over(line, 0), out=planes[1])
    planes[0] += by_frame.over(frame, 0)
    # text counts on inside a block, and a line starts again from the block's base
    np.subtract(text, by_line.over(before, 0), out=planes[2])
    return planes


class _Parts(NamedTuple):
    """All tokens as the text before each block, its parts, …, and the text behind the last.

    Attributes:
        widths: (m,) int64, tokens of each.
        text: (m,) bool, those that are text.
    """

    widths: NDArray[np.int64]
    text: NDArray[np.bool_]

    def over(self, values: NDArray[np.number], outside: int) -> NDArray[np.int32]:
        """(N,) int32, the value of the part that each token is in, and `outside` in text."""
        told = np.full(self.text.size, outside, dtype=np.int32)
        told[~self.text] = values
        return np.repeat(told, self.widths)


def _parts(gaps: NDArray[np.int64], counts: NDArray[np.int64], widths: NDArray[np.int64]) -> _Parts:
    """Cut n blocks into parts.

    Args:
        gaps: (n + 1,) tokens of text before each block, and behind the last.
        counts: (n,) parts of each block.
        widths: (n,) tokens of each of its parts.
    """
    text = np.zeros(int(counts.sum()) + gaps.size, dtype=bool)
    text[0] = True
    text[np.cumsum(counts + 1)] = True
    told = np.empty(text.size, dtype=np.int64)
    told[text] = gaps
    told[~text] = np.repeat(widths, counts)
    return _Parts(told, text)


def _counted(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """0, 1, 2, … starting again at every length."""
    return Offsets.from_lengths(lengths).restarting()


def _lagging(
    tokens: Offsets, ends: NDArray[np.int64], saved: NDArray[np.int64]
) -> NDArray[np.int32]:
    """(N,) int32, positions of text, each sample from 0, behind by what blocks before it saved."""
    lag = np.concatenate([[0], np.cumsum(saved)]).astype(np.int32)
    text = np.arange(tokens.total, dtype=np.int32)
    text -= np.repeat(lag, np.diff(ends, prepend=0, append=tokens.total))
    # what a sample saved is told at its end, which is where the next one starts from 0 again
    text -= np.repeat(text[tokens.starts], tokens.lengths)
    return text
