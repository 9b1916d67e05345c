"""Options of a run: which contradict each other, and which a family refuses."""

from __future__ import annotations

import json
import shutil

import pytest

from packcli.contract.errors import InputError, UsageError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.encode.survey import survey
from packcli.families.family import PixelLimits, VideoOptions
from tests.encode.running import MODELS, chat, run, write_lines


@pytest.fixture
def onevision(tmp_path):
    """The bundled tokenizer and template under LLaVA-OneVision-2's name."""
    folder = shutil.copytree(MODELS / "qwen2_vl", tmp_path / "onevision")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "llava_onevision2"}
    (folder / "config.json").write_text(json.dumps(config))
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    processor |= {"temporal_patch_size": 1}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"pixels": PixelLimits(10, 9)},
            "min_pixels 10 is above max_pixels 9; lower the one or raise the other",
        ),
        (
            {"video": VideoOptions(min_frames=100, max_frames=2)},
            "min_frames 100 is above max_frames 2; lower the one or raise the other",
        ),
        (
            {"video": VideoOptions(min_pixels=3, max_pixels=2)},
            "min_pixels 3 is above max_pixels 2; lower the one or raise the other",
        ),
        (
            {"video": VideoOptions(fps=1, num_frames=2)},
            "fps and num_frames exclude each other; give one",
        ),
    ],
)
def test_options_that_contradict_each_other(options, told):
    with pytest.raises(UsageError) as caught:
        EncodeOptions(**options)
    assert str(caught.value) == told


def test_a_least_may_equal_its_most():
    EncodeOptions(pixels=PixelLimits(9, 9), video=VideoOptions(min_frames=2, max_frames=2))


def test_windows_are_written_as_asked(tmp_path, onevision):
    lines = write_lines(tmp_path / "a.jsonl", [chat()])
    read = {
        asked: run(lines, tmp_path / f"{asked}", model=onevision, vit_windows=asked).manifest
        for asked in (None, "frames", "temporal")
    }
    assert {asked: m["options"]["vit_windows"] for asked, m in read.items()} == {
        None: None, "frames": "frames", "temporal": "temporal",
    }  # fmt: skip
    assert {asked: m["model"]["vit_windows"] for asked, m in read.items()} == {
        None: "frames", "frames": "frames", "temporal": "temporal",
    }  # fmt: skip


def test_windows_are_refused_where_there_are_none(tmp_path):
    lines = write_lines(tmp_path / "a.jsonl", [chat()])
    job = EncodeJob(MODELS / "qwen3_vl", None, EncodeOptions(vit_windows="frames"))
    told = "--vit-windows frames: qwen3_vl has no windows in its vision tower; leave the flag out"
    for work in (
        lambda: encode([lines], job, Writing(tmp_path / "out")),
        lambda: survey([lines], job),
    ):
        with pytest.raises(UsageError) as caught:
            work()
        assert str(caught.value) == told
    assert not (tmp_path / "out").exists()


def test_the_tokenizer_asked_for_is_used(tmp_path, monkeypatch):
    lines = write_lines(tmp_path / "a.jsonl", [chat()])

    def broken(_self, _definition):
        raise ImportError("not here")

    monkeypatch.setattr("packcli.encode.text.backends.FastBackend.__init__", broken)
    for tokenizer in ("auto", "hf"):
        job = EncodeJob(MODELS / "text", tmp_path, EncodeOptions(), tokenizer)
        assert survey([lines], job).summary.kept == 1
    job = EncodeJob(MODELS / "text", tmp_path, EncodeOptions(), "fast")
    with pytest.raises(InputError, match="fastokens cannot be used here: not here"):
        survey([lines], job)
