"""The output directory: staging, atomic commit, resume; `_SUCCESS` last of all."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import IncompleteError, InputError, UsageError
from packcli.shards.disk import disk_errors, sync
from packcli.shards.lock import lock, unlock
from packcli.shards.manifest import FORMAT, NAME, Manifest, ShardEntry, canonical, file_sha256
from packcli.shards.media_store import MediaStore
from packcli.shards.reader import Shard, ShardUnreadableError
from packcli.shards.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from packcli.contract.model import ModelFacts

DATA = "data"
SUCCESS = "_SUCCESS"
REJECTED = "rejected.jsonl"
CARD = "README.md"
STAGING = ".packcli"
LOCK = "lock"
_OWN = (SUCCESS, NAME, REJECTED, CARD)


@dataclass(frozen=True, slots=True)
class OutputDirectory:
    """One dataset that is being written.

    Attributes:
        path: the directory that the user named.
        job: the manifest without results; its fingerprint decides whether work may resume.
    """

    path: Path
    job: Manifest

    @classmethod
    def open(
        cls, path: Path, job: Manifest, *, overwrite: bool = False, resume: bool = True
    ) -> OutputDirectory:
        """Claim a directory: new, empty, to be resumed, or to be overwritten.

        Raises:
            UsageError: it holds something that must not be touched, or another process writes.
            InputError: unfinished work there was started with other options or inputs.
            IncompleteError: it cannot be written.
        """
        output = cls(path, job)
        with disk_errors(path):
            for folder in (path, path / DATA, path / STAGING):
                if folder.exists() and not folder.is_dir():
                    raise UsageError(f"{folder} is no folder; choose another output folder")
            if (
                not overwrite
                and path.exists()
                and any(entry.name != STAGING for entry in path.iterdir())
            ):
                output._check_resumable(resume=resume)
            _lock(path, overwrite=overwrite)
            for folder in (path / DATA, path / STAGING / "parts", path / STAGING / "shards"):
                folder.mkdir(parents=True, exist_ok=True)
            _write_atomically(path, f"{STAGING}/job.json", [canonical(job.to_json())])
        return output

    def claim_place(self, name: str, place: str) -> None:
        """Note a place of this machine that work depends on; the manifest must not name it.

        Raises:
            InputError: unfinished work there was started with another.
        """
        note = f"{STAGING}/{name.replace(' ', '_')}"
        told = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        if not (self.path / note).exists():
            with disk_errors(self.path):
                _write_atomically(self.path, note, [told])
        elif (self.path / note).read_text(encoding="utf-8") != told:
            message = f"{self.path}: unfinished work was started with another {name}"
            raise InputError(f"{message}; use the same, or --overwrite")

    def part(self, number: int) -> dict[str, Any] | None:
        """Return what a finished part reported, None while it is not finished."""
        record = self._part_record(number)
        if not record.exists():
            return None
        report = json.loads(record.read_text(encoding="utf-8"))
        shard = report.get("shard")
        return report if shard is None or self._is_whole(shard) else None

    def _is_whole(self, shard: dict[str, Any]) -> bool:
        path = self.path / DATA / shard["name"]
        return path.is_file() and path.stat().st_size == shard["bytes"]

    @contextmanager
    def underway(self, number: int) -> Generator[None]:
        """Note that a part is being done; the note stays if the process dies in it."""
        note = self._note(number)
        with disk_errors(self.path):
            note.parent.mkdir(exist_ok=True)
            note.touch()
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    def broken_off(self, number: int) -> bool:
        """Tell whether a process died while it did a part."""
        return self._note(number).exists()

    def _note(self, number: int) -> Path:
        return self.path / STAGING / "underway" / f"{number:05d}"

    def finish_part(self, number: int, report: dict[str, Any]) -> None:
        """Note that a part is finished."""
        with disk_errors(self.path):
            text = json.dumps(report, ensure_ascii=False)
            _write_atomically(self.path, f"{STAGING}/parts/{number:05d}.json", [text])

    @contextmanager
    def shard(
        self, name: str, facts: ModelFacts
    ) -> Generator[tuple[ShardWriter, list[ShardEntry]]]:
        """Write one shard: staged, synced, read back, hashed, then renamed into ``data/``.

        Yields:
            The writer, and a list that holds the shard's entry once the block has ended.

        Raises:
            UsageError: ``data/`` holds a file of that name that this work did not write.
            IncompleteError: the disk is full, read-only or damaged.
        """
        staged = self.path / STAGING / f"{name}.{os.getpid()}.tmp"
        entries: list[ShardEntry] = []
        try:
            with disk_errors(self.path):
                self._claim(name)
                with ShardWriter(staged, facts) as writer:
                    yield writer, entries
                entries.append(self._commit(staged, name, writer))
        finally:
            staged.unlink(missing_ok=True)

    def _claim(self, name: str) -> None:
        """Note the name before the file is there, so that `--overwrite` knows it for ours."""
        note = self.path / STAGING / "shards" / name.removesuffix(".parquet")
        if not note.exists() and (self.path / DATA / name).exists():
            raise UsageError(f"{self.path / DATA / name} was not written by packcli; move it away")
        note.touch()

    def _commit(self, staged: Path, name: str, writer: ShardWriter) -> ShardEntry:
        sync(staged)
        counts = writer.counts
        try:
            rows = Shard.open(staged).rows
        except ShardUnreadableError as error:
            raise IncompleteError(f"{name}: what was written cannot be read: {error}") from error
        if rows != counts.rows:
            raise IncompleteError(f"{name}: wrote {counts.rows} rows, the file has {rows}")
        size, digest = staged.stat().st_size, file_sha256(staged)
        staged.replace(self.path / DATA / name)
        sync(self.path / DATA)
        return ShardEntry(name, counts.rows, counts.samples, counts.tokens, size, digest)

    def finish(self, manifest: Manifest, *, card: str, rejected: Iterator[dict[str, Any]]) -> None:
        """Write rejections, card and manifest, then `_SUCCESS`; sweep the staging folder."""
        with disk_errors(self.path):
            (self.path / STAGING / "finishing").touch()
            lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in rejected)
            _write_atomically(self.path, REJECTED, lines)
            _write_atomically(self.path, CARD, [card])
            _write_atomically(self.path, NAME, [canonical(manifest.to_json())])
            _write_atomically(self.path, SUCCESS, [])
        shutil.rmtree(self.path / STAGING, ignore_errors=True)
        unlock(self.path / STAGING / LOCK)

    def close(self) -> None:
        """Let other processes go on with unfinished work."""
        unlock(self.path / STAGING / LOCK)

    def _part_record(self, number: int) -> Path:
        return self.path / STAGING / "parts" / f"{number:05d}.json"

    def _check_resumable(self, *, resume: bool) -> None:
        job = self.path / STAGING / "job.json"
        if not job.exists() or (self.path / SUCCESS).exists():
            raise UsageError(
                f"{self.path} is not empty; choose another folder, or --overwrite to replace "
                "a dataset that packcli wrote there"
            )
        if not resume:
            raise UsageError(f"{self.path} holds unfinished work; drop --no-resume or --overwrite")
        before = json.loads(job.read_text(encoding="utf-8"))
        after = json.loads(canonical(self.job.to_json()))
        if before["fingerprint"] != after["fingerprint"]:
            changed = ", ".join(_changed(before, after))
            raise InputError(
                f"{self.path}: unfinished work was started with other {changed}; "
                "use the same, or --overwrite"
            )


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Name the fields that differ, those of an object as ``options.capacity``."""
    names: list[str] = []
    for name in sorted((before.keys() | after.keys()) - {"fingerprint"}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            names += [f"{name}.{field}" for field in _changed(old, new)]
        else:
            names.append(name)
    return names


def _lock(path: Path, *, overwrite: bool) -> None:
    """Become the only writer; then remove what was there, if that is asked for."""
    fresh = not (path / STAGING).exists()
    (path / STAGING).mkdir(parents=True, exist_ok=True)
    lock(path / STAGING / LOCK, path)
    try:
        if overwrite:
            _remove_own(path)
    except UsageError:
        unlock(path / STAGING / LOCK)
        if fresh:
            (path / STAGING).rmdir()
        raise


def _remove_own(path: Path) -> None:
    """Remove what packcli wrote there and nothing else; `_SUCCESS` first, manifest last.

    Raises:
        UsageError: a file there has the name of one of ours and is not ours.
    """
    shards = _own_shards(path)
    finishing = (path / STAGING / "finishing").exists()
    if not finishing and _written_manifest(path) is None:
        foreign = [name for name in _OWN if (path / name).exists()]
        if foreign:
            raise UsageError(f"{path / foreign[0]} was not written by packcli; move it away")
    (path / SUCCESS).unlink(missing_ok=True)
    MediaStore(path).remove()
    for name in shards:
        (path / DATA / name).unlink(missing_ok=True)
    for name in (REJECTED, CARD, NAME):
        (path / name).unlink(missing_ok=True)
    for entry in (path / STAGING).iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()


def _own_shards(path: Path) -> list[str]:
    """Names of the shards that packcli wrote or was about to write."""
    manifest = _written_manifest(path) or {"shards": []}
    notes = path / STAGING / "shards"
    names = [f"{note.name}.parquet" for note in notes.iterdir()] if notes.is_dir() else []
    names += [str(shard["name"]) for shard in manifest["shards"]]
    # a manifest is a file that anyone can edit: its names must not lead out of data/
    return [name for name in names if name == name.rpartition("/")[2] and name not in {"", ".."}]


def _written_manifest(path: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((path / NAME).read_text(encoding="utf-8"))
        return manifest if manifest["format"] == FORMAT and manifest["shards"] is not None else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _write_atomically(directory: Path, name: str, lines: Iterable[str]) -> None:
    """Write a text file under another name, sync it, and rename it into its place."""
    target = directory / name
    staged = directory / STAGING / f"{target.name}.{os.getpid()}.tmp"
    # lone surrogates of bad records have no UTF-8, but the JSON escape that this leaves is right
    with staged.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines(lines)
    sync(staged)
    staged.replace(target)
    sync(target.parent)
