"""Causal convolution on CUDA: `causal_conv1d_fn` with `seq_idx`."""

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
from packcli.verify.probe import ConvProbe, Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MODULES = ("causal_conv1d",)
_FUNCTION = "causal_conv1d_fn"


def run(probe: ConvProbe, device: str = "cuda") -> NDArray[np.float32]:
    """Convolve with boundaries given as `seq_idx`, which a collator builds from cu_seqlens.

    The transpose is a view on purpose: with `seq_idx` the kernel takes channel-last input only.

    Args:
        probe: T tokens.
        device: torch device.

    Returns:
        (T, C) float32.

    Raises:
        ValueError: boundaries that do not cover the pack.
    """
    function = find_function(_MODULES, _FUNCTION)
    longest = int(np.diff(probe.cu_seqlens).max(initial=0))
    offsets_tensor(probe.cu_seqlens, longest, probe.inputs.shape[0], "cpu")
    out = function(
        x=as_tensor(probe.inputs[None], device, probe.dtype).transpose(1, 2),
        weight=as_tensor(probe.weight, device, probe.dtype),
        bias=None,
        seq_idx=as_tensor(probe.seq_idx()[None], device),
        activation=None,
    )
    return as_array(out.transpose(1, 2))[0]


KERNEL = Kernel(
    name="causal_conv1d",
    kind="conv",
    device="cuda",
    rank=0,
    dtypes=("bfloat16", "float16", "float32"),
    lacks=lambda: function_lacks(_MODULES, _FUNCTION),
    version=lambda: version_of("causal-conv1d"),
    run=run,
)
