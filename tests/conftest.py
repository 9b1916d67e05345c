"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.pack import run as pack_run
from packcli.pack.options import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sample_data(root: Path) -> Path:
    """The bundled data."""
    return root / "sample_data"


@pytest.fixture(scope="session")
def shared(root: Path) -> Path:
    """Real model directories and cases that lie beside a checkout; tests skip without them."""
    path = root.parent / "shared"
    if not path.is_dir():
        pytest.skip("needs ../shared (real processor directories and cases), which is absent")
    return path


@pytest.fixture(scope="session")
def encoded(sample_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Give the bundled chats, encoded for one of the bundled models; made once, only to read.

    Small parts and row groups, so that a few samples make several of both.
    """

    @cache
    def encode_for(family: str = "qwen3_vl") -> Path:
        output = tmp_path_factory.mktemp("encoded") / family
        job = EncodeJob(sample_data / "models" / family, None, EncodeOptions())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("packcli.encode.run.PART_BYTES", 12_000)
            patch.setattr("packcli.shards.writer.GROUP_TOKENS", 1000)
            encode([sample_data / "chats.jsonl"], job, Writing(output))
        return output

    return encode_for


@pytest.fixture(scope="session")
def packed(encoded: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled chats in packs of 2048 tokens for qwen3_vl, in three shards; only to read."""
    output = tmp_path_factory.mktemp("packed") / "packed"
    writing = pack_run.Writing(output, shard_bytes=3 * 5000, window_tokens=5000)
    return Path(pack_run.pack([encoded()], PlanOptions(capacity=2048), writing).output)


@pytest.fixture(scope="session")
def canvas_models(
    sample_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Path]:
    """Give a model directory of LLaVA-OneVision-2 by its merge size: qwen2_vl under its name."""

    @cache
    def make(merge: int) -> Path:
        folder = tmp_path_factory.mktemp("canvas_model") / "model"
        model = Path(shutil.copytree(sample_data / "models" / "qwen2_vl", folder))
        changed: dict[str, dict[str, object]] = {
            "config.json": {
                "model_type": "llava_onevision2",
                "vision_config": {"spatial_merge_size": merge},
            },
            "preprocessor_config.json": {
                "temporal_patch_size": 1,
                "merge_size": merge,
                "size": {"shortest_edge": 56 * 56, "longest_edge": 1_003_520},
            },
        }
        for name, settings in changed.items():
            told = json.loads((model / name).read_text()) | settings
            (model / name).write_text(json.dumps(told))
        return model

    return make


@pytest.fixture(scope="session")
def canvas_model(canvas_models: Callable[[int], Path]) -> Path:
    """Give the same with merge size 2."""
    return canvas_models(2)
