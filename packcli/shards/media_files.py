"""Where the bytes of a medium lie: a file, its own address, the dataset's store, or elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from packcli.contract.data_uri import data_uri_bytes
from packcli.contract.errors import InputError
from packcli.shards.media_store import ADDRESS

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.shards.media_store import MediaStore

Fetch: TypeAlias = Callable[[str], bytes]
"""Gives the bytes of a uri that names no file: ``sha256:…`` that is not stored, or a remote one."""

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

    def open(self) -> BinaryIO:
        """Open the file, or the bytes."""
        return io.BytesIO(self.data) if self.path is None else self.path.open("rb")


def in_file(uri: str) -> bool:
    """Whether a uri is a path of this machine."""
    plain = uri.removeprefix("file:")
    return (
        plain[:5].lower() != "data:"
        and not plain.startswith(ADDRESS)
        and ("://" not in plain[:_SHOWN])
    )


def path_of(uri: str) -> str:
    """Return the path that a uri names, of which `in_file` is true."""
    return uri.removeprefix("file://").removeprefix("file:")


def find(uri: str, root: Path, store: MediaStore | None, fetch: Fetch | None = None) -> MediaBytes:
    """Find a medium by the uri that encode wrote.

    Args:
        uri: ``media.uri``, or one of the uris in it.
        root: folder of relative paths.
        store: of the dataset; None where there is none.
        fetch: for what is neither file, data nor stored.

    Raises:
        InputError: it is not there, naming the remedy.
    """
    shown = uri[:_SHOWN]
    if in_file(uri):
        path = root / path_of(uri)
        if not path.is_file():
            raise InputError(
                f"{path}: no such file; give the folder that paths are relative to as media_root"
            )
        return MediaBytes(uri, path)
    if uri[:5].lower() == "data:":
        try:
            return MediaBytes(f"{shown}…", None, data_uri_bytes(uri))
        except ValueError as error:
            raise InputError(f"{shown}…: {error}") from error
    place = None if store is None else store.place(uri.removeprefix(ADDRESS))
    if uri.startswith(ADDRESS) and place is not None and place.is_file():
        return MediaBytes(shown, place)
    if fetch is None:
        raise InputError(
            f"{shown}: the dataset names these bytes and does not hold them; encode with "
            "--embed-media, give MediaLoader a fetch function, or encode records that name files"
        )
    return MediaBytes(shown, None, fetch(uri))
