"""Attention on the CPU: `scaled_dot_product_attention` on the rows of each segment alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.verify.launch import as_array, as_tensor, version_of
from packcli.verify.probe import AttentionProbe, Kernel

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray


# Scores from which a second thread pays: a 32k-token segment has 5e8 under the causal mask.
_WORTH_THREADS = 1 << 26


@contextmanager
def _threads_for(scores: int) -> Generator[None]:
    """Compute a small block in one thread, and give torch its threads back afterwards.

    On a busy machine a hundred small parallel blocks were seen to take 5 s instead of 0.1 s:
    each waits for threads that have no core.
    """
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    threads = torch.get_num_threads()
    torch.set_num_threads(threads if scores >= _WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _rows_by_length(cu_seqlens: NDArray[np.integer]) -> Iterator[NDArray[np.int64]]:
    """Yield (segments, length) row numbers, one block for each length that occurs.

    Thousands of short segments would cost more in calls than in arithmetic.
    """
    values = cu_seqlens.astype(np.int64)
    lengths = np.diff(values)
    for length in np.unique(lengths[lengths > 0]).tolist():
        yield values[:-1][lengths == length][:, None] + np.arange(length)


def _block(tensor: Any, rows: Any, heads: int) -> Any:  # noqa: ANN401 - torch tensors, torch is not imported here
    """Gather (segments, heads, length, D); each key head serves a run of query heads."""
    block = tensor[rows].transpose(1, 2)
    repeats = heads // block.shape[1]
    return block if repeats == 1 else block.repeat_interleave(repeats, dim=1)


def run(probe: AttentionProbe) -> NDArray[np.float32]:
    """Attend within each segment; rows outside every segment stay 0.

    No (T, T) matrix is made: without a mask these calls go to torch's
    `_scaled_dot_product_flash_attention_for_cpu` in every dtype.

    Args:
        probe: T tokens.

    Returns:
        (T, H, D) float32.
    """
    import torch  # noqa: PLC0415 - heavy, and only this call needs it

    heads = probe.query.shape[1]
    inputs = [as_tensor(a, "cpu", probe.dtype) for a in (probe.query, probe.key, probe.value)]
    out = torch.zeros_like(inputs[0])
    for block in _rows_by_length(probe.cu_seqlens):
        rows = torch.from_numpy(block)
        with torch.inference_mode(), _threads_for(block.size * block.shape[1]):
            query, key, value = (_block(t, rows, heads) for t in inputs)
            attended = torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=probe.causal
            )
            out[rows] = attended.transpose(1, 2)
    return as_array(out)


KERNEL = Kernel(
    name="sdpa",
    kind="attention",
    device="cpu",
    rank=0,
    dtypes=("float32", "bfloat16", "float16"),
    lacks=lambda: None,
    version=version_of,
    run=run,
)
