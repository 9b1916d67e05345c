"""Original bytes of media, stored once each: ``media/<aa>/<sha256>``, beside ``data/``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

from packcli.contract.errors import InputError
from packcli.shards.disk import disk_errors
from packcli.shards.manifest import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FOLDER = "media"
ADDRESS = "sha256:"
EMBEDDED = "embedded"
"""What a manifest counts of a store; datasets without one have no such count."""

_NAMED = re.compile(ADDRESS + "([0-9a-f]{64})")
_BLOCK = 1 << 20


def names_in(uris: Iterable[str]) -> Iterator[str]:
    """Yield the hashes that ``media.uri`` names: ``sha256:…``, or a JSON array of them."""
    for uri in uris:
        yield from _NAMED.findall(uri)


def is_stored(path: str) -> bool:
    """Tell whether a path is that of embedded bytes."""
    folder, _, name = path.rpartition("/")
    inside = folder.endswith(f"{FOLDER}/{name[:2]}")
    return inside and _NAMED.fullmatch(ADDRESS + name) is not None


@dataclass(frozen=True, slots=True)
class MediaStore:
    """The media of one dataset.

    Attributes:
        path: the dataset's directory.
    """

    path: Path

    def place(self, name: str) -> Path:
        """Return where the bytes with a hash lie."""
        return self.path / FOLDER / name[:2] / name

    def in_place(self, uri: str) -> str:
        """Return a uri in which what is stored is named by its file."""

        def file(found: re.Match[str]) -> str:
            place = self.place(found[1])
            # names in a JSON array are JSON texts
            path = json.dumps(str(place), ensure_ascii=False)[1:-1]
            return (path if uri.startswith("[") else str(place)) if place.is_file() else found[0]

        return _NAMED.sub(file, uri)

    def keep(self, stream: BinaryIO) -> str:
        """Store what a stream holds, unless it is there, and return its address.

        Raises:
            IncompleteError: it cannot be written.
        """
        name = _hash(stream)
        if not self.place(name).exists():
            stream.seek(0)
            with disk_errors(self.path):
                name = self._write(stream)
        return ADDRESS + name

    def _write(self, stream: BinaryIO) -> str:
        staged = self.path / ".packcli" / f"medium.{os.getpid()}.tmp"
        digest = sha256()
        try:
            with staged.open("wb") as file:
                while block := stream.read(_BLOCK):
                    digest.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            # named by what was written: the source may have changed since it was hashed
            target = self.place(digest.hexdigest())
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)
        return digest.hexdigest()

    def adopt(self, names: Iterable[str], stores: Sequence[MediaStore]) -> None:
        """Take over what other datasets store: by a hard link, or a copy on another disk.

        Raises:
            InputError: none of them stores it.
            IncompleteError: it cannot be written.
        """
        for name in names:
            if self.place(name).exists():
                continue
            held = next((store for store in stores if store.place(name).is_file()), None)
            if held is None:
                raise InputError(
                    f"{ADDRESS}{name}: no input has it in {FOLDER}/; run `packcli verify` on them"
                )
            with disk_errors(self.path):
                # a link to a link would hang on the other dataset
                self._take(held.place(name).resolve(), self.place(name))

    def _take(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        try:
            target.hardlink_to(source)
        except FileExistsError:
            return
        except OSError:
            with source.open("rb") as stream:
                self._write(stream)

    def settle(self, wanted: set[str]) -> dict[str, Any]:
        """Remove what no sample names, and describe the rest for the manifest.

        Returns:
            Files, their bytes, and the SHA-256 of lines ``<sha256> <bytes>``, sorted.
        """
        for file in self.files():
            if file.name not in wanted:
                file.unlink()
        lines = [f"{name} {self.place(name).stat().st_size}\n" for name in sorted(wanted)]
        size = sum(int(line.split()[1]) for line in lines)
        total = sha256("".join(lines).encode()).hexdigest()
        return {"files": len(lines), "bytes": size, "sha256": total}

    def files(self) -> list[Path]:
        """List what is stored; files of other names are not ours."""
        found = (self.path / FOLDER).glob("??/*")
        return sorted(f for f in found if _NAMED.fullmatch(ADDRESS + f.name) and f.is_file())

    def remove(self) -> None:
        """Remove everything that is stored, and folders that are empty then."""
        for file in self.files():
            file.unlink()
        folders = [*(self.path / FOLDER).glob("??"), self.path / FOLDER]
        for folder in folders:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def fault(self, name: str) -> str | None:
        """Return the code of the rule that a file breaks, None for a sound one."""
        path = self.place(name)
        if not path.is_file():
            return "media.missing"
        return None if file_sha256(path) == name else "media.sha256"


def _hash(stream: BinaryIO) -> str:
    digest = sha256()
    while block := stream.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
