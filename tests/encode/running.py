"""Run the encode stage on a few records, and read back what it wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import EncodeSummary, Writing, encode
from packcli.families import open_family

if TYPE_CHECKING:
    from packcli.families.family import Family

MODELS = Path(__file__).resolve().parents[2] / "sample_data" / "models"


@cache
def image_processor(model: str) -> Any:
    """transformers' image processor of a sample model, without torchvision."""
    name = "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
    return pytest.importorskip(name).Qwen2VLImageProcessorPil.from_pretrained(MODELS / model)


@cache
def family(model: str) -> Family:
    """A sample model as packcli opens it."""
    return open_family(MODELS / model)


@dataclass(frozen=True, slots=True)
class Written:
    """One dataset."""

    summary: EncodeSummary
    folder: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Samples in order."""
        shards = sorted((self.folder / "data").glob("*.parquet"))
        return [row for shard in shards for row in pq.read_table(shard).to_pylist()]

    @property
    def ids(self) -> list[str]:
        """Ids of the samples."""
        return [row["sample_ids"][0] for row in self.rows]

    @property
    def rejected(self) -> list[dict[str, Any]]:
        """Lines of rejected.jsonl."""
        text = (self.folder / "rejected.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def codes(self) -> list[str]:
        """Codes of the rejected records."""
        return [line["code"] for line in self.rejected]

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest."""
        return json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))


def run(
    inputs: Path | list[Path],
    output: Path,
    *,
    model: str | Path = "qwen3_vl",
    media_root: Path | None = None,
    writing: dict[str, Any] | None = None,
    **options: Any,
) -> Written:
    """Encode inputs into a folder."""
    paths = [inputs] if isinstance(inputs, Path) else inputs
    job = EncodeJob(MODELS / model, media_root, EncodeOptions(**options))
    return Written(encode(paths, job, Writing(output, **(writing or {}))), output)


def write_lines(path: Path, records: list[Any], end: bytes = b"\n") -> Path:
    """Write records, or bytes as they are, one a line."""
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + end for line in lines))
    return path


def chat(question: object = "Hi", answer: object = "Hello.", **more: Any) -> dict[str, Any]:
    """A record with one turn each."""
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": turns, **more}


def tree(folder: Path) -> dict[str, str]:
    """Hash of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files
    }
