"""Where the bytes of a pack's media lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from packcli.contract.data_uri import data_uri_bytes
from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from packcli.train.row import Medium

Fetch: TypeAlias = Callable[[str], bytes]
"""Gives the bytes of a uri that names no file: ``sha256:…`` of embedded bytes, or remote ones."""

Roots: TypeAlias = str | Path | Mapping[str, str | Path]
"""The folder of relative paths, or one for each input, by the name in ``sample_sources``."""

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class MediaBytes:
    """A file, or bytes at hand.

    Attributes:
        name: for messages.
        path: the file; None for bytes at hand.
        data: the bytes; empty for a file.
    """

    name: str
    path: Path | None
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class MediaFiles:
    """Finds media by the uri that encode wrote.

    Attributes:
        roots: folder of relative paths.
        fetch: for embedded and remote bytes.
    """

    roots: Roots
    fetch: Fetch | None = None

    def find(self, medium: Medium) -> list[MediaBytes]:
        """Return a medium's file, or the files of its frames.

        Raises:
            InputError: it is not there, naming the remedy.
        """
        root = self._root(medium.source)
        if medium.kind == "video" and medium.uri.startswith("["):
            return [self._one(str(uri), root) for uri in json.loads(medium.uri)]
        return [self._one(medium.uri, root)]

    def _root(self, source: str) -> Path:
        if not isinstance(self.roots, Mapping):
            return Path(self.roots)
        name = source.rpartition(":")[0]
        if name not in self.roots:
            raise InputError(f"no media root for input {name!r}; there are {', '.join(self.roots)}")
        return Path(self.roots[name])

    def _one(self, uri: str, root: Path) -> MediaBytes:
        if uri.startswith("sha256:") or "://" in uri[:_SHOWN].removeprefix("file://"):
            return MediaBytes(uri[:_SHOWN], None, self._fetched(uri))
        if uri[:5].lower() == "data:":
            return MediaBytes(f"{uri[:_SHOWN]}…", None, _data_uri(uri))
        path = root / uri.removeprefix("file://").removeprefix("file:")
        if not path.is_file():
            raise InputError(
                f"{path}: no such file; give the folder that paths are relative to as media_root"
            )
        return MediaBytes(uri, path)

    def _fetched(self, uri: str) -> bytes:
        if self.fetch is None:
            raise InputError(
                f"{uri[:_SHOWN]}: these bytes stood in the record and the dataset holds only their "
                "hash; give MediaLoader a fetch function that returns them, or encode records "
                "that name files"
            )
        return self.fetch(uri)


def _data_uri(uri: str) -> bytes:
    try:
        return data_uri_bytes(uri)
    except ValueError as error:
        raise InputError(f"{uri[:_SHOWN]}…: {error}") from error
