"""Gated DeltaNet on the CPU: packcli's own scan, token by token, with a state per segment."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from packcli import __version__
from packcli.verify.probe import Kernel, StateProbe

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _scan(probe: StateProbe, start: int, end: int, out: NDArray[np.float32]) -> None:
    """Run one segment from an empty state."""
    rows = slice(start, end)
    heads, width = probe.key.shape[1:]
    state = np.zeros((heads, width, probe.value.shape[2]), dtype=np.float32)
    # A token that neither decays nor writes leaves the state as it is, so only the others step.
    moves = np.any((probe.beta[rows] != 0) | (probe.decay[rows] != 0), axis=1)
    steps = (np.flatnonzero(moves) + start).tolist()
    for step, until in zip(steps, [*steps[1:], end], strict=True):
        key = probe.key[step]
        state *= np.exp(probe.decay[step])[:, None, None]
        known = (key[:, None] @ state)[:, 0]
        change = (probe.value[step] - known) * probe.beta[step][:, None]
        state += key[:, :, None] * change[:, None, :]
        read = probe.query[step:until].transpose(1, 0, 2) @ state
        out[step:until] = read.transpose(1, 0, 2)


def run(probe: StateProbe) -> NDArray[np.float32]:
    """Apply the gated delta rule within each segment.

    Matches transformers' `torch_recurrent_gated_delta_rule` (models/qwen3_5) run on each
    segment alone, without the normalisation of query and key.

    Args:
        probe: T tokens.

    Returns:
        (T, H, V) float32.
    """
    out = np.zeros(probe.value.shape, dtype=np.float32)
    bounds = probe.cu_seqlens.tolist()
    for start, end in pairwise(bounds):
        _scan(probe, start, end, out)
    out *= np.float32(probe.query.shape[2] ** -0.5)
    return out


KERNEL = Kernel(
    name="gated_delta",
    kind="state",
    device="cpu",
    rank=0,
    dtypes=("float32",),
    lacks=lambda: None,
    version=lambda: f"packcli {__version__}, numpy {np.__version__}",
    run=run,
)
