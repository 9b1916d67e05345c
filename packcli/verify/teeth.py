"""Sabotage: a check that cannot fail proves nothing, so each run is also shown broken packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.offsets import Offsets
from packcli.verify.oracle import Stored, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.verify.oracle import Oracle
    from packcli.verify.probe import Kernel

# Lengths that let every sabotage apply, behind those of the pack.
_TAIL = (5, 3, 1, 4)
_CPU_SAMPLES, _CPU_TOKENS = 12, 64

_NOTHING_RESET = {
    "attention": "all boundaries removed",
    "windows": "all windows merged",
    "state": "state not reset",
    "conv": "conv not reset",
}


@dataclass(frozen=True, slots=True)
class Control:
    """One sabotaged run.

    Attributes:
        name: what was broken.
        caught: whether the check saw it.
        deviation: largest distance from the closed form; infinite when not a number.
    """

    name: str
    caught: bool
    deviation: float


def controls(
    oracle: Oracle, kernel: Kernel[Any], expected: Offsets, dtype: str
) -> tuple[Control, ...]:
    """Run the kernel with wrong boundaries, each of which the check must catch.

    On the CPU the samples are shortened and the first few taken, so that the controls cost
    milliseconds; a GPU runs the whole pack.

    Args:
        oracle: the design under test.
        kernel: the kernel under test.
        expected: right boundaries of the pack, tokens.
        dtype: torch dtype of the checked run.
    """
    lengths = expected.lengths
    if kernel.device == "cpu":
        lengths = np.minimum(lengths[:_CPU_SAMPLES], _CPU_TOKENS)
    pack = Offsets.from_lengths([*lengths.tolist(), *_TAIL])
    found: list[Control] = []
    for name, values in sabotages(pack, _NOTHING_RESET[oracle.kind]):
        stored = Stored(values, int(np.diff(values).max()))
        measured = measure(oracle, kernel, pack, stored, dtype)
        found.append(Control(name, bool(measured.wrong.any()), measured.largest))
    return tuple(found)


def sabotages(
    pack: Offsets, nothing_reset: str = "all boundaries removed"
) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Yield a name and wrong boundaries for each way in which packs go wrong.

    Args:
        pack: right boundaries; a middle sample must have two tokens for each to apply.
        nothing_reset: what to call the loss of all boundaries.
    """
    values, lengths = pack.values, pack.lengths
    yield nothing_reset, values[[0, -1]]
    yield "one boundary removed", np.delete(values, len(pack) // 2)
    for step in (1, -1):
        # The sample that gives up a token must keep one.
        giver = lengths[1:] if step == 1 else lengths[:-1]
        moved = values.copy()
        moved[1 + int(np.flatnonzero(giver > 1)[0])] += step
        yield f"one boundary shifted by {step:+d}", moved
    whole = int(lengths.argmax())
    middle = values[whole] + lengths[whole] // 2
    yield "one sample split", np.insert(values, whole + 1, middle).astype(np.int32)
    swapped = lengths.copy()
    pair = int(np.flatnonzero(lengths[1:] != lengths[:-1])[0])
    swapped[[pair, pair + 1]] = lengths[[pair + 1, pair]]
    yield "two lengths swapped", Offsets.from_lengths(swapped).values
