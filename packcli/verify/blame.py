"""From wrong rows to the samples concerned: who sees whom, who is split, and from which token."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from packcli.verify.bounds import Fault
from packcli.verify.oracle import TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.verify.bounds import PackBounds
    from packcli.verify.oracle import Measured, Oracle

MOST_FAULTS = 50
"""Faults named for one pack; a broken pack of a thousand samples needs no thousand lines."""


class _Cause(IntEnum):
    SEES_PREVIOUS = 0
    SEES_NEXT = 1
    SPLIT = 2
    KERNEL = 3


def faults(measured: Measured, bounds: PackBounds, oracle: Oracle) -> tuple[Fault, ...]:
    """Name the samples behind the wrong rows, each cause of each sample once.

    Only rows whose output is wrong are considered; the stored boundaries then tell why. Where
    these are right the kernel is to blame, and the codes in its output tell whom it read.

    Args:
        measured: a run with the stored boundaries of `bounds`.
        bounds: T tokens.
        oracle: the design that was run.
    """
    tokens = np.flatnonzero(measured.wrong)
    if tokens.size == 0:
        return ()
    samples = bounds.expected.segment_ids()[tokens].astype(np.int64)
    causes = _causes(tokens, samples, bounds, causal=oracle.causal)
    _, first = np.unique(samples * len(_Cause) + causes, return_index=True)
    found: list[Fault] = []
    for index in np.sort(first)[:MOST_FAULTS].tolist():
        where = (int(tokens[index]), int(samples[index]))
        found.append(_fault(_Cause(int(causes[index])), where, (measured, bounds, oracle)))
    return tuple(found)


def _causes(
    tokens: NDArray[np.int64], samples: NDArray[np.int64], bounds: PackBounds, *, causal: bool
) -> NDArray[np.int64]:
    segment = np.searchsorted(bounds.cu_seqlens, tokens, side="right") - 1
    start = bounds.cu_seqlens[segment]
    end = bounds.cu_seqlens[segment + 1]
    own_start, own_end = bounds.expected.starts[samples], bounds.expected.ends[samples]
    after = np.zeros_like(tokens, dtype=bool) if causal else end > own_end
    cut = start > own_start if causal else (start > own_start) | (end < own_end)
    chosen = np.select(
        [start < own_start, after, cut],
        [_Cause.SEES_PREVIOUS, _Cause.SEES_NEXT, _Cause.SPLIT],
        default=_Cause.KERNEL,
    )
    return chosen.astype(np.int64)


def _fault(
    cause: _Cause, where: tuple[int, int], run: tuple[Measured, PackBounds, Oracle]
) -> Fault:
    token, sample = where
    measured, bounds, oracle = run
    name, unit = bounds.title(sample), bounds.words.unit
    if cause is _Cause.SPLIT:
        cut = _first_cut(bounds, sample)
        return Fault(cut, sample, None, "split", f"{name} is split at {unit} {cut}")
    if cause is not _Cause.KERNEL:
        other = sample - 1 if cause is _Cause.SEES_PREVIOUS else sample + 1
        message = f"{name} sees {bounds.title(other)} from {unit} {token}"
        return Fault(token, sample, other, "sees", message)
    seen = seen_sample(measured.residual(token), sample, oracle.codes(len(bounds.expected)))
    blame = f"at {unit} {token} although {bounds.words.column} is right: the kernel is at fault"
    if seen is None:
        text = f"{name} does not see what it should {blame}"
        return Fault(token, sample, None, "split", text)
    text = f"{name} sees {bounds.title(seen)} {blame}"
    return Fault(token, sample, seen, "sees", text)


def _first_cut(bounds: PackBounds, sample: int) -> int:
    start = bounds.expected.starts[sample]
    return int(bounds.cu_seqlens[np.searchsorted(bounds.cu_seqlens, start, side="right")])


def seen_sample(
    residual: NDArray[np.float32], sample: int, codes: NDArray[np.float32]
) -> int | None:
    """Return the sample whose code stands out in a residual besides the row's own.

    Args:
        residual: (channels,) float32, how far the row is off.
        sample: the sample that holds the row.
        codes: (B, width) float32, in the last `width` channels of the residual.
    """
    part = np.nan_to_num(residual[-codes.shape[1] :])
    own = codes[sample]
    foreign = part - own * (part @ own) / own.size
    if np.abs(foreign).max(initial=0) <= TOLERANCE:
        return None
    weight = codes @ foreign
    weight[sample] = -np.inf
    return int(weight.argmax())
