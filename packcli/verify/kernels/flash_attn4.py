"""Attention on CUDA: FlashAttention 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.verify.launch import call_flash, find_function, function_lacks, version_of
from packcli.verify.probe import AttentionProbe, Kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MODULES = ("flash_attn.cute", "flash_attn.cute.interface")
_FUNCTION = "flash_attn_varlen_func"


def run(probe: AttentionProbe, device: str = "cuda") -> NDArray[np.float32]:
    """Attend with `flash_attn.cute.flash_attn_varlen_func`.

    Args:
        probe: T tokens.
        device: torch device.

    Returns:
        (T, H, D) float32.

    Raises:
        ValueError: boundaries with which the kernel would read out of bounds.
    """
    return call_flash(find_function(_MODULES, _FUNCTION), probe, device)


KERNEL = Kernel(
    name="flash_attn4",
    kind="attention",
    device="cuda",
    rank=2,
    dtypes=("bfloat16", "float16"),
    lacks=lambda: function_lacks(_MODULES, _FUNCTION),
    version=lambda: version_of("flash-attn-4"),
    run=run,
)
