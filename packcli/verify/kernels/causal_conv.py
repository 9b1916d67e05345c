"""Causal convolution on the CPU: packcli's own, which reads no row of another segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli import __version__
from packcli.verify.probe import ConvProbe, Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


def run(probe: ConvProbe) -> NDArray[np.float32]:
    """Convolve each channel over the rows of its own segment.

    Matches `causal_conv1d_fn(seq_idx=)` without bias and activation.

    Args:
        probe: T tokens.

    Returns:
        (T, C) float32; rows outside every segment stay 0.
    """
    taps = probe.weight.shape[1]
    segment = probe.seq_idx()
    covered = probe.inputs[probe.cu_seqlens[0] : probe.cu_seqlens[-1]]
    inner = covered * probe.weight[:, -1]
    for back in range(1, min(taps, len(covered))):
        own = (segment[back:] == segment[:-back])[:, None]
        inner[back:] += np.where(own, covered[:-back] * probe.weight[:, taps - 1 - back], 0)
    out = np.zeros_like(probe.inputs)
    out[probe.cu_seqlens[0] : probe.cu_seqlens[-1]] = inner
    return out


KERNEL = Kernel(
    name="causal_conv",
    kind="conv",
    device="cpu",
    rank=0,
    dtypes=("float32",),
    lacks=lambda: None,
    version=lambda: f"packcli {__version__}, numpy {np.__version__}",
    run=run,
)
