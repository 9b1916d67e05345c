"""The dataset that is exported, one row group after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.contract.packs import boxed, carried_columns
from packcli.contract.padding import without_padding
from packcli.shards.directory import DATA, SUCCESS
from packcli.shards.manifest import Manifest, read_manifest
from packcli.shards.media_store import EMBEDDED, MediaStore
from packcli.shards.reader import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.contract.packs import Packs

_CHECK = "run `packcli verify` on it"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A complete dataset.

    Attributes:
        path: its folder.
        manifest: how it was made.
        groups: row groups of each shard.
    """

    path: Path
    manifest: Manifest
    groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Path) -> Dataset:
        """Read the manifest and the footers.

        Raises:
            InputError: it is no complete dataset.
        """
        manifest = read_manifest(path)
        if not (path / SUCCESS).exists():
            raise InputError(f"{path}: not complete (no {SUCCESS}); run its command again")
        shards = [path / DATA / entry.name for entry in manifest.shards]
        missing = [shard for shard in shards if not shard.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: missing; {_CHECK}")
        return cls(path, manifest, tuple(len(Shard.open(shard).group_rows) for shard in shards))

    @property
    def unpadded(self) -> Manifest:
        """The manifest, as if nothing were padded."""
        return replace(self.manifest, model=replace(self.manifest.model, padding=None))

    def portions(self) -> Iterator[Packs]:
        """Yield the packs of each row group, without padding: targets pad as their trainers do.

        Embedded media are named by their files, so that a target need not know of them.

        Raises:
            InputError: what is stored are no packs.
        """
        model = self.manifest.model
        wanted = [column.name for column in carried_columns(model)]
        fields = {name.split(".")[0] for name in (*wanted, "cu_seqlens")}
        for entry, count in zip(self.manifest.shards, self.groups, strict=True):
            shard = Shard.open(self.path / DATA / entry.name)
            if missing := fields - set(shard.columns):
                raise InputError(f"{shard.path}: no column {', '.join(sorted(missing))}; {_CHECK}")
            for number in range(count):
                try:
                    packs = shard.group(number, model, sorted(fields)).packs()
                except (ValueError, IndexError, TypeError, AttributeError) as error:
                    message = f"{shard.path}: these are no packs: {error}; {_CHECK}"
                    raise InputError(message) from error
                yield self._in_place(replace(without_padding(packs), facts=self.unpadded.model))

    def _in_place(self, packs: Packs) -> Packs:
        if EMBEDDED not in self.manifest.counts:
            return packs
        store = MediaStore(self.path.resolve())
        uris = [store.in_place(uri) for uri in packs.columns["media.uri"].tolist()]
        return replace(packs, columns={**packs.columns, "media.uri": boxed(uris)})
