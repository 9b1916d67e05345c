"""A digest of each sample, taken at encode and carried through pack."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import BY_NAME, Axis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.contract.packs import Packs

SIZE = 16


def sample_digests(packs: Packs) -> NDArray[np.uint8]:
    """Digest name, ids, labels, grids and media of every sample, and weights where there are any.

    It is what catches a changed token, a masked label, another picture, or two swapped samples
    of equal length, also where only their names are swapped. A name that says where the record
    stood (file:line, of records without an id) is left out: a file may get another name.

    Returns:
        (S, 16) uint8: BLAKE2b-128 over little-endian int32 ids, labels, image and video grids,
        float32 seconds and weights, and the record's own id in UTF-8, each preceded by its
        element count; then, of a sample with media, JSON of what the collator opens: kind, uri,
        height, width, frames and times.
    """
    parts = [
        (_raw(packs.columns[name], kind), BY_NAME[name].width, axis)
        for name, axis, kind in (
            ("input_ids", Axis.TOKEN, "<i4"),
            ("labels", Axis.TOKEN, "<i4"),
            ("image_grid_thw", Axis.IMAGE, "<i4"),
            ("video_grid_thw", Axis.VIDEO, "<i4"),
            ("second_per_grid_ts", Axis.VIDEO, "<f4"),
            ("loss_scale", Axis.TOKEN, "<f4"),
        )
        if name in packs.columns
    ]
    # memoryviews and plain ints: per sample, numpy slices cost more than the hash
    views = [(raw, 4 * width, packs.axes[axis].values.tolist()) for raw, width, axis in parts]
    found: list[bytes] = []
    media = _media(packs)
    for sample, name in enumerate(_own_names(packs)):
        pieces: list[bytes | memoryview] = []
        for view, width, bounds in views:
            start, stop = bounds[sample], bounds[sample + 1]
            pieces.append((stop - start).to_bytes(8, "little"))
            if start != stop:
                pieces.append(view[start * width : stop * width])
        pieces += len(name).to_bytes(8, "little"), name
        if sample in media:
            pieces.append(media[sample])
        found.append(blake2b(b"".join(pieces), digest_size=SIZE).digest())
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, SIZE)


def _raw(values: NDArray[Any], kind: str) -> memoryview:
    return np.ascontiguousarray(values, kind).reshape(-1).view(np.uint8).data


def _own_names(packs: Packs) -> Iterator[bytes]:
    """Spell the ids that records have themselves; empty for those named by their place."""
    names, sources = (packs.columns[name].tolist() for name in ("sample_ids", "sample_sources"))
    return (
        b"" if name == source else name.encode()
        for name, source in zip(names, sources, strict=True)
    )


def _media(packs: Packs) -> dict[int, bytes]:
    """Spell what each sample with media names; samples without any are left out."""
    if "media.uri" not in packs.columns:
        return {}
    names = ("kind", "uri", "height", "width", "frame_indices", "timestamps")
    fields = [packs.columns[f"media.{name}"].tolist() for name in names]
    bounds = packs.axes[Axis.MEDIUM]
    spelled: dict[int, bytes] = {}
    encode = json.JSONEncoder(default=list).encode
    for sample in np.flatnonzero(bounds.lengths).tolist():
        at = slice(int(bounds.values[sample]), int(bounds.values[sample + 1]))
        told = [list(field[at]) for field in fields]
        spelled[sample] = encode(told).encode()
    return spelled


def digest_total(digests: NDArray[np.uint8]) -> int:
    """Add digests up, modulo 2¹²⁸: equal for equal multisets, whatever their order.

    Args:
        digests: (S, 16) uint8.
    """
    words = np.ascontiguousarray(digests).view("<u4").reshape(-1, 4)
    sums = words.sum(axis=0, dtype=np.uint64).tolist()
    return sum(value << (32 * place) for place, value in enumerate(sums)) % (1 << 128)


def spell_total(total: int) -> str:
    """Spell a sum of digests as 32 hexadecimal digits."""
    return f"{total % (1 << 128):032x}"
