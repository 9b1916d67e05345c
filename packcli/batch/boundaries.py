"""Boundaries as other trainers compile them from what a batch holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray


def compile_boundaries(
    position_ids: ArrayLike, by: Literal["zero", "minimum"] = "zero"
) -> NDArray[np.int32]:
    """Find where samples start in a plane of positions.

    By ``minimum`` matches transformers' `prepare_fa_kwargs_from_position_ids`
    (modeling_flash_attention_utils); by ``zero`` ms-swift's and Megatron's compilation for
    packed sequences. On a text plane both give the stored `cu_seqlens`.

    Args:
        position_ids: (T,) or (1, T) integers; of several planes give the text plane.
        by: a sample starts where the position is 0, or where it is the smallest of all.

    Returns:
        (B + 1,) int32, tokens.

    Raises:
        ValueError: more than one plane, no tokens, or a first token that starts no sample.
    """
    plane = np.asarray(position_ids)
    if plane.ndim > 1 and plane.size != plane.shape[-1]:
        raise ValueError(f"one plane of positions is needed, found shape {plane.shape}")
    flat = plane.reshape(-1)
    if not flat.size:
        raise ValueError("no tokens")
    least = 0 if by == "zero" else flat.min()
    starts = np.flatnonzero(flat == least)
    if not starts.size or starts[0]:
        raise ValueError(f"the first position is {flat[0]}: no sample starts there")
    return Offsets.from_values(np.append(starts, flat.size)).values


def cross_problems(
    query: ArrayLike, key: ArrayLike, query_tokens: int, key_tokens: int
) -> Iterator[str]:
    """Yield what is wrong with boundaries for attention from one sequence to another.

    A varlen kernel pairs slice i of the queries with slice i of the keys, so both need as many
    slices; a slice of keys may be empty only where no query asks for it.

    Args:
        query: (B + 1,) integers, tokens.
        key: (B + 1,) integers, tokens of the sequence that is attended to.
        query_tokens: tokens of the query sequence.
        key_tokens: tokens of the key sequence.
    """
    sides: list[Offsets] = []
    for name, values, total in (("query", query, query_tokens), ("key", key, key_tokens)):
        try:
            side = Offsets.from_values(values)
        except ValueError as error:
            yield f"{name} boundaries: {error}"
            continue
        if side.total != total:
            yield f"{name} boundaries end at {side.total}, the sequence at {total}"
        sides.append(side)
    if len(sides) < 2:  # noqa: PLR2004 - queries and keys
        return
    asked, held = sides
    if len(asked) != len(held):
        yield f"{len(asked)} query slices but {len(held)} key slices: pairs shift silently"
        return
    bare = np.flatnonzero((asked.lengths > 0) & (held.lengths == 0))
    if bare.size:
        yield f"query slice {int(bare[0])} has no keys: its output is no number"
