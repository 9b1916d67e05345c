"""The bundled broken records: each is broken in the one way that its folder's name says."""

from __future__ import annotations

import json
from pathlib import Path

import av
import pytest
from PIL import Image

DATA = Path(__file__).resolve().parents[2] / "sample_data"
MODELS = ["qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_vl", "text"]
CODES = {
    "bad_json",
    "bad_utf8",
    "bad_unicode",
    "bad_record",
    "bad_role",
    "empty_conversation",
    "empty_target",
    "no_supervised_tokens",
    "template_error",
    "tag_count_mismatch",
    "media_missing",
    "media_empty",
    "media_undecodable",
    "media_too_large",
    "media_outside_root",
    "media_remote_disabled",
    "bad_media_ref",
    "bad_data_uri",
    "aspect_ratio",
    "video_too_short",
    "video_no_stream",
    "over_length",
}
OWN_LINE = {"bad_json", "bad_utf8", "bad_unicode"}  # no JSON, or JSON that Python alone accepts


def frames(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def test_one_folder_for_each_code():
    assert {path.name for path in (DATA / "bad_records").iterdir()} == CODES


@pytest.mark.parametrize("code", sorted(CODES))
def test_bad_records_tree_is_one_good_line_and_one_bad(code):
    folder = DATA / "bad_records" / code
    lines = (folder / "input.jsonl").read_bytes().splitlines()
    assert len(lines) == 2
    good = json.loads(lines[0])
    assert good["id"] == "good"
    assert all(
        (folder / path).stat().st_size > 0
        for path in good.get("images", []) + good.get("videos", [])
        if path.startswith("media/")
    )
    if code not in OWN_LINE:
        assert json.loads(lines[1])["id"] == "bad"


def test_bad_records_break_what_they_say():
    bad = DATA / "bad_records"
    with pytest.raises(json.JSONDecodeError):
        json.loads((bad / "bad_json" / "input.jsonl").read_bytes().splitlines()[1])
    with pytest.raises(UnicodeDecodeError):
        (bad / "bad_utf8" / "input.jsonl").read_bytes().decode("utf-8")
    second = json.loads((bad / "bad_unicode" / "input.jsonl").read_bytes().splitlines()[1])
    with pytest.raises(UnicodeEncodeError):
        second["messages"][1]["content"].encode("utf-8")
    assert (bad / "media_empty/media/empty.jpg").stat().st_size == 0
    assert not (bad / "media_missing/media/nowhere.png").exists()
    assert (bad / "media_outside_root/../media_missing/media/good.png").is_file()
    with Image.open(bad / "media_undecodable/media/cut.jpg") as cut, pytest.raises(OSError):
        cut.load()
    with Image.open(bad / "aspect_ratio/media/strip.png") as strip:
        assert strip.width / strip.height > 200
    assert len(frames(bad / "video_too_short/media/one_frame.mp4")) == 1
    with av.open(str(bad / "video_no_stream/media/sound.wav")) as sound:
        assert not sound.streams.video


def test_huge_picture_is_above_pillows_limit_and_small_on_disk():
    path = DATA / "bad_records/media_too_large/media/huge.png"
    assert path.stat().st_size < 50_000
    with pytest.raises(Image.DecompressionBombError):
        Image.open(path)


@pytest.mark.parametrize("name", MODELS)
def test_over_length_good_fits_and_bad_does_not(name):
    transformers = pytest.importorskip("transformers")
    folder = DATA / "bad_records" / "over_length"
    limit = json.loads((folder / "args.json").read_bytes())["max_length"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    lengths = []
    for line in (folder / "input.jsonl").read_bytes().splitlines():
        text = tokenizer.apply_chat_template(json.loads(line)["messages"], tokenize=False)
        lengths.append(len(tokenizer(text)["input_ids"]))
    assert lengths[0] <= limit < lengths[1]


@pytest.mark.parametrize("name", MODELS)
def test_template_error_is_raised_by_every_template(name):
    transformers = pytest.importorskip("transformers")
    jinja2 = pytest.importorskip("jinja2")
    lines = (DATA / "bad_records/template_error/input.jsonl").read_bytes().splitlines()
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    good, bad = (json.loads(line)["messages"] for line in lines)
    assert tokenizer.apply_chat_template(good, tokenize=False).endswith("Blue.<|im_end|>\n")
    with pytest.raises(jinja2.TemplateError, match="only be the first turn"):
        tokenizer.apply_chat_template(bad, tokenize=False)
