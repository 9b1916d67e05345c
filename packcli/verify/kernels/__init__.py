"""The shelf of kernels: one file each, found by folder listing, loaded when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import EnvironmentLacksError, UsageError
from packcli.contract.shelf import listed

if TYPE_CHECKING:
    from packcli.verify.probe import Device, Kernel, Kind


def names() -> list[str]:
    """Return the names of all kernel files, without importing one."""
    return listed(__path__)


def load(name: str) -> Kernel[Any]:
    """Import one kernel file and return its kernel, which may lack what it needs to run.

    Raises:
        UsageError: no file has this name.
    """
    if name not in names():
        raise UsageError(f"no kernel is called {name!r}; there are {', '.join(names())}")
    return import_module(f"{__name__}.{name}").KERNEL


def ranked(kind: Kind, device: Device) -> list[Kernel[Any]]:
    """Return the kernels of one kind on one device in order of preference."""
    every = [load(name) for name in names()]
    return sorted((k for k in every if (k.kind, k.device) == (kind, device)), key=lambda k: k.rank)


def select(kind: Kind, device: Device) -> Kernel[Any]:
    """Return the preferred kernel that can run here; never one for another device.

    Raises:
        EnvironmentLacksError: none can; the message says what was looked for and what each lacks.
    """
    reasons: list[str] = []
    for kernel in ranked(kind, device):
        lack = kernel.lacks()
        if lack is None:
            return kernel
        reasons.append(f"{kernel.name} ({lack})")
    raise EnvironmentLacksError(
        f"no {kind} kernel can run on {device}; looked for {'; '.join(reasons)}. "
        "Install one of them where a CUDA device is, or verify on the CPU"
    )


def require(name: str) -> Kernel[Any]:
    """Return the kernel of this name, ready to run.

    Raises:
        UsageError: no file has this name.
        EnvironmentLacksError: it cannot run here; the message says why.
    """
    kernel = load(name)
    lack = kernel.lacks()
    if lack is not None:
        raise EnvironmentLacksError(f"kernel {name} cannot run on {kernel.device}: {lack}")
    return kernel
