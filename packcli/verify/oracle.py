"""Designed inputs whose right output is known in closed form, from independent boundaries.

Comparing a kernel with slices by the same `cu_seqlens` always passes. Here every sample has a
code of +-1, inputs are built from the *expected* boundaries, and the kernel gets the *stored*
ones: any row that reads another sample, or not all of its own, moves by 1/2 or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from packcli.verify.bounds import SAMPLES, Words
from packcli.verify.bounds import WINDOWS as WINDOW_WORDS
from packcli.verify.probe import AttentionProbe, ConvProbe, StateProbe

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from packcli.contract.offsets import Offsets
    from packcli.verify.probe import Kernel, Kind

OracleKind = Literal["attention", "state", "conv", "windows"]

TOLERANCE = 0.05
"""Between clean (<= 0.002 in any dtype) and the smallest fault (0.5): ten times off both."""

_SEED = 2026
_QUERY_HEADS, _KEY_HEADS, _HEAD_WIDTH = 2, 1, 32
# exp(-24) per other key: 131,072 of them together weigh 5e-6 beside a marked key.
_MARK = 24.0
_CHANNELS = 64
_TAPS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What a kernel is told about the segments.

    Attributes:
        cu_seqlens: (B + 1,) int32, tokens.
        max_seqlen: int, tokens.
    """

    cu_seqlens: NDArray[np.integer]
    max_seqlen: int


@dataclass(frozen=True, slots=True)
class Oracle:
    """One design: how to build the input, and what must come out.

    Attributes:
        kind: what a result calls it.
        kernel_kind: which kernels it can be run on.
        causal: whether rows see only what stands before them.
        codes_from: first channel of the output that carries codes.
        probe: kernel input for (expected boundaries, stored ones, dtype).
        answer: (T, channels) float32, the right output for expected boundaries.
        words: what messages call segments and rows.
    """

    kind: OracleKind
    kernel_kind: Kind
    causal: bool
    codes_from: int
    probe: Callable[[Offsets, Stored, str], Any]
    answer: Callable[[Offsets], NDArray[np.float32]]
    words: Words = SAMPLES

    def codes(self, count: int) -> NDArray[np.float32]:
        """(count, channels) float32, the codes of the samples."""
        width = _CHANNELS if self.codes_from == 0 else _HEAD_WIDTH - self.codes_from
        return codes(count, width)


def codes(count: int, width: int) -> NDArray[np.float32]:
    """Return one code of +-1 per sample; channel 0 differs between neighbours.

    Args:
        count: samples.
        width: channels.

    Returns:
        (count, width) float32.
    """
    bits = np.random.default_rng(_SEED).integers(0, 2, (count, width), dtype=np.int8)
    bits[:, 0] = np.arange(count) % 2
    return (1 - 2 * bits).astype(np.float32)


def _per_token(values: NDArray[np.float32], expected: Offsets) -> NDArray[np.float32]:
    return np.repeat(values, expected.lengths, axis=0)


def _attention_probe(expected: Offsets, stored: Stored, dtype: str) -> AttentionProbe:
    """Mark first and last token of each sample; only the first carries weight in channel 0."""
    total = expected.total
    query = np.zeros((total, _QUERY_HEADS, _HEAD_WIDTH), dtype=np.float32)
    key = np.zeros((total, _KEY_HEADS, _HEAD_WIDTH), dtype=np.float32)
    value = np.zeros_like(key)
    query[:, :, 0] = _HEAD_WIDTH**0.5
    key[expected.starts, :, 0] = _MARK
    key[expected.ends - 1, :, 0] = _MARK
    value[:, :, 1:] = _per_token(codes(len(expected), _HEAD_WIDTH - 1), expected)[:, None]
    value[expected.starts, :, 0] = 1
    return AttentionProbe(
        query, key, value, stored.cu_seqlens, stored.max_seqlen, causal=True, dtype=dtype
    )


def _windows_probe(expected: Offsets, stored: Stored, dtype: str) -> AttentionProbe:
    causal = _attention_probe(expected, stored, dtype)
    return AttentionProbe(
        causal.query,
        causal.key,
        causal.value,
        stored.cu_seqlens,
        stored.max_seqlen,
        causal=False,
        dtype=dtype,
    )


def _with_codes(weight: NDArray[np.float32], expected: Offsets) -> NDArray[np.float32]:
    own = _per_token(codes(len(expected), _HEAD_WIDTH - 1), expected)
    return np.concatenate([weight[:, None], own], axis=1)


def _attention_answer(expected: Offsets) -> NDArray[np.float32]:
    """All weight on the own first token; the last token shares it with itself."""
    weight = np.ones(expected.total, dtype=np.float32)
    weight[expected.ends[expected.lengths > 1] - 1] = 0.5
    return _with_codes(weight, expected)


def _windows_answer(expected: Offsets) -> NDArray[np.float32]:
    """Every row shares its weight between first and last token of its window."""
    weight = np.where(expected.lengths > 1, 0.5, 1).astype(np.float32)
    return _with_codes(_per_token(weight, expected), expected)


def _state_probe(expected: Offsets, stored: Stored, dtype: str) -> StateProbe:
    """Write the code at first and last token, each into a slot of its own, and read all slots."""
    total, count = expected.total, len(expected)
    key = np.zeros((total, 1, _CHANNELS), dtype=np.float32)
    beta = np.zeros((total, 1), dtype=np.float32)
    slots = 2 * np.arange(count) % _CHANNELS
    for rows, at in ((expected.starts, slots), (expected.ends - 1, (slots + 1) % _CHANNELS)):
        key[rows] = 0
        key[rows, 0, at] = 1
        beta[rows] = 1
    return StateProbe(
        query=np.full((total, 1, _CHANNELS), _CHANNELS**0.5, dtype=np.float32),
        key=key,
        value=_per_token(codes(count, _CHANNELS), expected)[:, None],
        decay=np.zeros((total, 1), dtype=np.float32),
        beta=beta,
        cu_seqlens=stored.cu_seqlens,
        dtype=dtype,
    )


def _state_answer(expected: Offsets) -> NDArray[np.float32]:
    """The code once from the first write on, twice after the last."""
    own = _per_token(codes(len(expected), _CHANNELS), expected)
    own[expected.ends[expected.lengths > 1] - 1] *= 2
    return own


def _conv_probe(expected: Offsets, stored: Stored, dtype: str) -> ConvProbe:
    """Sum the codes of the last rows."""
    return ConvProbe(
        inputs=_per_token(codes(len(expected), _CHANNELS), expected),
        weight=np.ones((_CHANNELS, _TAPS), dtype=np.float32),
        cu_seqlens=stored.cu_seqlens,
        dtype=dtype,
    )


def _conv_answer(expected: Offsets) -> NDArray[np.float32]:
    """As many times the code as taps fall into the sample."""
    taps = np.minimum(expected.restarting() + 1, _TAPS).astype(np.float32)
    return _per_token(codes(len(expected), _CHANNELS), expected) * taps[:, None]


ATTENTION = Oracle("attention", "attention", True, 1, _attention_probe, _attention_answer)
WINDOWS = Oracle("windows", "attention", False, 1, _windows_probe, _windows_answer, WINDOW_WORDS)
STATE = Oracle("state", "state", True, 0, _state_probe, _state_answer)
CONV = Oracle("conv", "conv", True, 0, _conv_probe, _conv_answer)
ORACLES = {oracle.kind: oracle for oracle in (ATTENTION, WINDOWS, STATE, CONV)}
"""Every design, by what is proved with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Output of one kernel run beside the right one.

    Attributes:
        output: (T, heads, channels) float32.
        answer: (T, channels) float32.
        deviation: (T,) float32, largest distance in each row; infinite where not a number.
    """

    output: NDArray[np.float32]
    answer: NDArray[np.float32]
    deviation: NDArray[np.float32]

    @property
    def largest(self) -> float:
        """The largest deviation of any row, 0 without rows."""
        return float(self.deviation.max(initial=0))

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """(T,) bool, rows beyond the tolerance."""
        return self.deviation > TOLERANCE

    def residual(self, token: int) -> NDArray[np.float32]:
        """(channels,) float32, how far one row is off, in the head that is off most."""
        off = self.output[token] - self.answer[token]
        return off[np.abs(np.nan_to_num(off)).max(axis=1).argmax()]


def measure(
    oracle: Oracle, kernel: Kernel[Any], expected: Offsets, stored: Stored, dtype: str
) -> Measured:
    """Run a kernel on a designed input and compare with the closed form.

    Args:
        oracle: the design.
        kernel: a kernel of the design's `kernel_kind`.
        expected: independent boundaries, tokens.
        stored: what the kernel is told.
        dtype: name of a torch dtype that the kernel accepts.
    """
    output = kernel.run(oracle.probe(expected, stored, dtype))
    answer = oracle.answer(expected)
    output = output.reshape(expected.total, -1, answer.shape[1])
    deviation = np.zeros(expected.total, dtype=np.float32)
    for head in range(output.shape[1]):
        off = np.abs(output[:, head] - answer).max(axis=1)
        np.maximum(deviation, np.where(np.isnan(off), np.inf, off), out=deviation)
    return Measured(output, answer, deviation)
