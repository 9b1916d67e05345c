"""Gated DeltaNet on CUDA: flash-linear-attention's chunked kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.verify.launch import (
    as_array,
    as_tensor,
    find_function,
    function_lacks,
    offsets_tensor,
    version_of,
)
from packcli.verify.probe import Kernel, StateProbe

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MODULES = ("fla.ops.gated_delta_rule",)
_FUNCTION = "chunk_gated_delta_rule"


def run(probe: StateProbe, device: str = "cuda") -> NDArray[np.float32]:
    """Apply `chunk_gated_delta_rule` with `cu_seqlens` as models pass it (int32).

    Args:
        probe: T tokens.
        device: torch device.

    Returns:
        (T, H, V) float32.

    Raises:
        ValueError: boundaries with which the kernel would read out of bounds.
    """
    function = find_function(_MODULES, _FUNCTION)
    longest = int(np.diff(probe.cu_seqlens).max(initial=0))
    offsets = offsets_tensor(probe.cu_seqlens, longest, probe.query.shape[0], device)
    result = function(
        q=as_tensor(probe.query[None], device, probe.dtype),
        k=as_tensor(probe.key[None], device, probe.dtype),
        v=as_tensor(probe.value[None], device, probe.dtype),
        g=as_tensor(probe.decay[None], device, "float32"),
        beta=as_tensor(probe.beta[None], device, probe.dtype),
        cu_seqlens=offsets,
    )
    return as_array(result[0] if isinstance(result, tuple) else result)[0]


KERNEL = Kernel(
    name="gated_delta_fla",
    kind="state",
    device="cuda",
    rank=0,
    dtypes=("bfloat16", "float16"),
    lacks=lambda: function_lacks(_MODULES, _FUNCTION),
    version=lambda: version_of("flash-linear-attention", "fla-core"),
    run=run,
)
