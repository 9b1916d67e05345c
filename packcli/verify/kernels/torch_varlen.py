"""Attention on CUDA: `torch.nn.attention.varlen`, which needs nothing but torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packcli.verify.launch import (
    accepts,
    as_array,
    as_tensor,
    find_function,
    function_lacks,
    offsets_tensor,
    version_of,
    wide_heads,
)
from packcli.verify.probe import AttentionProbe, Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

_MODULES = ("torch.nn.attention.varlen",)
_FUNCTION = "varlen_attn"


def _causal_option(function: Callable[..., Any], *, causal: bool) -> dict[str, Any]:
    # The option changed between torch releases; a missing one must not mean "not causal".
    if accepts(function, "is_causal"):
        return {"is_causal": causal}
    if accepts(function, "window_size"):
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
    total, _, width = probe.query.shape
    offsets = offsets_tensor(probe.cu_seqlens, probe.max_seqlen, total, device)
    parts = [as_tensor(part, device, probe.dtype) for part in wide_heads(probe)]
    return as_array(attend(parts, offsets, int(probe.max_seqlen), causal=probe.causal))[..., :width]


def attend(
    parts: Sequence[Any],
    offsets: Any,  # noqa: ANN401 - a torch tensor, torch is not imported here
    longest: int,
    *,
    causal: bool,
    scale: float | None = None,
) -> Any:  # noqa: ANN401 - a torch tensor, torch is not imported here
    """Attend within each segment, by tensors.

    Args:
        parts: query (T, H, D), key and value (T, G, D), on one CUDA device.
        offsets: (B + 1,) int32 tensor, tokens.
        longest: tokens of the longest segment.
        causal: whether a row sees only rows up to itself.
        scale: of the scores; one over the square root of D when None.

    Returns:
        (T, H, D) tensor.

    Raises:
        TypeError: this release of torch has no known way to ask for causal attention.
    """
    function = find_function(_MODULES, _FUNCTION)
    query, key, value = parts
    options = _causal_option(function, causal=causal)
    if scale is not None:
        options["scale"] = scale
    if accepts(function, "enable_gqa"):
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
        max_q=longest,
        max_k=longest,
        **options,
    )
    return result[0] if isinstance(result, tuple) else result


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
