"""Stage 3: packs become a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from packcli.contract.errors import UsageError
from packcli.contract.verdict import Verdict
from packcli.verify.contract_level import check_contract
from packcli.verify.targets import open_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.verify.kernel_level import KernelOptions
    from packcli.verify.model_level import ModelOptions
    from packcli.verify.targets import Target

Level = Literal["contract", "kernel", "model"]


def verify(
    paths: list[Path],
    *,
    facts: ModelFacts | None = None,
    kernel: KernelOptions | None = None,
    model: ModelOptions | None = None,
    max_findings: int = 100,
) -> Verdict:
    """Check datasets or Parquet files.

    Args:
        paths: packcli datasets, folders of Parquet files, or Parquet files.
        facts: the model of files that have no manifest.
        kernel: how the kernel level runs; None leaves it out.
        model: how the model level runs; None leaves it out.
        max_findings: findings that are kept in full; all are counted.

    Raises:
        InputError: a path or manifest cannot be used.
        UsageError: no kernel has the name that was asked for, the model is another's, or a shard
            is named twice.
        EnvironmentLacksError: a kernel or model that was asked for cannot run here.
    """
    level: Level = "contract" if kernel is None else "kernel"
    verdict = Verdict(level if model is None else "model", limit=max_findings)
    several = len(paths) > 1
    targets = [replace(open_target(path, facts), among_others=several) for path in paths]
    _check_apart(targets)
    # what cannot run here is told before any shard is read
    deeper = [_deeper(target, kernel, model) for target in targets]
    for target, levels in zip(targets, deeper, strict=True):
        check_contract(target, verdict)
        for check in levels:
            check(verdict)
    return verdict


def _check_apart(targets: Sequence[Target]) -> None:
    """Refuse to count a pack twice.

    Raises:
        UsageError: two targets are the same, or hold the same shard.
    """
    named: dict[Path, Target] = {}
    for target in targets:
        own = {path.resolve() for path in (target.path, *target.shards)}
        if shared := own & named.keys():
            other = named[min(shared)].path
            if target.path.resolve() == other.resolve():
                raise UsageError(f"{target.path} is named twice; name it once")
            raise UsageError(f"{target.path} and {other} hold the same shards; name one of them")
        named |= dict.fromkeys(own, target)


def _deeper(
    target: Target, kernel: KernelOptions | None, model: ModelOptions | None
) -> list[Callable[[Verdict], None]]:
    """Prepare the levels above the contract."""
    levels: list[Callable[[Verdict], None]] = []
    if kernel is not None:
        from packcli.verify import kernel_level  # noqa: PLC0415 - loads torch's users

        kernels = kernel_level.choose_kernels(kernel, target.facts)
        levels.append(lambda verdict: kernel_level.check_kernels(target, kernels, kernel, verdict))
    if model is not None:
        from packcli.verify import model_level  # noqa: PLC0415 - loads torch's users

        tiny = model_level.open_model(model, target.facts)
        levels.append(lambda verdict: model_level.check_model(target, tiny, model, verdict))
    return levels


def verify_against(paths: list[Path], origin: list[Path], verdict: Verdict) -> None:
    """Add to a verdict whether datasets hold the samples of those that they were made from.

    Args:
        paths: packed datasets, taken together.
        origin: encoded datasets, taken together.
        verdict: takes the findings.

    Raises:
        InputError: a path or manifest cannot be used.
        UsageError: a shard of the origin is named twice.
    """
    from packcli.verify.against import check_against  # noqa: PLC0415 - only this check needs it

    several = len(paths) > 1
    targets = [replace(open_target(path, None), among_others=several) for path in paths]
    given = [open_target(path, None) for path in origin]
    _check_apart(given)
    check_against(targets, given, verdict)
