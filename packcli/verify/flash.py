"""What the FlashAttention generations have in common: only where they are found differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.verify.launch import call_flash, find_function, function_lacks, version_of
from packcli.verify.probe import AttentionProbe, Kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FUNCTION = "flash_attn_varlen_func"


def flash_kernel(
    name: str, *, rank: int, modules: tuple[str, ...], distributions: tuple[str, ...]
) -> Kernel[AttentionProbe]:
    """Describe one generation of FlashAttention.

    Args:
        name: the kernel's file.
        rank: the order of preference.
        modules: import paths that may hold `flash_attn_varlen_func`, tried in order.
        distributions: what it is installed by.
    """

    def run(probe: AttentionProbe, device: str = "cuda") -> NDArray[np.float32]:
        return call_flash(find_function(modules, _FUNCTION), probe, device)

    return Kernel(
        name=name,
        kind="attention",
        device="cuda",
        rank=rank,
        dtypes=("bfloat16", "float16"),
        lacks=lambda: function_lacks(modules, _FUNCTION),
        version=lambda: version_of(*distributions),
        run=run,
    )
