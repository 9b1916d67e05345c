"""Where a medium's bytes lie: a file under the media root, a data URI, or the record itself."""

from __future__ import annotations

import io
import os
import stat
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO

from packcli.contract.data_uri import data_uri_bytes
from packcli.contract.errors import Rejection
from packcli.encode.media.remote import fetch

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.encode.media.remote import RemotePolicy
    from packcli.encode.records.conversation import MediaRef

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class MediaRoot:
    """The folder that media paths are relative to, and must not leave.

    Attributes:
        path: the folder; resolved once.
        allow_outside: whether `..`, absolute paths and links may leave it.
        remote: how media on the network are fetched; None: not at all.
    """

    path: Path
    allow_outside: bool = False
    remote: RemotePolicy | None = None
    real: str = field(init=False)

    def __post_init__(self) -> None:
        """Resolve the folder once, links included."""
        object.__setattr__(self, "real", os.path.realpath(self.path))


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes of a medium that can be opened.

    Attributes:
        name: for messages: the path as the record gives it, or the start of a data URI.
        path: the file; None for bytes that are at hand.
        data: the bytes; None for a file.
        size: bytes.
    """

    name: str
    path: str | None
    data: bytes | None
    size: int

    def open(self) -> BinaryIO:
        """Open for reading.

        Raises:
            Rejection: `media_missing`, the file cannot be opened.
        """
        if self.path is None:
            return io.BytesIO(self.data or b"")
        try:
            return open(self.path, "rb")  # noqa: PTH123 - the caller closes; str paths are cheap
        except OSError as error:
            raise _missing(self.name, error) from error


def locate(ref: MediaRef, root: MediaRoot) -> Source:
    """Find a medium.

    Raises:
        Rejection: `media_missing`, `media_empty`, `media_outside_root`,
            `media_remote_disabled`, `media_remote_failed`, `bad_data_uri` or `bad_media_ref`.
    """
    if ref.data is not None:
        return _at_hand("embedded bytes", ref.data)
    uri = ref.uri or ""
    scheme, colon, _ = uri.partition(":")
    scheme = scheme.lower() if colon and len(scheme) > 1 and scheme.isalnum() else ""
    if scheme == "data":
        return _at_hand(f"{uri[:_SHOWN]}…", _data_uri(uri))
    if scheme == "file":
        return _file(uri[5:].removeprefix("//"), root)
    if scheme and uri[len(scheme) :].startswith("://"):
        return _remote(uri, root)
    return _file(uri, root)


def _remote(uri: str, root: MediaRoot) -> Source:
    if root.remote is None:
        message = f"{uri[:_SHOWN]}: remote media are not fetched; download it and name the file"
        raise Rejection("media_remote_disabled", f"{message}, or --allow-remote-media")
    return _at_hand(uri[:_SHOWN], fetch(uri, root.remote))


def _at_hand(name: str, data: bytes) -> Source:
    if not data:
        raise Rejection("media_empty", f"{name} holds no bytes; embed the file again")
    return Source(name, None, data, len(data))


def _data_uri(uri: str) -> bytes:
    try:
        return data_uri_bytes(uri)
    except ValueError as error:
        raise Rejection("bad_data_uri", f"{uri[:_SHOWN]}: {error}") from error


def _file(uri: str, root: MediaRoot) -> Source:
    if not uri or "\0" in uri:
        raise Rejection("bad_media_ref", f"{uri!r:.{_SHOWN}} is not a path; name a file")
    path = os.path.join(root.real, uri)  # noqa: PTH118 - twice as fast as pathlib, once a medium
    try:
        if not root.allow_outside and not _inside(path, root.real):
            raise _outside(uri, path, root.real)
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError as error:
        raise _missing(uri, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise Rejection("bad_media_ref", f"{uri} is not a file; name a file")
    if status.st_size == 0:
        raise Rejection("media_empty", f"{uri} has no bytes; copy it again")
    return Source(uri, path, None, status.st_size)


def _outside(uri: str, path: str, real_root: str) -> Rejection:
    # by its letters alone it lies inside: then a link on the way leads out, which nobody sees
    linked = os.path.normpath(path).startswith(real_root.rstrip(os.sep) + os.sep)
    how = "leaves the media root by a symbolic link" if linked else "leaves the media root"
    remedy = "move it in, name its folder by --media-root, or --allow-outside-root"
    return Rejection("media_outside_root", f"{uri} {how}; {remedy}")


def _missing(uri: str, error: OSError) -> Rejection:
    # without the folder: equal inputs give equal messages on every machine
    where = "it is looked for under --media-root, by default the input's folder"
    return Rejection("media_missing", f"{uri}: {error.strerror}; {where}")


def _inside(path: str, real_root: str) -> bool:
    folder, name = os.path.split(path)
    real = os.path.join(_real_folder(folder), name)  # noqa: PTH118 - as above
    if os.path.islink(real) or name in {"", ".", ".."}:  # noqa: PTH114 - as above
        real = os.path.realpath(real)
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
