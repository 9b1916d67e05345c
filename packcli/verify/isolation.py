"""Does a real kernel keep the samples of a pack apart? One run per pack tells it for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from packcli.contract.errors import UsageError
from packcli.verify import oracle as designs
from packcli.verify.blame import faults
from packcli.verify.bounds import WINDOWS, value_faults
from packcli.verify.launch import device_title
from packcli.verify.teeth import controls

if TYPE_CHECKING:
    from packcli.verify.bounds import Fault, PackBounds
    from packcli.verify.oracle import Oracle
    from packcli.verify.probe import AttentionProbe, ConvProbe, Kernel, StateProbe
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

    kind: Literal["attention", "state", "conv", "windows"]
    kernel: str
    version: str
    device: str
    dtype: str
    max_deviation: float | None
    tolerance: float
    faults: tuple[Fault, ...]
    controls: tuple[Control, ...]

    @property
    def isolated(self) -> bool:
        """Whether every sample came out as if it stood alone."""
        return not self.faults and self.max_deviation is not None

    @property
    def has_teeth(self) -> bool:
        """Whether every control was caught, so that `isolated` means something."""
        return all(control.caught for control in self.controls)


def check_attention(
    bounds: PackBounds, kernel: Kernel[AttentionProbe], *, dtype: str | None = None
) -> IsolationResult:
    """Check causal attention within samples.

    Args:
        bounds: B samples, tokens.
        kernel: a kernel of kind ``attention``.
        dtype: torch dtype to compute in; the kernel's first when None.

    Raises:
        UsageError: the kernel is of another kind or does not take the dtype.
    """
    return _check(designs.ATTENTION, bounds, kernel, dtype)


def check_windows(
    bounds: PackBounds, kernel: Kernel[AttentionProbe], *, dtype: str | None = None
) -> IsolationResult:
    """Check attention within windows of a vision tower: all rows of a window see all of it.

    Args:
        bounds: B windows, patches; `expected` from the grids, `cu_seqlens` as stored.
        kernel: a kernel of kind ``attention``.
        dtype: torch dtype to compute in; the kernel's first when None.

    Raises:
        UsageError: the kernel is of another kind or does not take the dtype.
    """
    return _check(designs.WINDOWS, replace(bounds, words=WINDOWS), kernel, dtype)


def check_state(
    bounds: PackBounds, kernel: Kernel[StateProbe], *, dtype: str | None = None
) -> IsolationResult:
    """Check that the recurrent state of Gated DeltaNet starts empty in every sample.

    Args:
        bounds: B samples, tokens.
        kernel: a kernel of kind ``state``.
        dtype: torch dtype to compute in; the kernel's first when None.

    Raises:
        UsageError: the kernel is of another kind or does not take the dtype.
    """
    return _check(designs.STATE, bounds, kernel, dtype)


def check_conv(
    bounds: PackBounds, kernel: Kernel[ConvProbe], *, dtype: str | None = None
) -> IsolationResult:
    """Check that the causal convolution before it reads no row of the previous sample.

    Args:
        bounds: B samples, tokens.
        kernel: a kernel of kind ``conv``.
        dtype: torch dtype to compute in; the kernel's first when None.

    Raises:
        UsageError: the kernel is of another kind or does not take the dtype.
    """
    return _check(designs.CONV, bounds, kernel, dtype)


def _check(
    oracle: Oracle, bounds: PackBounds, kernel: Kernel[Any], dtype: str | None
) -> IsolationResult:
    chosen = _dtype(oracle, kernel, dtype)
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
