"""Numbers that transformers 5.24 and ms-swift gave for the real model directories."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache

import av
import numpy as np
import pytest
from PIL import Image

from packcli.families.family import VideoOptions
from tests.encode.running import run, write_lines

MODELS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
NEWER = ("qwen3_vl", "qwen3_5")
CLIP = "media/vid_320x240_24fps_4s.mp4"
SIZES = {
    "media/tiny20x30.jpg": (20, 30),
    "media/p640x480.jpg": (640, 480),
    "media/p1280x800.jpg": (1280, 800),
    "media/p1920x1080.jpg": (1920, 1080),
    "media/p3000x2000.jpg": (3000, 2000),
    "media/p4000x3000.jpg": (4000, 3000),
    "media/tall400x2400.jpg": (400, 2400),
    "media/rgba.png": (300, 200),
    "media-packages/skimage/data/astronaut.png": (512, 512),
}

TAG = "ms-swift adds a missing tag; we reject the record"
OBJECTS = "ms-swift writes `objects` into the text; we leave them as metadata"
SMALL = "ms-swift resizes with the limits of qwen_vl_utils, which has no such lower bound"
CLIPS = "ms-swift gives every frame of a clip at least 128 slots, as qwen_vl_utils does"
THINK = "ms-swift puts an empty thought into every turn, the template into the last one only"
SYSTEM = "ms-swift writes two more newlines before the tools where there is no system turn"
TOOLS = "ms-swift has a template of its own for tools, the published one shows no calls"
EMPTY = "ms-swift puts an empty user turn before an answer without a question"
REFUSED = "ms-swift does so here too, and the template refuses a chat without a question"

DIFFERENT: dict[tuple[str, str], str] = {
    **{("image_no_tag", model): TAG for model in MODELS},
    **{("bbox", model): OBJECTS for model in MODELS},
    **{(case, model): SMALL for model in NEWER for case in ("image_tiny", "image_rgba")},
    **{(c, m): CLIPS for m in MODELS for c in ("video_mp4", "video_frames4", "image_video")},
    **{(case, "qwen3_5"): THINK for case in ("text_system_multiturn", "text_loss_false")},
    ("tools", "qwen3_vl"): SYSTEM,
    **{("tools", model): TOOLS for model in MODELS[:2]},
    **{("pretrain_text", model): EMPTY for model in MODELS[:3]},
    ("pretrain_text", "qwen3_5"): REFUSED,
}
CODES = {TAG: "tag_count_mismatch", TOOLS: "template_error", REFUSED: "template_error"}
"""What differs because we refuse it."""


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Pictures and a clip of the sizes that the references name; what they show is no matter."""
    root = tmp_path_factory.mktemp("reference")
    for name, size in SIZES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", size).save(path, "PNG", compress_level=1)
    with av.open(str(root / CLIP), "w") as container:
        stream = container.add_stream("mpeg4", rate=Fraction(24))
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for _ in range(96):
            container.mux(stream.encode(av.VideoFrame(320, 240, "yuv420p")))
        container.mux(stream.encode())
    return root


@pytest.fixture(scope="module")
def directory_of(shared, tmp_path_factory):
    """Directories of the families; Qwen2-VL's is Qwen2.5-VL's under another name."""
    copy = tmp_path_factory.mktemp("models") / "qwen2_vl"
    copy.mkdir()
    for path in (shared / "models/qwen2_5_vl").iterdir():
        (copy / path.name).symlink_to(path)
    config = json.loads((copy / "config.json").read_text()) | {"model_type": "qwen2_vl"}
    (copy / "config.json").unlink()
    (copy / "config.json").write_text(json.dumps(config))
    return lambda model: copy if model == "qwen2_vl" else shared / "models" / model


@pytest.fixture(scope="module")
def swift_of(shared, media, directory_of, tmp_path_factory):
    """The dump of a model, and our samples and rejections of the same records by name."""

    @cache
    def both(model):
        dump = json.loads((shared / f"models/reference/{model}.json").read_text())
        del dump["_meta"]
        records = [case["input"] | {"id": name} for name, case in dump.items()]
        path = write_lines(tmp_path_factory.mktemp("swift") / "in.jsonl", records)
        written = run(path, path.parent / "out", model=directory_of(model), media_root=media)
        samples = {row["sample_ids"][0]: row for row in written.rows}
        return dump, samples, {line["id"]: line["code"] for line in written.rejected}

    return both


def unrolled(pairs):
    return [value for value, times in pairs for _ in range(times)]


def without_newlines(labels, newline):
    """ms-swift learns the newline behind each end of turn, we do not."""
    labels = np.array(labels)
    ends = np.flatnonzero((labels[1:] == newline) & (labels[:-1] != -100)) + 1
    last = np.append(labels[1:], -100) == -100
    labels[ends[last[ends]]] = -100
    return labels.tolist()


@pytest.mark.parametrize("model", MODELS)
def test_equal_to_ms_swift_where_policies_are_equal(model, swift_of):
    dump, samples, _ = swift_of(model)
    names = [name for name in dump if (name, model) not in DIFFERENT]
    assert len(names) >= 12
    for name in names:
        case, row = dump[name], samples[name]
        assert row["input_ids"] == unrolled(case["input_ids_rle"]), name
        assert row["length"] == case["length"]
        assert row["image_grid_thw"] == case.get("image_grid_thw", [])
        kinds = case.get("mm_token_type_ids_rle", [[0, case["length"]]])
        assert row["mm_token_type_ids"] == unrolled(kinds)
        newline = row["input_ids"][-1]
        assert row["labels"] == without_newlines(unrolled(case["labels_rle"]), newline), name
        check_positions(row, case["position_ids_4planes"])


def check_positions(row, planes):
    ours = np.array([row["position_ids"], *row["mrope_position_ids"]])
    if isinstance(planes, list):
        assert ours.tolist() == planes
    else:
        assert ours.max(axis=1).tolist() == planes["max"]
        assert ours.sum(axis=1).tolist() == planes["sum"]
        head, tail = np.array(planes["head"]), np.array(planes["tail"])
        assert (ours[:, : head.shape[1]] == head).all()
        assert (ours[:, -tail.shape[1] :] == tail).all()


@pytest.mark.parametrize("model", MODELS)
def test_different_from_ms_swift_for_the_reason_named(model, swift_of):
    dump, samples, codes = swift_of(model)
    for (name, which), reason in DIFFERENT.items():
        if which != model:
            continue
        if reason in CODES:
            assert codes[name] == CODES[reason]
        else:
            assert samples[name]["input_ids"] != unrolled(dump[name]["input_ids_rle"]), name
    assert codes.keys() == {n for (n, m), why in DIFFERENT.items() if m == model and why in CODES}


@pytest.mark.parametrize("model", MODELS)
def test_grids_equal_transformers(model, shared, swift_of):
    """By name of the picture: every one stands alone in some record of the dump."""
    figures = json.loads((shared / "models/reference/reference_hf_5_24.json").read_text())[model]
    _, samples, _ = swift_of(model)
    cases = {
        "tiny20x30": "image_tiny",
        "p640x480": "image1",
        "p1920x1080": "image_1080p",
        "p3000x2000": "image_6mp",
        "p4000x3000": "image_12mp",
        "tall400x2400": "image_tall",
        "rgba": "image_rgba",
    }
    for picture, name in cases.items():
        assert samples[name]["image_grid_thw"] == [figures[picture]["grid"]], picture
        assert samples[name]["media"][0]["token_count"] == figures[picture]["tokens"]
    two = samples["image2"]["image_grid_thw"]
    assert two == [figures["p640x480"]["grid"], figures["p1280x800"]["grid"]]


ASKED = {"default": {}, "sample_fps2": {"fps": 2}, "sample_n8": {"num_frames": 8}}
TURNS = [
    {"role": "user", "content": "<video>What happens?"},
    {"role": "assistant", "content": "The camera pans."},
]


@pytest.mark.parametrize("model", MODELS[1:])
def test_clips_equal_transformers(model, shared, media, directory_of, tmp_path):
    path = shared / "models/reference/reference_hf_video_5.24.0.json"
    figures = json.loads(path.read_text())[model]
    records = [
        {"id": name, "messages": TURNS, "videos": [CLIP], **asked} for name, asked in ASKED.items()
    ]
    lines = write_lines(tmp_path / "in.jsonl", records)
    options = {"model": directory_of(model), "video_wrapper": "hf5", "media_root": media}
    rows = run(lines, tmp_path / "out", **options).rows
    samples = {row["sample_ids"][0]: row for row in rows}
    if model == "qwen2_5_vl":  # the option is of the run, and this tokenizer loads fastest
        lines = write_lines(tmp_path / "cap.jsonl", records[1:2])
        options["video"] = VideoOptions(cap_pixels_per_frame=True)
        (samples["cap"],) = run(lines, tmp_path / "cap", **options).rows
    start = json.loads((directory_of(model) / "config.json").read_text())["vision_start_token_id"]
    # Qwen3's processor has a rate of its own, and refuses a number of frames beside it: we take it
    checked = [name for name in samples if "error" not in figures[name]]
    assert len(checked) == (4 if model == "qwen2_5_vl" else 2)
    for name in checked:
        row, figure = samples[name], figures[name]
        assert row["video_grid_thw"] == figure["grid"], name
        assert row["length"] == figure["len"]
        assert row["mm_token_type_ids"].count(2) == figure["slots"]
        assert row["input_ids"].count(start) == figure["vision_start"]
        seconds = row.get("second_per_grid_ts", [])
        assert np.allclose(seconds, figure["second_per_grid_ts"], rtol=1e-6)
