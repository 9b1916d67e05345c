"""What Megatron's `PackedSeqParams` takes of packs whose samples are padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Sequence


class PaddedPack(Protocol):
    """What is needed of a pack.

    Attributes:
        samples: segments over T tokens, padding among them.
        padded: samples with the padding behind them, over T tokens; None where none is padded.
    """

    @property
    def samples(self) -> Offsets: ...  # noqa: D102 - told above
    @property
    def padded(self) -> Offsets | None: ...  # noqa: D102 - told above


def packed_seq_params(packs: Sequence[PaddedPack]) -> dict[str, Any]:
    """Say where samples lie in one row of packs, and how much of each place is theirs.

    Matches the fields of `PackedSeqParams` (Megatron-LM, megatron/core/packed_seq_params): sample
    b fills the first tokens of its place, padding the rest; the padding at the tail of a pack
    belongs to its last sample. A kernel that takes no padding between samples wants
    `cu_seqlens_q_padded` as its `cu_seqlens_q` too.

    Args:
        packs: at least one, of datasets packed with `--pad-sample-multiple`.

    Returns:
        ``qkv_format`` ``thd``; ``cu_seqlens_q``, ``cu_seqlens_kv`` (B + 1,) int32, sums of the
        samples' own lengths; ``cu_seqlens_q_padded``, ``cu_seqlens_kv_padded`` (B + 1,) int32,
        where their places start; ``max_seqlen_q``, ``max_seqlen_kv`` int, the longest place.

    Raises:
        InputError: samples of a pack are not padded, or lie elsewhere than it says.
    """
    places, lengths = zip(*(_places(pack) for pack in packs), strict=True)
    padded = Offsets.from_lengths(np.concatenate(places))
    own = Offsets.from_lengths(np.concatenate(lengths))
    params: dict[str, Any] = {"qkv_format": "thd"}
    for side in ("q", "kv"):
        params[f"cu_seqlens_{side}"] = own.values.copy()
        params[f"cu_seqlens_{side}_padded"] = padded.values.copy()
        params[f"max_seqlen_{side}"] = int(padded.lengths.max())
    return params


def _places(pack: PaddedPack) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of a pack's places, and of the samples that they begin with."""
    if pack.padded is None:
        raise InputError("samples are not padded; pack with --pad-sample-multiple")
    segment = np.searchsorted(pack.samples.starts, pack.padded.starts)
    starts = pack.samples.starts[np.minimum(segment, len(pack.samples) - 1)]
    if pack.padded.total != pack.samples.total or np.any(starts != pack.padded.starts):
        raise InputError("cu_seqlens_padded does not start where samples do; run `packcli verify`")
    return pack.padded.lengths, pack.samples.lengths[segment]
