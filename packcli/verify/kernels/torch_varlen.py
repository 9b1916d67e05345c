"""Attention on CUDA: `torch.nn.attention.varlen`, which needs nothing but torch."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from packcli.verify.launch import (
    as_array,
    as_tensor,
    find_function,
    function_lacks,
    offsets_tensor,
    version_of,
)
from packcli.verify.probe import AttentionProbe, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

_MODULES = ("torch.nn.attention.varlen",)
_FUNCTION = "varlen_attn"


def _causal_option(function: Callable[..., Any], *, causal: bool) -> dict[str, Any]:
    # The option changed between torch releases; a missing one must not mean "not causal".
    accepted = inspect.signature(function).parameters
    if "is_causal" in accepted:
        return {"is_causal": causal}
    if "window_size" in accepted:
        return {"window_size": (-1, 0) if causal else (-1, -1)}
    raise TypeError("torch's varlen_attn takes neither is_causal nor window_size")


def run(probe: AttentionProbe, device: str = "cuda") -> NDArray[np.float32]:
    """Attend with `varlen_attn`; key and value heads are repeated where it has no grouping.

    Args:
        probe: T tokens.
        device: torch device.

    Returns:
        (T, H, D) float32.

    Raises:
        ValueError: boundaries with which the kernel would read out of bounds.
        TypeError: this release of torch has no known way to ask for causal attention.
    """
    function = find_function(_MODULES, _FUNCTION)
    offsets = offsets_tensor(probe.cu_seqlens, probe.max_seqlen, probe.query.shape[0], device)
    query, key, value = (
        as_tensor(a, device, probe.dtype) for a in (probe.query, probe.key, probe.value)
    )
    options = _causal_option(function, causal=probe.causal)
    if "enable_gqa" in inspect.signature(function).parameters:
        options["enable_gqa"] = key.shape[1] != query.shape[1]
    else:
        groups = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    result = function(
        query=query,
        key=key,
        value=value,
        cu_seq_q=offsets,
        cu_seq_k=offsets,
        max_q=int(probe.max_seqlen),
        max_k=int(probe.max_seqlen),
        **options,
    )
    return as_array(result[0] if isinstance(result, tuple) else result)


KERNEL = Kernel(
    name="torch_varlen",
    kind="attention",
    device="cuda",
    rank=3,
    dtypes=("bfloat16", "float16"),
    lacks=lambda: function_lacks(_MODULES, _FUNCTION),
    version=version_of,
    run=run,
)
