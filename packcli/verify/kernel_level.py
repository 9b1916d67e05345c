"""Kernel level: a real kernel runs on stored boundaries; what it computes tells who sees whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import UsageError
from packcli.contract.verdict import Finding, Verdict
from packcli.verify import kernels
from packcli.verify.isolation import check_isolation
from packcli.verify.oracle import ORACLES
from packcli.verify.row_bounds import COLUMNS, pack_bounds, window_bounds, window_sample
from packcli.verify.sampling import chosen_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packcli.contract.model import ModelFacts
    from packcli.verify.bounds import Fault, PackBounds
    from packcli.verify.isolation import IsolationResult
    from packcli.verify.oracle import OracleKind
    from packcli.verify.probe import Device, Kernel, Kind
    from packcli.verify.sampling import Chosen
    from packcli.verify.targets import Target

_NOTHING = ("no pack tells its boundaries twice", "no pack tells windows and grids")
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
    proofs = list(_proofs(target.facts, chosen, verdict))
    for pack in chosen_rows(target, options, COLUMNS, verdict):
        samples = pack_bounds(pack.rows, pack.place)
        windows = window_bounds(pack.rows, pack.place)
        for proof in proofs:
            bounds = windows if proof.kind == "windows" else samples
            if bounds is None:
                continue
            result = _run(bounds, proof)
            proof.add(result, bounds)
            for fault in result.faults:
                verdict.add(_finding(target, pack, fault, proof.kind, samples))
    for proof in proofs:
        proof.conclude(verdict)


def _proofs(
    facts: ModelFacts | None, chosen: Sequence[Kernel[Any]], verdict: Verdict
) -> Iterator[_Proof]:
    """Yield what has to be proved of the model with each kernel, and note what none can prove."""
    needed: dict[OracleKind, Kind] = {kind: kind for kind in _kinds(facts)}
    if facts is not None and facts.vit_windows is not None:
        needed["windows"] = "attention"
    for kind, of in needed.items():
        if all(kernel.kind != of for kernel in chosen):
            verdict.skipped[f"isolation.{kind}"] = "no kernel of this kind was named"
    for kernel in chosen:
        yield _Proof(kernel, kernel.kind)
        if kernel.kind == "attention" and "windows" in needed:
            yield _Proof(kernel, "windows")


def _finding(
    target: Target, pack: Chosen, fault: Fault, kind: str, samples: PackBounds | None
) -> Finding:
    """Name the place of a fault; windows are told by the sample whose image they are cut from."""
    sample, token = fault.sample, fault.token
    count = 0 if samples is None else len(samples.expected)
    if kind == "windows":
        told = None if samples is None else samples.expected
        found = None if told is None else window_sample(pack.rows, pack.place, sample, told)
        sample, token = found, None
    named = (None, None) if sample is None else pack.names(sample, count)
    place = (target.title(pack.path), pack.row, sample, token)
    return Finding(f"isolation.{kind}", fault.message, *place, *named)


def _run(bounds: PackBounds, proof: _Proof) -> IsolationResult:
    """Run one kernel on one pack, also where only a short `max_seqlen` forbids the launch.

    A lost boundary makes a segment longer than `max_seqlen`; with room for it the kernel still
    tells who sees whom.
    """
    result = check_isolation(ORACLES[proof.kind], bounds, proof.kernel)
    longest = int(np.diff(bounds.cu_seqlens.astype(np.int64)).max(initial=0))
    if result.max_deviation is not None or longest <= bounds.max_seqlen:
        return result
    again = check_isolation(ORACLES[proof.kind], replace(bounds, max_seqlen=longest), proof.kernel)
    if again.max_deviation is None:
        return result
    return replace(again, faults=result.faults + again.faults)


def finite(deviation: float) -> float:
    """Clamp a deviation to what JSON can say: infinite and not-a-number become 1e30."""
    return min(deviation, _FAR) if deviation == deviation else _FAR  # noqa: PLR0124 - NaN alone differs from itself


class _Proof:
    """One kernel over all packs that it ran on, for one kind of boundaries."""

    def __init__(self, kernel: Kernel[Any], kind: OracleKind) -> None:
        self.kernel, self.kind = kernel, kind
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
            verdict.skipped[f"isolation.{self.kind}"] = _NOTHING[self.kind == "windows"]
            return
        for name, (caught, deviation) in self._controls.items():
            if not caught:
                message = f"{self.kernel.name}: {name} went unnoticed (deviation {deviation:.3g})"
                verdict.add(Finding("isolation.control", message))
        verdict.proofs.append(
            {
                "kind": self.kind,
                "kernel": self.kernel.name,
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
