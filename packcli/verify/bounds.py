"""Boundaries of one pack as stored and as they should be, and the checks of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.offsets import Offsets

What = Literal["sees", "split", "missing", "value"]


@dataclass(frozen=True, slots=True)
class Words:
    """How messages call boundaries.

    Attributes:
        column: that stores them.
        segment: what lies between two.
        unit: what they count, one of it.
        units: many of it.
    """

    column: str = "cu_seqlens"
    segment: str = "sample"
    unit: str = "token"
    units: str = "tokens"


SAMPLES = Words()
WINDOWS = Words("vit_cu_seqlens", "window", "patch", "patches")


@dataclass(frozen=True, slots=True, eq=False)
class PackBounds:
    """Two independent statements of where the samples of one pack lie.

    Windows of a vision tower are stated the same way: patches for tokens, windows for samples.

    Attributes:
        cu_seqlens: (B' + 1,) integers, tokens, exactly as stored: this is what a kernel gets.
        max_seqlen: int, tokens, as stored.
        expected: (B + 1,) int32, tokens, from a source other than `cu_seqlens` (text-plane
            resets, `seq_lengths`): this is what the kernel's output is compared with.
        sample_ids: B names for messages, None where the data has none.
        words: what messages call samples and tokens.
    """

    cu_seqlens: NDArray[np.integer]
    max_seqlen: int
    expected: Offsets
    sample_ids: tuple[str, ...] | None = None
    words: Words = SAMPLES

    def sample_at(self, token: int) -> int:
        """Return the expected sample that holds `token`; a token past the end is the last's."""
        found = int(np.searchsorted(self.expected.values, token, side="right")) - 1
        return max(0, min(found, len(self.expected) - 1))

    def title(self, sample: int) -> str:
        """Return how messages call a sample: ``sample 1 ('b')``."""
        noun = self.words.segment
        if self.sample_ids is None:
            return f"{noun} {sample}"
        return f"{noun} {sample} ({self.sample_ids[sample]!r})"


@dataclass(frozen=True, slots=True)
class Fault:
    """One sample that a kernel does not compute as if it stood alone.

    Attributes:
        token: int, position in the pack from which it shows.
        sample: int, the sample whose output is wrong.
        other_sample: int, the sample that leaks into it; None where none does.
        what: ``sees`` another sample, is ``split``, is ``missing`` from the segments, or holds a
            ``value`` that no kernel may be given.
        message: one line that says all of this.
    """

    token: int
    sample: int
    other_sample: int | None
    what: What
    message: str


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """A boundary value with which a kernel must not be launched.

    Attributes:
        what: the kind of fault.
        token: int, position in the pack.
        text: what is wrong, without the sample's name.
    """

    what: What
    token: int
    text: str


def value_problems(
    cu_seqlens: NDArray[np.integer], max_seqlen: int, total: int
) -> Iterator[ValueProblem]:
    """Yield everything in the values that varlen kernels take on trust.

    The kernels check dtypes and shapes only (flash-attention's `mha_varlen_fwd`): a wrong value
    reads out of bounds, or leaves rows of the output unwritten.

    Args:
        cu_seqlens: (B + 1,) integers, tokens.
        max_seqlen: int, tokens.
        total: int, tokens in the pack.
    """
    if cu_seqlens.dtype != np.int32:
        yield ValueProblem("value", 0, f"cu_seqlens must be int32, found {cu_seqlens.dtype}")
    if cu_seqlens.ndim != 1 or cu_seqlens.size < 2:  # noqa: PLR2004 - one segment has two ends
        shape = cu_seqlens.shape
        yield ValueProblem("missing", 0, f"cu_seqlens of shape {shape} holds no segment")
        return
    values = cu_seqlens.astype(np.int64)
    yield from _end_problems(int(values[0]), int(values[-1]), total)
    yield from _length_problems(values, max_seqlen)


def _end_problems(first: int, last: int, total: int) -> Iterator[ValueProblem]:
    if first != 0:
        what = "missing" if first > 0 else "value"
        yield ValueProblem(what, 0, f"cu_seqlens starts at {first}, expected 0")
    if last < total:
        text = f"cu_seqlens ends at {last}: no segment holds tokens {last} to {total - 1}"
        yield ValueProblem("missing", last, text)
    elif last > total:
        yield ValueProblem("value", total, f"cu_seqlens ends at {last}, the pack at {total}")


def _length_problems(values: NDArray[np.int64], max_seqlen: int) -> Iterator[ValueProblem]:
    lengths = np.diff(values)
    for index in np.flatnonzero(lengths <= 0)[:1].tolist():
        here, after = int(values[index]), int(values[index + 1])
        text = f"cu_seqlens must increase, found {here} then {after} at index {index + 1}"
        yield ValueProblem("value", max(0, here), text)
    longest = int(lengths.argmax())
    if lengths[longest] > max_seqlen:
        text = (
            f"max_seqlen is {max_seqlen} but a segment has {int(lengths[longest])} tokens: "
            "kernels leave the rest unwritten"
        )
        yield ValueProblem("missing", int(values[longest]) + max(0, max_seqlen), text)


def value_faults(bounds: PackBounds) -> tuple[Fault, ...]:
    """Return the value problems of a pack with the sample that each one hits."""
    faults: list[Fault] = []
    problems = value_problems(bounds.cu_seqlens, bounds.max_seqlen, bounds.expected.total)
    for problem in problems:
        sample = bounds.sample_at(problem.token)
        words = bounds.words
        text = problem.text.replace(SAMPLES.column, words.column)
        text = text.replace(SAMPLES.units, words.units)
        message = f"{text} ({bounds.title(sample)}, {words.unit} {problem.token})"
        faults.append(Fault(problem.token, sample, None, problem.what, message))
    return tuple(faults)
