"""What a path means: a packcli dataset, or Parquet files that someone else wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.shards.directory import DATA, REJECTED, STAGING, SUCCESS
from packcli.shards.manifest import NAME, Manifest, ShardEntry, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.model import ModelFacts


_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Target:
    """Shards that are checked together.

    Attributes:
        path: what the user named.
        shards: files to read.
        facts: the model they are read for, None when nobody says.
        manifest: of a packcli dataset, else None.
        own: the facts are those of a manifest, the shards' own.
        stored_fingerprint: as the manifest spells it.
        among_others: other targets are checked in the same call, maybe with shards of equal names.
    """

    path: Path
    shards: tuple[Path, ...]
    facts: ModelFacts | None
    manifest: Manifest | None = None
    own: bool = False
    stored_fingerprint: str | None = None
    among_others: bool = False

    @property
    def entries(self) -> dict[str, ShardEntry]:
        """The manifest's shards by name."""
        return {} if self.manifest is None else {s.name: s for s in self.manifest.shards}

    def title(self, shard: Path) -> str:
        """Return how findings call a shard: its file name, with its path among several targets."""
        return shard.as_posix() if self.among_others else shard.name


def open_target(path: Path, facts: ModelFacts | None) -> Target:
    """Look at a path.

    Args:
        path: a dataset, a folder of Parquet files, or one Parquet file.
        facts: the model that the user named; a manifest's own comes first.

    Raises:
        InputError: there is nothing to check, the file is of another kind, or the dataset is
            not complete.
    """
    if path.is_file():
        _check_parquet(path)
        return _lone(path, (path,), facts)
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    if (path / NAME).exists():
        return _dataset(path)
    _check_not_own(path)
    shards = tuple(sorted(path.glob("*.parquet"))) or tuple(sorted(path.glob("data/*.parquet")))
    if not shards:
        raise InputError(f"{path}: no manifest and no Parquet files")
    return _lone(path, shards, facts)


def _check_not_own(path: Path) -> None:
    """Tell a dataset that lost its manifest from a folder that someone else wrote.

    Others write ``_SUCCESS`` too, but beside their Parquet files, not beside ``data/``.

    Raises:
        InputError: packcli wrote the folder, so packs may be gone and nothing would say so.
    """
    done, staged = ((path / name).exists() for name in (SUCCESS, STAGING))
    if staged and not done:
        raise InputError(f"{path}: not complete; run the command that writes it again to resume")
    if staged or ((path / DATA).is_dir() and (done or (path / REJECTED).exists())):
        raise InputError(
            f"{path}: not complete (no {NAME}, so nothing says which packs there were); "
            "copy the dataset again, whole, or create it again"
        )


def _check_parquet(path: Path) -> None:
    """Tell a file of another kind from a damaged shard, which is a finding and no wrong input.

    Raises:
        InputError: the file neither starts nor ends as a Parquet file does.
    """
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        file.seek(max(0, path.stat().st_size - len(_MAGIC)))
        if _MAGIC not in {head, file.read()}:
            raise InputError(
                f"{path}: not a Parquet file; name a dataset, a folder of Parquet files, or one"
            )


def _lone(path: Path, shards: tuple[Path, ...], facts: ModelFacts | None) -> Target:
    """Take files by themselves; a dataset that they lie in tells the model that they are for."""
    folder = shards[0].parent.resolve()
    if folder.name == DATA and (folder.parent / NAME).is_file():
        return Target(path, shards, read_manifest(folder.parent).model, own=True)
    return Target(path, shards, facts)


def _dataset(path: Path) -> Target:
    manifest = read_manifest(path)
    if not (path / SUCCESS).exists():
        raise InputError(f"{path}: not complete (no {SUCCESS}); run again to resume")
    stored = json.loads((path / NAME).read_text(encoding="utf-8")).get("fingerprint")
    shards = tuple(path / DATA / entry.name for entry in manifest.shards)
    return Target(path, shards, manifest.model, manifest, own=True, stored_fingerprint=stored)
