"""One pack in memory, read from a row of a shard or from what another reader made of a row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from packcli.contract.model import Grid

NEEDED = ("input_ids", "labels")
"""Columns without which a row is no pack; the boundaries may come from one of two more."""

READ = (
    *NEEDED,
    "mrope_position_ids",
    "cu_seqlens",
    "cu_seqlens_padded",
    "image_grid_thw",
    "video_grid_thw",
    "second_per_grid_ts",
    "loss_scale",
    "media",
    "sample_ids",
    "sample_sources",
)
"""Columns that `Pack` is made of; the others repeat them and are not read."""


@dataclass(frozen=True, slots=True)
class Medium:
    """One image or video whose slots stand in a pack.

    Attributes:
        kind: ``image`` or ``video``.
        uri: as in the record; a JSON array of paths for a video of frame images.
        grid: patches: t, h, w.
        slots: tokens that stand for it.
        height: pixels, as encode read them.
        width: pixels, as encode read them.
        frames: frames of a video that the model sees, numbers in the file.
        place: the sample's number in the pack.
        images: images of the sample.
        sample: id of the sample, for messages.
        source: file:line of the record.
    """

    kind: str
    uri: str
    grid: Grid
    slots: int
    height: int
    width: int
    frames: tuple[int, ...]
    place: int
    images: int
    sample: str
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """One row: what a collator needs of it.

    A dataclass and no dict: the HF Trainer drops from dicts whatever `forward` does not name.

    Attributes:
        input_ids: (T,) int32, token ids.
        labels: (T,) int32, -100 or the token id at its own place.
        samples: B segments over T tokens, strictly increasing.
        mrope_position_ids: (3, T) int32; None in families without mRoPE.
        image_grid_thw: (n, 3) int32, patches.
        video_grid_thw: (m, 3) int32, patches.
        second_per_grid_ts: (m,) float32, seconds; None where positions do not need it.
        loss_scale: (T,) float32, weight of each label; None where all weigh alike.
        media: in the order of their slots.
        sample_ids: (B,) names, empty where the row has none.
        sample_sources: (B,) file:line, empty where the row has none.
        padded: segments over T tokens, samples with the padding behind them; None where samples
            are not padded.
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    samples: Offsets
    mrope_position_ids: NDArray[np.int32] | None
    image_grid_thw: NDArray[np.int32]
    video_grid_thw: NDArray[np.int32]
    second_per_grid_ts: NDArray[np.float32] | None
    loss_scale: NDArray[np.float32] | None
    media: tuple[Medium, ...]
    sample_ids: tuple[str, ...]
    sample_sources: tuple[str, ...]
    padded: Offsets | None = None

    def __len__(self) -> int:
        """Return T, tokens."""
        return self.input_ids.size

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Pack:
        """Read a row as `datasets`, pyarrow, polars or duckdb give it: lists or arrays.

        Raises:
            InputError: it is no pack, naming the column.
        """
        for name in NEEDED:
            if name not in row:
                raise InputError(f"row without {name!r}; it has {', '.join(row)}")
        ids = np.asarray(row["input_ids"], dtype=np.int32)
        mrope = row.get("mrope_position_ids")
        images, videos = _grids(row.get("image_grid_thw")), _grids(row.get("video_grid_thw"))
        names = tuple(_listed(row.get("sample_ids")))
        sources = tuple(_listed(row.get("sample_sources")))
        return cls(
            input_ids=ids,
            labels=np.asarray(row["labels"], dtype=np.int32),
            samples=_boundaries(row, ids.size),
            mrope_position_ids=None if mrope is None else _planes(mrope, ids.size),
            image_grid_thw=images,
            video_grid_thw=videos,
            second_per_grid_ts=_floats(row.get("second_per_grid_ts")),
            loss_scale=_floats(row.get("loss_scale")),
            media=_media(
                _listed(row.get("media")), {"image": images, "video": videos}, names, sources
            ),
            sample_ids=names,
            sample_sources=sources,
            padded=_padded(row, ids.size),
        )


def _boundaries(row: Mapping[str, Any], tokens: int) -> Offsets:
    if row.get("cu_seqlens") is not None:
        values = np.asarray(row["cu_seqlens"])
    elif row.get("seq_lengths") is not None:
        values = Offsets.from_lengths(row["seq_lengths"]).values
    else:
        raise InputError("row without boundaries; keep cu_seqlens or seq_lengths when selecting")
    return _cut(values, tokens, "boundaries")


def _cut(values: NDArray[np.integer], tokens: int, name: str) -> Offsets:
    """Believe boundaries if they cut all tokens into pieces, none of them empty."""
    cut = values.ndim == 1 and values.size > 0 and values[0] == 0 and values[-1] == tokens
    if not cut or not (values[1:] > values[:-1]).all():
        raise InputError(
            f"{name} {values.tolist()[:8]} do not cut {tokens} tokens into samples; "
            "run `packcli verify` on the dataset"
        )
    return Offsets(values.astype(np.int32, copy=False))


def _padded(row: Mapping[str, Any], tokens: int) -> Offsets | None:
    if row.get("cu_seqlens_padded") is None:
        return None
    return _cut(np.asarray(row["cu_seqlens_padded"]), tokens, "cu_seqlens_padded")


def _planes(values: Any, tokens: int) -> NDArray[np.int32]:  # noqa: ANN401 - lists or an array
    planes = np.asarray(values, dtype=np.int32)
    if planes.size != 3 * tokens:
        raise InputError(
            f"mrope_position_ids: {planes.size} numbers for {tokens} tokens; need 3 planes; "
            "run `packcli verify` on the dataset"
        )
    return planes.reshape(3, tokens)


def _floats(values: Any) -> NDArray[np.float32] | None:  # noqa: ANN401 - a list, an array or None
    return None if values is None else np.asarray(values, dtype=np.float32)


def _grids(values: Any) -> NDArray[np.int32]:  # noqa: ANN401 - lists, an array or None
    if values is None:
        return np.zeros((0, 3), dtype=np.int32)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.astype(np.int32, copy=False).reshape(-1, 3)
    rows = [np.asarray(row, dtype=np.int32) for row in values]
    return np.concatenate([np.zeros(0, np.int32), *map(np.atleast_1d, rows)]).reshape(-1, 3)


def _listed(values: Any) -> list[Any]:  # noqa: ANN401 - a list, an array, or the dict of lists that datasets < 4 makes
    if values is None:
        return []
    if isinstance(values, dict):
        fields = cast("dict[str, list[Any]]", values)
        return [dict(zip(fields, one, strict=True)) for one in zip(*fields.values(), strict=True)]
    return list(values)


def _media(
    entries: list[Any],
    grids: Mapping[str, NDArray[np.int32]],
    names: tuple[str, ...],
    sources: tuple[str, ...],
) -> tuple[Medium, ...]:
    if not entries and not any(map(len, grids.values())):
        return ()
    waiting = {kind: iter(array.tolist()) for kind, array in grids.items()}
    images = Counter(int(one["sample_index"]) for one in entries if one["kind"] == "image")
    media: list[Medium] = []
    for entry in entries:
        sample = int(entry["sample_index"])
        grid = next(waiting[entry["kind"]], None)
        if grid is None:
            raise InputError(
                f"sample {_at(names, sample)!r}: more media than grids; run `packcli verify`"
            )
        media.append(
            Medium(
                kind=entry["kind"],
                uri=entry["uri"],
                grid=(grid[0], grid[1], grid[2]),
                slots=int(entry["token_count"]),
                height=int(entry["height"]),
                width=int(entry["width"]),
                frames=tuple(int(frame) for frame in entry["frame_indices"]),
                place=sample,
                images=images[sample],
                sample=_at(names, sample),
                source=_at(sources, sample),
            )
        )
    if any(next(rest, None) is not None for rest in waiting.values()):
        raise InputError("more grids than media in a row; keep the column media when selecting")
    return tuple(media)


def _at(names: tuple[str, ...], place: int) -> str:
    return names[place] if place < len(names) else f"number {place}"
