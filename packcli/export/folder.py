"""The folder of an export: written beside its place, renamed into it when it is whole."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import UsageError
from packcli.shards.disk import disk_errors, sync
from packcli.shards.lock import lock, unlock
from packcli.shards.manifest import canonical, file_sha256

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

FORMAT = "packcli-export/1"
# hidden files: every reader of folders passes them over
MANIFEST = ".packcli_export.json"
REFUSED = ".packcli_refused.jsonl"


@contextmanager
def staged(output: Path, *, overwrite: bool) -> Generator[Path]:
    """Give a folder to write to; it takes the place of `output` when the block ends.

    Raises:
        UsageError: there is something that must not be touched, or another process writes.
        IncompleteError: the disk is full or read-only.
    """
    _claim(output, overwrite=overwrite)
    folder = output.parent / f".{output.name}.{os.getpid()}.tmp"
    guard = output.parent / f".{output.name}.lock"
    with disk_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        lock(guard, output)
    try:
        with disk_errors(output):
            folder.mkdir(parents=True)
        with disk_errors(output):
            yield folder
            for path in [*folder.rglob("*"), folder]:
                sync(path)
            _remove_own(output)
            folder.replace(output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unlock(guard)


def describe(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest of an export, naming every file beside it."""
    files = [
        {"name": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size}
        | {"sha256": file_sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    ]
    whole = {"format": FORMAT, **document, "files": files}
    (folder / MANIFEST).write_text(canonical(whole), encoding="utf-8")
    return whole


def _claim(output: Path, *, overwrite: bool) -> None:
    if output.is_dir() and not any(output.iterdir()):
        return
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"{output} is no folder; choose another output folder")
    if not overwrite:
        raise UsageError(
            f"{output} is not empty; choose another folder, or --overwrite to replace an export "
            "that packcli wrote there"
        )
    own = {output / name for name in _own(output)}
    foreign = [path for path in sorted(output.rglob("*")) if path.is_file() and path not in own]
    if foreign:
        raise UsageError(f"{foreign[0]} was not written by this export; move it away")


def _own(output: Path) -> list[str]:
    """Names of the files that an export wrote, its manifest last."""
    try:
        told = cast("dict[str, Any]", json.loads((output / MANIFEST).read_text(encoding="utf-8")))
        if told["format"] != FORMAT:
            return []
        names = [str(file["name"]) for file in told["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    # anyone can edit a manifest: its names must not lead out of the folder
    inside = [name for name in names if not {"..", ""} & {*name.split("/")}]
    return [*inside, MANIFEST]


def _remove_own(output: Path) -> None:
    """Remove an old export, which `_claim` found to hold nothing else."""
    if output.exists():
        for name in _own(output):
            (output / name).unlink(missing_ok=True)
        for path in sorted(output.rglob("*"), reverse=True):
            path.rmdir()
        output.rmdir()
