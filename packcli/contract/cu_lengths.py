"""`cu_lengths`, the form in which LLaVA-OneVision-2 takes the boundaries of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def cu_lengths(samples: Offsets, *, packed: bool = True) -> NDArray[np.int32]:
    """Write boundaries as the trainer reads them.

    Args:
        samples: B segments over the tokens of one pack.
        packed: False writes the placeholder of data that was never packed.

    Returns:
        (1, B + 1) int32, tokens, ``[[0, a, a + b, …]]``; ``[[0]]`` when not packed. A pack of one
        sample is ``[[0, T]]``, which is another thing.

    Raises:
        ValueError: not packed, and other than one sample.
    """
    if packed:
        return samples.values.reshape(1, -1).astype(np.int32)
    if len(samples) != 1:
        raise ValueError(f"[[0]] stands for one sample, found {len(samples)}; write them packed")
    return np.zeros((1, 1), dtype=np.int32)


def read_cu_lengths(view: ArrayLike, tokens: int) -> Offsets:
    """Read boundaries back.

    Args:
        view: (1, B + 1) integers, or ``[[0]]``: all tokens are one sample.
        tokens: T, what the boundaries have to cover.

    Raises:
        ValueError: another shape, or boundaries that do not go from 0 to T.
    """
    found = np.asarray(view)
    if found.ndim != 2 or found.shape[0] != 1:  # noqa: PLR2004 - one row of boundaries
        raise ValueError(f"cu_lengths has shape {found.shape}, expected (1, B + 1)")
    if found.shape[1] == 1 and not found.any():
        return Offsets.from_lengths([tokens])
    samples = Offsets.from_values(found[0])
    if samples.total != tokens or not samples.strict:
        raise ValueError(f"cu_lengths {found[0].tolist()} must grow from 0 to {tokens}")
    return samples
