"""mRoPE: three planes of positions for one sample, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from packcli.contract.model import ModelFacts, Rope
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class _Blocks(NamedTuple):
    """Runs of slots that each fill one grid, (n,) int64 unless said otherwise.

    Attributes:
        slots: (N,) the tokens of all blocks, block by block.
        starts: first token of each block.
        sides: (n, 3) slots: temporal, height, width.
        steps: (n,) float32, temporal positions per temporal patch.
    """

    slots: NDArray[np.int64]
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
    return mrope_planes(ids, tokens, (image_grids, video_grids), facts, seconds_per_grid)


def mrope_planes(
    input_ids: NDArray[np.integer],
    tokens: Offsets,
    grids: tuple[ArrayLike, ArrayLike],
    facts: ModelFacts,
    seconds_per_grid: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Return the positions of many samples, each from 0: `mrope` of all of them at once.

    Args:
        input_ids: (N,) int32, token ids of all samples.
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
    ids = np.asarray(input_ids)
    images = _place(ids, facts.image_token_id, _sides(grids[0], facts), "image")
    videos = _video_blocks(ids, _sides(grids[1], facts), facts, seconds_per_grid)
    if not images.starts.size + videos.starts.size:
        return np.tile(tokens.restarting(), (3, 1))
    blocks = _Blocks(
        np.concatenate([images.slots, videos.slots]),
        np.concatenate([images.starts, videos.starts]),
        np.concatenate([images.sides, videos.sides]),
        np.concatenate([images.steps, videos.steps]),
    )
    return _fill(tokens, blocks)


def _sides(grids: ArrayLike, facts: ModelFacts) -> NDArray[np.int64]:
    patches = np.asarray(grids, dtype=np.int64).reshape(-1, 3)
    if np.any(patches < 1) or np.any(patches[:, 1:] % facts.merge_size):
        raise ValueError(
            f"grids must be positive multiples of merge_size {facts.merge_size} in height and "
            f"width, found {patches.tolist()[:4]}"
        )
    return patches // np.array([1, facts.merge_size, facts.merge_size])


def _video_blocks(
    ids: NDArray[np.integer],
    sides: NDArray[np.int64],
    facts: ModelFacts,
    seconds_per_grid: ArrayLike | None,
) -> _Blocks:
    videos = sides.shape[0]
    if facts.rope is Rope.FRAMES:
        sides = np.repeat(sides, sides[:, 0], axis=0)
        sides[:, 0] = 1
    blocks = _place(ids, facts.video_token_id, sides, "video")
    if facts.rope is Rope.TIMED:
        # float32 throughout: upstream's seconds are a float32 tensor, and its product is cut off
        seconds = np.ones(videos) if seconds_per_grid is None else np.asarray(seconds_per_grid)
        if seconds.size != videos:
            raise ValueError(f"{videos} video grids need as many seconds, found {seconds.size}")
        steps = seconds.reshape(-1).astype(np.float32) * np.float32(facts.tokens_per_second)
        blocks = blocks._replace(steps=steps)
    return blocks


def _place(
    ids: NDArray[np.integer], token: int | None, sides: NDArray[np.int64], kind: str
) -> _Blocks:
    """Find where each grid's slots start; every one must be a run without a gap."""
    found = np.flatnonzero(ids == token) if token is not None else np.empty(0, dtype=np.int64)
    sizes = sides.prod(axis=1)
    ends = np.cumsum(sizes)
    needed = int(ends[-1]) if ends.size else 0
    if found.size != needed:
        raise ValueError(
            f"{found.size} {kind} slots, but the {sides.shape[0]} {kind} grids need {needed}"
        )
    starts = found[ends - sizes]
    broken = np.flatnonzero(found[ends - 1] - starts + 1 != sizes)
    if broken.size:
        raise ValueError(f"the slots of {kind} grid {int(broken[0])} do not stand side by side")
    return _Blocks(found, starts, sides, np.ones(sizes.size, dtype=np.float32))


def _fill(tokens: Offsets, blocks: _Blocks) -> NDArray[np.int32]:
    sizes = blocks.sides.prod(axis=1)
    ends = blocks.starts + sizes
    sample = np.searchsorted(tokens.ends, blocks.starts, side="right")
    if np.any(ends > tokens.ends[sample]):
        raise ValueError("the slots of a grid reach into the next sample")
    # a block advances the text after it by its longer side only, not by its slots
    text = _lagging(tokens, ends, sizes - blocks.sides[:, 1:].max(axis=1))
    planes = np.tile(text, (3, 1))
    base = text[blocks.starts]
    frames, rows, columns = blocks.sides.T
    lines = frames * rows
    # whole frames and lines are repeated, as dividing each slot's number costs ten times as much
    step = _counted(frames).astype(np.float32) * np.repeat(blocks.steps, frames)
    frame = np.repeat(base, frames) + step.astype(np.int64)
    planes[0, blocks.slots] = np.repeat(frame, np.repeat(rows * columns, frames))
    line = np.repeat(base, lines) + _counted(np.repeat(rows, frames))
    width = np.repeat(columns, lines)
    planes[1, blocks.slots] = np.repeat(line, width)
    planes[2, blocks.slots] = np.repeat(base, sizes) + _counted(width)
    return planes


def _counted(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """0, 1, 2, … starting again at every length."""
    return Offsets.from_lengths(lengths).restarting()


def _lagging(
    tokens: Offsets, ends: NDArray[np.int64], saved: NDArray[np.int64]
) -> NDArray[np.int32]:
    """(N,) int32, positions of text, each sample from 0, behind by what blocks before it saved."""
    order = np.argsort(ends)
    lag = np.concatenate([[0], np.cumsum(saved[order])]).astype(np.int32)
    told = np.diff(ends[order], prepend=0, append=tokens.total)
    text = np.arange(tokens.total, dtype=np.int32) - np.repeat(lag, told)
    # what a sample saved is told at its end, which is where the next one starts from 0 again
    text -= np.repeat(text[tokens.starts], tokens.lengths)
    return text
