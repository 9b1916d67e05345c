"""Kernel level: a real kernel runs on stored boundaries; what it computes tells who sees whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import UsageError
from packcli.contract.offsets import Offsets
from packcli.contract.verdict import Finding, Verdict
from packcli.verify import isolation, kernels
from packcli.verify.bounds import PackBounds
from packcli.verify.sampling import chosen_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.contract.rows import Rows
    from packcli.verify.isolation import IsolationResult
    from packcli.verify.probe import Device, Kernel, Kind
    from packcli.verify.targets import Target

_COLUMNS = (
    "input_ids",
    "position_ids",
    "seq_lengths",
    "cu_seqlens",
    "max_seqlen",
    "sample_ids",
    "sample_sources",
)
_CHECKS: dict[str, Callable[[PackBounds, Kernel[Any]], IsolationResult]] = {
    "attention": isolation.check_attention,
    "state": isolation.check_state,
    "conv": isolation.check_conv,
}
_FAR = 1e30


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Which packs are run, and on what.

    Attributes:
        gpu: run on a CUDA device, and fail where there is none.
        names: kernels by name; empty for the preferred one of each kind that the model needs.
        sample: packs to run; None for every one.
        seed: chooses the packs.
    """

    gpu: bool = False
    names: tuple[str, ...] = ()
    sample: int | None = 16
    seed: int = 0


def choose_kernels(options: KernelOptions, facts: ModelFacts | None) -> list[Kernel[Any]]:
    """Find the kernels before any shard is read.

    Raises:
        EnvironmentLacksError: one cannot run here; there is no silent fallback.
        UsageError: no kernel has that name, or it runs on the CPU where a GPU was asked for.
    """
    device: Device = "cuda" if options.gpu else "cpu"
    if not options.names:
        return [kernels.select(kind, device) for kind in _kinds(facts)]
    for name in options.names:
        if options.gpu and kernels.load(name).device != device:
            raise UsageError(f"kernel {name} runs on the CPU; drop --gpu, or name a GPU kernel")
    return [kernels.require(name) for name in dict.fromkeys(options.names)]


def _kinds(facts: ModelFacts | None) -> tuple[Kind, ...]:
    """Return what a model of these facts needs proofs of."""
    linear = facts is not None and facts.linear_attention
    return ("attention", "state", "conv") if linear else ("attention",)


def check_kernels(
    target: Target, chosen: Sequence[Kernel[Any]], options: KernelOptions, verdict: Verdict
) -> None:
    """Run kernels on a sample of packs, and on those in which the contract was found broken."""
    for kind in _kinds(target.facts):
        if all(kernel.kind != kind for kernel in chosen):
            verdict.skipped[f"isolation.{kind}"] = "no kernel of this kind was named"
    proofs = {kernel.name: _Proof(kernel) for kernel in chosen}
    for pack in chosen_rows(target, options, _COLUMNS, verdict):
        bounds = pack_bounds(pack.rows, pack.place)
        if bounds is None:
            continue
        for kernel in chosen:
            result = _run(bounds, kernel)
            proofs[kernel.name].add(result, bounds)
            for fault in result.faults:
                place = (target.title(pack.path), pack.row, fault.sample, fault.token)
                named = pack.names(fault.sample, len(bounds.expected))
                verdict.add(Finding(f"isolation.{kernel.kind}", fault.message, *place, *named))
    for proof in proofs.values():
        proof.conclude(verdict)


def _run(bounds: PackBounds, kernel: Kernel[Any]) -> IsolationResult:
    """Run one kernel on one pack, also where only a short `max_seqlen` forbids the launch.

    A lost boundary makes a segment longer than `max_seqlen`; with room for it the kernel still
    tells who sees whom.
    """
    result = _CHECKS[kernel.kind](bounds, kernel)
    longest = int(np.diff(bounds.cu_seqlens.astype(np.int64)).max(initial=0))
    if result.max_deviation is not None or longest <= bounds.max_seqlen:
        return result
    again = _CHECKS[kernel.kind](replace(bounds, max_seqlen=longest), kernel)
    if again.max_deviation is None:
        return result
    return replace(again, faults=result.faults + again.faults)


def finite(deviation: float) -> float:
    """Clamp a deviation to what JSON can say: infinite and not-a-number become 1e30."""
    return min(deviation, _FAR) if deviation == deviation else _FAR  # noqa: PLR0124 - NaN alone differs from itself


class _Proof:
    """One kernel over all packs that it ran on."""

    def __init__(self, kernel: Kernel[Any]) -> None:
        self._kernel = kernel
        self._packs = self._tokens = 0
        self._deviation = 0.0
        self._controls: dict[str, tuple[bool, float]] = {}
        self._last: IsolationResult | None = None

    def add(self, result: IsolationResult, bounds: PackBounds) -> None:
        self._last = result
        self._packs += 1
        self._tokens += bounds.expected.total
        # None means that nothing was launched; what is no number is as far off as can be
        deviation = 0.0 if result.max_deviation is None else finite(result.max_deviation)
        self._deviation = max(self._deviation, deviation)
        for control in result.controls:
            caught, least = self._controls.get(control.name, (True, float("inf")))
            both = (caught and control.caught, min(least, control.deviation))
            self._controls[control.name] = both

    def conclude(self, verdict: Verdict) -> None:
        if self._last is None:
            verdict.skipped[f"isolation.{self._kernel.kind}"] = "no pack tells its boundaries twice"
            return
        for name, (caught, deviation) in self._controls.items():
            if not caught:
                message = f"{self._kernel.name}: {name} went unnoticed (deviation {deviation:.3g})"
                verdict.add(Finding("isolation.control", message))
        verdict.proofs.append(
            {
                "kind": self._kernel.kind,
                "kernel": self._kernel.name,
                "version": self._last.version,
                "device": self._last.device,
                "dtype": self._last.dtype,
                "packs": self._packs,
                "tokens": self._tokens,
                "max_deviation": self._deviation,
                "tolerance": self._last.tolerance,
                "controls": [
                    {"name": name, "caught": caught, "deviation": finite(deviation)}
                    for name, (caught, deviation) in self._controls.items()
                ],
            }
        )


def pack_bounds(rows: Rows, row: int) -> PackBounds | None:
    """State the boundaries of one pack twice: as a kernel gets them, and independently.

    Returns:
        None when the row does not tell its boundaries twice.
    """
    positions, cu = _cell(rows, "position_ids", row), _cell(rows, "cu_seqlens", row)
    lengths, ids = _cell(rows, "seq_lengths", row), _cell(rows, "sample_ids", row)
    total = int(rows.tokens[row])
    if lengths is not None and not (_sums_to(lengths, total) and (lengths > 0).all()):
        lengths = None
    if cu is None and lengths is not None and positions is not None:
        cu = Offsets.from_lengths(lengths).values
    if cu is None or not total:
        return None
    if positions is not None and len(positions) == total and positions[0] == 0:
        starts = np.flatnonzero(positions == 0)
        expected = Offsets.from_values(np.append(starts, total))
    elif lengths is not None:
        expected = Offsets.from_lengths(lengths)
    else:
        return None
    stored = _cell(rows, "max_seqlen", row)
    longest = int(np.diff(cu.astype(np.int64)).max()) if len(cu) > 1 else 0
    most = longest if stored is None or len(stored) != 1 else int(stored[0])
    return PackBounds(cu, most, expected, _names(ids, len(expected)))


def _sums_to(lengths: NDArray[np.integer], total: int) -> bool:
    """Add up without wrapping: what is stored may be as large as its type."""
    return len(lengths) <= total and sum(lengths.tolist()) == total


def _names(ids: NDArray[Any] | None, count: int) -> tuple[str, ...] | None:
    return None if ids is None or len(ids) != count else tuple(map(str, ids.tolist()))


def _cell(rows: Rows, name: str, row: int) -> NDArray[Any] | None:
    """Return one cell; None when the column is missing or holds nothing of its kind."""
    cells = rows.cells.get(name)
    if cells is None or cells.inner is not None:
        return None
    if name != "sample_ids" and cells.values.dtype.kind not in "iu":
        return None
    if cells.rows is None:
        return cells.values[row : row + 1]
    return cells.values[cells.rows[row] : cells.rows[row + 1]]
