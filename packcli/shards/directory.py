"""The output directory: staging, atomic commit, resume; `_SUCCESS` last of all."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import IncompleteError, InputError, UsageError
from packcli.shards.manifest import NAME, Manifest, ShardEntry, canonical, file_sha256
from packcli.shards.reader import Shard
from packcli.shards.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from packcli.contract.model import ModelFacts

DATA = "data"
SUCCESS = "_SUCCESS"
REJECTED = "rejected.jsonl"
CARD = "README.md"
STAGING = ".packcli"
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
            UsageError: it holds something that must not be touched.
            InputError: unfinished work there was started with other options or inputs.
            IncompleteError: it cannot be written.
        """
        output = cls(path, job)
        with _disk_errors(path):
            if overwrite:
                output._remove_own()
            elif path.exists() and (not path.is_dir() or any(path.iterdir())):
                output._check_resumable(resume=resume)
            (path / DATA).mkdir(parents=True, exist_ok=True)
            (path / STAGING / "parts").mkdir(parents=True, exist_ok=True)
            (path / STAGING / "job.json").write_text(canonical(job.to_json()), encoding="utf-8")
        return output

    def part(self, number: int) -> dict[str, Any] | None:
        """Return what a finished part reported, None while it is not finished."""
        record = self._part_record(number)
        if not record.exists():
            return None
        report = json.loads(record.read_text(encoding="utf-8"))
        shard = report.get("shard")
        committed = shard is None or (self.path / DATA / shard["name"]).exists()
        return report if committed else None

    def finish_part(self, number: int, report: dict[str, Any]) -> None:
        """Note that a part is finished."""
        with _disk_errors(self.path):
            _write_atomically(self._part_record(number), json.dumps(report, ensure_ascii=False))

    @contextmanager
    def shard(
        self, name: str, facts: ModelFacts
    ) -> Generator[tuple[ShardWriter, list[ShardEntry]]]:
        """Write one shard: staged, synced, read back, hashed, then renamed into ``data/``.

        Yields:
            The writer, and a list that holds the shard's entry once the block has ended.
        """
        staged = self.path / STAGING / f"{name}.{os.getpid()}.tmp"
        entries: list[ShardEntry] = []
        try:
            with _disk_errors(self.path):
                with ShardWriter(staged, facts) as writer:
                    yield writer, entries
                entries.append(self._commit(staged, name, writer))
        finally:
            staged.unlink(missing_ok=True)

    def _commit(self, staged: Path, name: str, writer: ShardWriter) -> ShardEntry:
        _sync(staged)
        counts = writer.counts
        rows = Shard.open(staged).rows
        if rows != counts.rows:
            raise IncompleteError(f"{name}: wrote {counts.rows} rows, the file has {rows}")
        size, digest = staged.stat().st_size, file_sha256(staged)
        staged.replace(self.path / DATA / name)
        _sync(self.path / DATA)
        return ShardEntry(name, counts.rows, counts.samples, counts.tokens, size, digest)

    def finish(self, manifest: Manifest, *, card: str, rejected: Iterator[dict[str, Any]]) -> None:
        """Write rejections, card and manifest, then `_SUCCESS`; sweep the staging folder."""
        with _disk_errors(self.path):
            lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in rejected)
            _write_atomically(self.path / REJECTED, "".join(lines))
            _write_atomically(self.path / CARD, card)
            _write_atomically(self.path / NAME, canonical(manifest.to_json()))
            _write_atomically(self.path / SUCCESS, "")
            shutil.rmtree(self.path / STAGING)

    def _part_record(self, number: int) -> Path:
        return self.path / STAGING / "parts" / f"{number:05d}.json"

    def _check_resumable(self, *, resume: bool) -> None:
        job = self.path / STAGING / "job.json"
        if not job.exists():
            raise UsageError(
                f"{self.path} is not empty; choose another folder, or --overwrite to replace "
                "a dataset that packcli wrote there"
            )
        if not resume:
            raise UsageError(f"{self.path} holds unfinished work; drop --no-resume or --overwrite")
        before = json.loads(job.read_text(encoding="utf-8"))
        after = self.job.to_json()
        if before["fingerprint"] != after["fingerprint"]:
            fields = [name for name in after if before.get(name) != after[name]]
            changed = ", ".join(field for field in fields if field != "fingerprint")
            raise InputError(
                f"{self.path}: unfinished work was started with other {changed}; "
                "use the same, or --overwrite"
            )

    def _remove_own(self) -> None:
        """Remove what packcli wrote there and nothing else."""
        manifest = self.path / NAME
        names: list[str] = []
        if manifest.exists():
            names = [shard["name"] for shard in json.loads(manifest.read_text())["shards"]]
        parts = self.path / STAGING / "parts"
        for record in parts.glob("*.json") if parts.is_dir() else ():
            shard = json.loads(record.read_text(encoding="utf-8")).get("shard")
            names += [shard["name"]] if shard else []
        own_card = manifest.exists()
        for name in names:
            (self.path / DATA / name).unlink(missing_ok=True)
        for name in _OWN if own_card else ():
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / STAGING, ignore_errors=True)


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise IncompleteError(f"{path}: {error}; free space or mend it, then run again") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_atomically(path: Path, text: str) -> None:
    staged = path.parent / f".{path.name}.tmp"
    staged.write_text(text, encoding="utf-8")
    _sync(staged)
    staged.replace(path)
    _sync(path.parent)
