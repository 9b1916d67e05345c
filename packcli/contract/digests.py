"""A digest of each sample, taken at encode and carried through pack."""

from __future__ import annotations

import json
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from packcli.contract.columns import Axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from packcli.contract.offsets import Offsets
    from packcli.contract.packs import Packs

_Pieces: TypeAlias = "list[bytes | memoryview]"
"""Bytes of each sample."""

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
    pieces = [
        piece
        for name, axis, kind in (
            ("input_ids", Axis.TOKEN, "<i4"),
            ("labels", Axis.TOKEN, "<i4"),
            ("image_grid_thw", Axis.IMAGE, "<i4"),
            ("video_grid_thw", Axis.VIDEO, "<i4"),
            ("second_per_grid_ts", Axis.VIDEO, "<f4"),
            ("loss_scale", Axis.TOKEN, "<f4"),
        )
        if name in packs.columns
        for piece in _counted(packs.columns[name], kind, packs.axes[axis])
    ]
    names = _own_names(packs)
    pieces += [_counts(np.array([len(name) for name in names], np.int64)), names, _media(packs)]
    found = [
        blake2b(b"".join(told), digest_size=SIZE).digest() for told in zip(*pieces, strict=True)
    ]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, SIZE)


def _counted(values: NDArray[Any], kind: str, bounds: Offsets) -> tuple[_Pieces, _Pieces]:
    """Cut a column into the elements of each sample, and count them."""
    if not bounds.total:
        return [bytes(8)] * len(bounds), [b""] * len(bounds)
    # memoryviews and plain ints: per sample, numpy slices cost more than the hash
    view = np.ascontiguousarray(values, kind).reshape(-1).view(np.uint8).data
    cuts = (bounds.values.astype(np.int64) * (len(view) // bounds.total)).tolist()
    return _counts(bounds.lengths), [view[start:stop] for start, stop in pairwise(cuts)]


def _counts(lengths: NDArray[np.integer]) -> _Pieces:
    """Spell each length as eight bytes, little-endian."""
    return lengths.astype("<i8").view("V8").tolist()


def _own_names(packs: Packs) -> _Pieces:
    """Spell the ids that records have themselves; empty for those named by their place."""
    names, sources = (packs.columns[name].tolist() for name in ("sample_ids", "sample_sources"))
    return [
        b"" if name == source else name.encode()
        for name, source in zip(names, sources, strict=True)
    ]


def _media(packs: Packs) -> _Pieces:
    """Spell what each sample with media names; empty for samples without any."""
    spelled: _Pieces = [b""] * packs.members.total
    if "media.uri" not in packs.columns:
        return spelled
    names = ("kind", "uri", "height", "width", "frame_indices", "timestamps")
    fields = [packs.columns[f"media.{name}"].tolist() for name in names]
    bounds = packs.axes[Axis.MEDIUM].values.tolist()
    encode = json.JSONEncoder(default=list).encode
    for sample, (start, stop) in enumerate(pairwise(bounds)):
        if start != stop:
            spelled[sample] = encode([field[start:stop] for field in fields]).encode()
    return spelled


def digest_bytes(digests: NDArray[np.uint8]) -> list[bytes]:
    """Give each digest as bytes, to be looked up.

    Args:
        digests: (S, 16) uint8.
    """
    return np.ascontiguousarray(digests).view(f"V{SIZE}").reshape(-1).tolist()


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
