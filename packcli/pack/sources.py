"""Where samples come from: encoded (or packed) datasets, row group by row group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.errors import InputError
from packcli.contract.packs import Packs, carried_columns
from packcli.pack.options import Samples
from packcli.shards.directory import DATA, SUCCESS
from packcli.shards.manifest import Manifest, read_manifest
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_LENGTH_COLUMN = "seq_lengths"
_LENGTH_COLUMNS = (_LENGTH_COLUMN,)
_CHECK = "run `packcli verify` on it, then encode again"
_ALIKE = ("model", "versions", "settings", "options")


@dataclass(frozen=True, slots=True, eq=False)
class RowGroup:
    """A portion of a shard that is read at once.

    Attributes:
        path: the shard.
        number: which row group of it.
        lengths: (n,) int32, tokens of its samples.
    """

    path: Path
    number: int
    lengths: NDArray[np.int32]

    @property
    def tokens(self) -> int:
        """Tokens of all its samples."""
        return int(self.lengths.sum(dtype=np.int64))


def open_sources(paths: list[Path]) -> list[Manifest]:
    """Read the manifests of datasets that are to be packed together.

    Raises:
        InputError: a dataset is incomplete, or they are not alike, naming the fields.
    """
    manifests: list[Manifest] = []
    for path in paths:
        manifest = read_manifest(path)
        if not (path / SUCCESS).exists():
            raise InputError(f"{path}: not complete (no {SUCCESS}); run encode again to resume")
        manifests.append(manifest)
    first = _decisive(manifests[0])
    for path, manifest in zip(paths[1:], manifests[1:], strict=True):
        other = _decisive(manifest)
        if unlike := [name for name in _ALIKE if first[name] != other[name]]:
            details = "; ".join(_difference(name, first[name], other[name]) for name in unlike)
            raise InputError(
                f"{paths[0]} and {path} were made differently: {details}; "
                "encode both with the same model and options"
            )
    return manifests


def _decisive(manifest: Manifest) -> dict[str, Any]:
    """Return what must be alike; of a packed dataset also what its samples were encoded with."""
    fields = manifest.to_json()
    encoded = [source["options"] for source in manifest.inputs if "options" in source]
    return fields | {"options": {"encoded": encoded[:1]} | fields["options"]}


def _difference(name: str, left: dict[str, object], right: dict[str, object]) -> str:
    keys = [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]
    shown = ", ".join(f"{key} {left.get(key)!r:.40} / {right.get(key)!r:.40}" for key in keys)
    return f"{name}: {shown}"


def index(path: Path, manifest: Manifest) -> list[RowGroup]:
    """List a dataset's row groups with the lengths of their samples; no token is read."""
    groups: list[RowGroup] = []
    for entry in manifest.shards:
        shard = Shard.open(path / DATA / entry.name)
        if shard.rows != entry.rows or shard.path.stat().st_size != entry.bytes:
            raise InputError(f"{shard.path}: not the shard that the manifest names; {_CHECK}")
        for number in range(shard.file.num_row_groups):
            rows = shard.group(number, columns=_LENGTH_COLUMNS)
            if _LENGTH_COLUMN not in rows.cells:
                raise InputError(f"{shard.path}: no column {_LENGTH_COLUMN}; {_CHECK}")
            groups.append(RowGroup(shard.path, number, rows.cells[_LENGTH_COLUMN].values))
    return groups


def load(groups: list[RowGroup], manifest: Manifest) -> Packs:
    """Read row groups, in their order, as packs of one.

    Raises:
        InputError: what is stored are no packs.
    """
    packs = Packs.concatenated([_packs(group, manifest) for group in groups])
    return packs.take(np.arange(packs.members.total))


def _packs(group: RowGroup, manifest: Manifest) -> Packs:
    rows = Shard.open(group.path).group(group.number, manifest.model)
    missing = [c.name for c in carried_columns(manifest.model) if c.name not in rows.cells]
    if missing:
        raise InputError(f"{group.path}: no column {', '.join(missing)}; {_CHECK}")
    try:
        return rows.packs()
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{group.path}: these are no packs: {error}; {_CHECK}") from error


def demands(packs: Packs) -> Samples:
    """Lengths, images and patches of each sample."""
    if not packs.facts.has_media:
        return Samples(packs.tokens.lengths)
    patches = np.zeros(packs.members.total, dtype=np.int64)
    for axis, name in ((Axis.IMAGE, "image_grid_thw"), (Axis.VIDEO, "video_grid_thw")):
        each = packs.columns[name].astype(np.int64).prod(axis=1)
        owner = packs.axes[axis].segment_ids()
        patches += np.bincount(owner, weights=each, minlength=len(patches)).astype(np.int64)
    return Samples(packs.tokens.lengths, packs.axes[Axis.IMAGE].lengths, patches)
