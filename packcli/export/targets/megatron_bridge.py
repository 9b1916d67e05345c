"""Megatron-Bridge: the packed Parquet files of its supervised fine-tuning, three columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packcli.contract.derived import loss_mask, sample_starts
from packcli.export.refusals import Refused, unpredictable, weighted, with_media, without
from packcli.export.tables import ParquetFiles, lists

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "Megatron-Bridge, packed Parquet: input_ids, seq_start_id, loss_mask"
CARRIED = ("tokens", "boundaries", "which tokens are learnt", "grouping and order")
LOST = ("images, videos and mRoPE positions: samples that hold them are refused",)

_SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("seq_start_id", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
    ]
)


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._files = ParquetFiles(folder, _SCHEMA, job.options.shard_bytes)
        self._longest = 0

    def write(self, packs: Packs) -> Refused:
        refused = {**weighted(packs), **unpredictable(packs), **with_media(packs)}
        kept = without(packs, refused)
        if len(kept):
            tokens = kept.pack_tokens.values
            self._longest = max(self._longest, int(kept.pack_tokens.lengths.max()))
            self._files.write(
                {
                    "input_ids": lists(kept.columns["input_ids"], tokens),
                    "seq_start_id": lists(sample_starts(kept), kept.members.values),
                    "loss_mask": lists(loss_mask(kept), tokens),
                }
            )
        return refused

    def finish(self) -> dict[str, Any]:
        self._files.close()
        return {
            "packed_sequence_size": self._longest,
            "micro_batch_size": 1,
            "answer_only_loss": True,
        }


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
