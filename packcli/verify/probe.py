"""What a kernel is given by the proofs, and what a kernel file says about its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Kind = Literal["attention", "state", "conv"]
Device = Literal["cpu", "cuda"]

P = TypeVar("P")


@dataclass(frozen=True, slots=True, eq=False)
class AttentionProbe:
    """Input of a variable-length attention kernel.

    Attributes:
        query: (T, H, D) float32.
        key: (T, G, D) float32; H is a multiple of G (grouped heads).
        value: (T, G, D) float32.
        cu_seqlens: (B + 1,) int32, tokens.
        max_seqlen: int, tokens.
        causal: whether a row sees only rows up to itself.
        dtype: name of the torch dtype in which the kernel computes.
    """

    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    cu_seqlens: NDArray[np.integer]
    max_seqlen: int
    causal: bool
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class StateProbe:
    """Input of a Gated DeltaNet kernel.

    Attributes:
        query: (T, H, K) float32, scaled by ``K ** -0.5`` in the kernel.
        key: (T, H, K) float32.
        value: (T, H, V) float32.
        decay: (T, H) float32, logarithm of the factor on the state (`g` of fla).
        beta: (T, H) float32, strength of each write.
        cu_seqlens: (B + 1,) int32, tokens.
        dtype: name of the torch dtype in which the kernel computes.
    """

    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    decay: NDArray[np.float32]
    beta: NDArray[np.float32]
    cu_seqlens: NDArray[np.integer]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class ConvProbe:
    """Input of a depthwise causal convolution.

    Attributes:
        inputs: (T, C) float32.
        weight: (C, W) float32; the last tap is the row itself.
        cu_seqlens: (B + 1,) int32, tokens.
        dtype: name of the torch dtype in which the kernel computes.
    """

    inputs: NDArray[np.float32]
    weight: NDArray[np.float32]
    cu_seqlens: NDArray[np.integer]
    dtype: str

    def seq_idx(self) -> NDArray[np.int32]:
        """(T,) int32, the segment of each row: how `causal_conv1d_fn` takes boundaries."""
        count = self.cu_seqlens.size - 1
        return np.repeat(np.arange(count, dtype=np.int32), np.diff(self.cu_seqlens))


@dataclass(frozen=True, slots=True)
class Kernel(Generic[P]):
    """One kernel that the proofs can run.

    Attributes:
        name: the name of its file.
        kind: what it computes.
        device: where it computes.
        rank: the order of preference among those of one kind and device, 0 first.
        dtypes: names of torch dtypes that it accepts, the one to use by default first.
        lacks: why it cannot run here, in one phrase; None where it can.
        version: distribution and version that provide it.
        run: (T, …) float32 output for a probe.
    """

    name: str
    kind: Kind
    device: Device
    rank: int
    dtypes: tuple[str, ...]
    lacks: Callable[[], str | None]
    version: Callable[[], str]
    run: Callable[[P], NDArray[np.float32]]
