"""NeMo Automodel: rows that its loader takes as packed before (`prepacked: true`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from packcli.contract.offsets import Offsets
from packcli.contract.packs import IGNORED
from packcli.export.refusals import Refused, unpredictable, weighted, with_media, without
from packcli.export.tables import ParquetFiles, lists

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "NeMo Automodel, prepacked rows for its THD collater: labels shifted, equal lengths"
CARRIED = ("tokens", "labels, shifted inside each sample", "boundaries", "grouping and order")
LOST = (
    "the last token of each sample: it predicts nothing",
    "images, videos and mRoPE positions: samples that hold them are refused",
)

_TOKENS = ("input_ids", "labels", "position_ids")
_SAMPLES = ("seq_lens", "seq_lens_padded")
_SCHEMA = pa.schema([(name, pa.list_(pa.int32())) for name in (*_TOKENS, *_SAMPLES)])


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        self._files = ParquetFiles(folder, _SCHEMA, job.options.shard_bytes)
        self._job = job
        self._width = job.row_tokens

    def write(self, packs: Packs) -> Refused:
        refused = {**weighted(packs), **unpredictable(packs), **with_media(packs)}
        kept = without(packs, refused)
        if len(kept):
            self._files.write(self._columns(kept))
        return refused

    def _columns(self, packs: Packs) -> dict[str, Any]:
        """Lay out rows as `_pad_pack` does (nemo_automodel, datasets/llm/packed_sequence)."""
        samples = Offsets.from_lengths(packs.tokens.lengths - 1)
        rows = packs.members.through(samples)
        self._job.check_fits(int(rows.lengths.max()))
        lacking = self._width - rows.lengths
        last = packs.members.ends - 1
        padded = samples.lengths.copy()
        padded[last] += lacking
        # positions of the padding go on counting: no sample starts there
        tail = (
            np.repeat(samples.lengths[last], lacking) + Offsets.from_lengths(lacking).restarting()
        )
        stays = np.ones(packs.tokens.total, dtype=bool)
        stays[packs.tokens.ends - 1] = False
        after = np.ones(packs.tokens.total, dtype=bool)
        after[packs.tokens.starts] = False
        values: dict[str, tuple[NDArray[Any], Any]] = {
            "input_ids": (packs.columns["input_ids"][stays], self._job.pad_token),
            "labels": (packs.columns["labels"][after], IGNORED),
            "position_ids": (samples.restarting(), tail.clip(max=self._width - 1)),
        }
        bounds = np.arange(len(packs) + 1, dtype=np.int32) * self._width
        columns = {n: lists(self._filled(v, f, rows), bounds) for n, (v, f) in values.items()}
        columns["seq_lens"] = lists(samples.lengths, packs.members.values)
        columns["seq_lens_padded"] = lists(padded.astype(np.int32), packs.members.values)
        return columns

    def _filled(self, values: NDArray[Any], fill: Any, rows: Offsets) -> NDArray[np.int32]:  # noqa: ANN401 - one number or one a place
        inside = np.arange(self._width) < rows.lengths[:, None]
        full = np.empty(inside.shape, dtype=np.int32)
        full[inside] = values
        full[~inside] = fill
        return full.reshape(-1)

    def finish(self) -> dict[str, Any]:
        self._files.close()
        return {
            "packed_sequence.packed_sequence_size": self._width,
            "packed_sequence.prepacked": True,
            "collate_fn": "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater",
        }


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
