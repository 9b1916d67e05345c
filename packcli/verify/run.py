"""Stage 3: packs become a verdict."""

from __future__ import annotations

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
        EnvironmentLacksError: a kernel that was asked for cannot run here.
    """
    verdict = Verdict("contract" if kernel is None else "kernel", limit=max_findings)
    targets = [open_target(path, facts) for path in paths]
    for target in targets:
        check_contract(target, verdict)
        if kernel is not None:
            from packcli.verify import kernel_level  # noqa: PLC0415 - loads torch's users

            known = target.facts
            chosen = kernel_level.choose_kernels(
                kernel, linear_attention=known is not None and known.linear_attention
            )
            kernel_level.check_kernels(target, chosen, kernel, verdict)
    return verdict
