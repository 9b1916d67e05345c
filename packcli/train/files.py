"""The files of a pack's media."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from packcli.contract.errors import InputError
from packcli.shards.media_files import Fetch, MediaBytes, find

if TYPE_CHECKING:
    from packcli.shards.media_store import MediaStore
    from packcli.train.row import Medium

Roots: TypeAlias = str | Path | Mapping[str, str | Path]
"""The folder of relative paths, or one for each input, by the name in ``sample_sources``."""


@dataclass(frozen=True, slots=True)
class MediaFiles:
    """Finds media by the uri that encode wrote.

    Attributes:
        roots: folder of relative paths.
        store: embedded media of the dataset.
        fetch: for bytes that are neither.
    """

    roots: Roots
    store: MediaStore
    fetch: Fetch | None = None

    def pixels(self, medium: Medium) -> list[MediaBytes]:
        """Return a medium's file, or the files of its frames or canvases.

        Raises:
            InputError: one is not there, naming the remedy.
        """
        return [self._one(medium, uris[0]) for uris in uris_of(medium)]

    def positions(self, medium: Medium) -> list[MediaBytes]:
        """Return the files that tell where the patches of canvases stand; none of other media.

        Raises:
            InputError: as `pixels`.
        """
        return [self._one(medium, uri) for uris in uris_of(medium) for uri in uris[1:]]

    def _one(self, medium: Medium, uri: str) -> MediaBytes:
        return find(uri, self._root(medium.source), self.store, self.fetch)

    def _root(self, source: str) -> Path:
        if not isinstance(self.roots, Mapping):
            return Path(self.roots)
        name = source.rpartition(":")[0]
        if name not in self.roots:
            raise InputError(f"no media root for input {name!r}; there are {', '.join(self.roots)}")
        return Path(self.roots[name])


def uris_of(medium: Medium) -> list[list[str]]:
    """Split a uri: one of a file, one for each frame, or for each canvas its two."""
    if not medium.frames or not medium.uri.startswith("["):
        return [[medium.uri]]
    frames = json.loads(medium.uri)
    return [[str(one) for one in each] if isinstance(each, list) else [each] for each in frames]
