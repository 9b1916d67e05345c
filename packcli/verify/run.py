"""Stage 3: packs become a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from packcli.contract.verdict import Verdict
from packcli.verify.contract_level import check_contract
from packcli.verify.targets import open_target

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.verify.kernel_level import KernelOptions

Level = Literal["contract", "kernel"]


def verify(
    paths: list[Path],
    *,
    facts: ModelFacts | None = None,
    kernel: KernelOptions | None = None,
    max_findings: int = 100,
) -> Verdict:
    """Check datasets or Parquet files.

    Args:
        paths: packcli datasets, folders of Parquet files, or Parquet files.
        facts: the model of files that have no manifest.
        kernel: how the kernel level runs; None stops at the contract level.
        max_findings: findings that are kept in full; all are counted.

    Raises:
        InputError: a path or manifest cannot be used.
        UsageError: no kernel has the name that was asked for.
        EnvironmentLacksError: a kernel that was asked for cannot run here.
    """
    verdict = Verdict("contract" if kernel is None else "kernel", limit=max_findings)
    several = len(paths) > 1
    targets = [replace(open_target(path, facts), among_others=several) for path in paths]
    if kernel is None:
        for target in targets:
            check_contract(target, verdict)
        return verdict
    from packcli.verify import kernel_level  # noqa: PLC0415 - loads torch's users

    chosen = [kernel_level.choose_kernels(kernel, target.facts) for target in targets]
    for target, kernels in zip(targets, chosen, strict=True):
        check_contract(target, verdict)
        kernel_level.check_kernels(target, kernels, kernel, verdict)
    return verdict
