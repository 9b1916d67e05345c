"""What every GPU kernel needs before a launch: a device, a function, tensors, sane boundaries."""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.verify.bounds import value_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from packcli.verify.probe import AttentionProbe

_LEAST_WIDTH = 64
"""FlashAttention 3 and 4 have tiles for heads of 64 and more."""


def cuda_lacks(minimum: tuple[int, int] = (8, 0)) -> str | None:
    """Return why no CUDA kernel can run here, None where one can.

    Args:
        minimum: compute capability that the kernel needs.
    """
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no CUDA device"
    found = torch.cuda.get_device_capability()
    if found < minimum:
        return f"compute capability {found} is below {minimum}"
    return None


def find_function(modules: tuple[str, ...], name: str) -> Callable[..., Any]:
    """Import a kernel's entry point from the first module that has it.

    A module that can be found proves nothing: FlashAttention 4 alone makes `flash_attn` a
    namespace package without a function in it, and extensions may fail to load.

    Args:
        modules: import paths, tried in order.
        name: the function.

    Raises:
        ImportError: none of the modules gives the function; the message says why for each.
    """
    reasons: list[str] = []
    for path in modules:
        try:
            module = importlib.import_module(path)
        except Exception as error:  # noqa: BLE001 - a build for another torch or triton raises anything
            reasons.append(f"{path}: {str(error).splitlines()[0] if str(error) else error!r}")
            continue
        function = getattr(module, name, None)
        if callable(function):
            return function
        reasons.append(f"{path} has no {name}")
    raise ImportError("; ".join(reasons))


def function_lacks(
    modules: tuple[str, ...], name: str, minimum: tuple[int, int] = (8, 0)
) -> str | None:
    """Return why a kernel's function cannot be used on this machine, None where it can."""
    lack = cuda_lacks(minimum)
    if lack is not None:
        return lack
    try:
        find_function(modules, name)
    except ImportError as error:
        return str(error)
    return None


def version_of(*distributions: str) -> str:
    """Return ``name version`` of the first installed distribution, with torch's beside it."""
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    for name in distributions:
        try:
            return f"{name} {metadata.version(name)}, torch {torch.__version__}"
        except metadata.PackageNotFoundError:
            continue
    return f"torch {torch.__version__}"


def device_title(device: str) -> str:
    """Return the device with the name of the card, as it stands in a verdict."""
    if device == "cpu":
        return device
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    return f"{device} ({torch.cuda.get_device_name()})"


def as_tensor(array: NDArray[Any], device: str, dtype: str | None = None) -> Any:  # noqa: ANN401 - a torch tensor, torch is not imported here
    """Copy an array to a contiguous tensor; `dtype` None keeps the array's."""
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    kept = None if dtype is None else getattr(torch, dtype)
    return torch.tensor(np.ascontiguousarray(array), device=device, dtype=kept)


def as_array(tensor: Any) -> NDArray[np.float32]:  # noqa: ANN401 - a torch tensor, torch is not imported here
    """Bring a tensor back as float32."""
    return tensor.detach().float().cpu().numpy()


def offsets_tensor(
    cu_seqlens: NDArray[np.integer], max_seqlen: int, total: int, device: str
) -> Any:  # noqa: ANN401 - a torch tensor, torch is not imported here
    """Move boundaries to the device after their values were checked on the host.

    Args:
        cu_seqlens: (B + 1,) int32, tokens.
        max_seqlen: int, tokens.
        total: int, tokens in the pack.
        device: torch device.

    Raises:
        ValueError: a value with which the kernel would read or write out of bounds.
    """
    for problem in value_problems(cu_seqlens, max_seqlen, total):
        raise ValueError(f"kernel not launched: {problem.text}")
    return as_tensor(cu_seqlens, device)


def wide_heads(probe: AttentionProbe) -> list[NDArray[np.float32]]:
    """Return query, key and value in the least width that every GPU kernel is written for.

    Narrower heads are filled up with zeros; scores are divided by the square root of the width,
    which the query makes up for.

    Args:
        probe: T tokens.

    Returns:
        (T, heads, 64 or more) float32 each; the first D channels of an output are the probe's.
    """
    width = probe.query.shape[2]
    more = max(0, _LEAST_WIDTH - width)
    query = probe.query * np.float32(((width + more) / width) ** 0.5)
    return [np.pad(part, ((0, 0), (0, 0), (0, more))) for part in (query, probe.key, probe.value)]


def call_flash(
    function: Callable[..., Any], probe: AttentionProbe, device: str
) -> NDArray[np.float32]:
    """Call any `flash_attn_varlen_func` (FlashAttention 2, 3, 4).

    By keyword only: the fourth positional argument is `cu_seqlens_q` in 2 and 3 but `qv` in 4,
    and 4 returns (output, log-sum-exp). Early releases of 4 find the longest segment themselves.

    Args:
        function: the varlen entry point.
        probe: T tokens.
        device: torch device.

    Returns:
        (T, H, D) float32.
    """
    total, _, width = probe.query.shape
    offsets = offsets_tensor(probe.cu_seqlens, probe.max_seqlen, total, device)
    query, key, value = (as_tensor(part, device, probe.dtype) for part in wide_heads(probe))
    longest = {name: int(probe.max_seqlen) for name in ("max_seqlen_q", "max_seqlen_k")}
    result = function(
        q=query,
        k=key,
        v=value,
        cu_seqlens_q=offsets,
        cu_seqlens_k=offsets,
        causal=probe.causal,
        **(longest if accepts(function, "max_seqlen_q") else {}),
    )
    return as_array(result[0] if isinstance(result, tuple) else result)[..., :width]


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Tell whether a function takes an argument of this name."""
    taken = inspect.signature(function).parameters
    return name in taken or any(p.kind is p.VAR_KEYWORD for p in taken.values())
