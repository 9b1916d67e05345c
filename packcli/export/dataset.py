"""The dataset that is exported, one row group after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.contract.packs import carried_columns
from packcli.shards.directory import DATA, SUCCESS
from packcli.shards.manifest import Manifest, read_manifest
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

    def portions(self) -> Iterator[Packs]:
        """Yield the packs of each row group.

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
                    yield shard.group(number, model, sorted(fields)).packs()
                except (ValueError, IndexError, TypeError, AttributeError) as error:
                    message = f"{shard.path}: these are no packs: {error}; {_CHECK}"
                    raise InputError(message) from error
