"""Does a real kernel keep the samples of a pack apart? One run per pack tells it for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import UsageError
from packcli.verify import oracle as designs
from packcli.verify.blame import faults
from packcli.verify.bounds import value_faults
from packcli.verify.launch import device_title
from packcli.verify.teeth import controls

if TYPE_CHECKING:
    from packcli.verify.bounds import Fault, PackBounds
    from packcli.verify.oracle import Oracle, OracleKind
    from packcli.verify.probe import Kernel
    from packcli.verify.teeth import Control


@dataclass(frozen=True, slots=True)
class IsolationResult:
    """Verdict of one kernel on one pack.

    Attributes:
        kind: what was checked.
        kernel: name of the kernel that ran.
        version: distribution and version that provided it.
        device: where it ran.
        dtype: torch dtype in which it computed.
        max_deviation: largest distance from the closed form; None when the stored values forbade
            a launch, infinite when the output is not a number.
        tolerance: largest deviation that counts as rounding.
        faults: what is wrong with the pack, by token; at most `blame.MOST_FAULTS`.
        controls: sabotaged runs, each of which must have been caught.
    """

    kind: OracleKind
    kernel: str
    version: str
    device: str
    dtype: str
    max_deviation: float | None
    tolerance: float
    faults: tuple[Fault, ...]
    controls: tuple[Control, ...]


def check_isolation(
    oracle: Oracle, bounds: PackBounds, kernel: Kernel[Any], *, dtype: str | None = None
) -> IsolationResult:
    """Check with one design that a kernel keeps apart what boundaries separate.

    Args:
        oracle: what is checked: attention within samples, within windows of a vision tower,
            recurrent state, or convolution.
        bounds: B samples, tokens; of windows patches: `expected` from the grids.
        kernel: a kernel of the design's kind.
        dtype: torch dtype to compute in; the kernel's first when None.

    Raises:
        UsageError: the kernel is of another kind or does not take the dtype.
    """
    chosen = _dtype(oracle, kernel, dtype)
    bounds = replace(bounds, words=oracle.words)
    found = value_faults(bounds)
    deviation: float | None = None
    if not found:
        stored = designs.Stored(bounds.cu_seqlens, bounds.max_seqlen)
        measured = designs.measure(oracle, kernel, bounds.expected, stored, chosen)
        deviation, found = measured.largest, faults(measured, bounds, oracle)
    return IsolationResult(
        kind=oracle.kind,
        kernel=kernel.name,
        version=kernel.version(),
        device=device_title(kernel.device),
        dtype=chosen,
        max_deviation=deviation,
        tolerance=designs.TOLERANCE,
        faults=found,
        controls=controls(oracle, kernel, bounds.expected, chosen),
    )


def _dtype(oracle: Oracle, kernel: Kernel[Any], dtype: str | None) -> str:
    if kernel.kind != oracle.kernel_kind:
        raise UsageError(
            f"kernel {kernel.name} is of kind {kernel.kind}; "
            f"the {oracle.kind} check needs {oracle.kernel_kind}"
        )
    chosen = kernel.dtypes[0] if dtype is None else dtype
    if chosen not in kernel.dtypes:
        raise UsageError(
            f"kernel {kernel.name} does not compute in {chosen}; take {', '.join(kernel.dtypes)}"
        )
    return chosen
