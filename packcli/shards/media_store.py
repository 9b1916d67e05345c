"""Original bytes of media, stored once each: ``media/<aa>/<sha256>``, beside ``data/``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

from packcli.shards.disk import disk_errors
from packcli.shards.manifest import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FOLDER = "media"
ADDRESS = "sha256:"

_NAMED = re.compile(ADDRESS + "([0-9a-f]{64})")
_BLOCK = 1 << 20


def names_in(uris: Iterable[str]) -> Iterator[str]:
    """Yield the hashes that ``media.uri`` names: ``sha256:…``, or a JSON array of them."""
    for uri in uris:
        yield from _NAMED.findall(uri)


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
