"""LLaVA-OneVision-2, which transformers lacks: numbers of its own repository."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from packcli.contract.columns import columns_for
from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import ModelFacts, Rope, VitWindows
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs
from packcli.contract.rules import check
from packcli.encode.placeholders import Placeholders
from packcli.encode.records.reading import read_record
from packcli.encode.sample import Medium, Sample, packs_of_one
from packcli.encode.text.text_encoder import TextEncoder
from packcli.families import open_family
from packcli.families.family import PixelLimits, VideoMetadata, VideoOptions
from packcli.families.llava_onevision2 import behind_times, canvas_frames
from packcli.shards.arrow import to_batch, to_rows


def opened(path, patch=14, merge=2, **choices):
    path.mkdir(exist_ok=True)
    config = {"model_type": "llava_onevision2", "vision_config": {"spatial_merge_size": merge}}
    image = {
        "patch_size": patch,
        "merge_size": merge,
        "temporal_patch_size": 1,
        "size": {"shortest_edge": 3136, "longest_edge": 1_003_520},
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "preprocessor_config.json").write_text(json.dumps(image))
    return open_family(path, **choices)


def test_facts(tmp_path):
    facts = opened(tmp_path, merge=3).facts
    assert (facts.rope, facts.merge_size, facts.image_token_id) == (Rope.TEXT, 3, 151655)
    assert facts.vit_windows is VitWindows.FRAMES
    names = {column.name for column in columns_for(facts)}
    assert "vit_cu_seqlens" in names
    assert "mrope_position_ids" not in names
    assert ModelFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


@pytest.mark.parametrize(
    ("patch", "merge", "size", "grid"),
    [
        (14, 2, (480, 640), (1, 34, 46)),
        (16, 3, (480, 640), (1, 30, 39)),
        (14, 3, (480, 640), (1, 33, 45)),
        # 28 x 30 first, then grown 1.93 times to reach 3136 pixels, and filled up
        (14, 2, (20, 30), (1, 4, 6)),
    ],
)
def test_grid_of_an_image(patch, merge, size, grid, tmp_path):
    family = opened(tmp_path, patch, merge)
    plan = family.image_plan(*size)
    assert plan.grid == grid
    expansion = family.expand_image(plan)
    assert (expansion.text, sum(expansion.slots)) == (
        "<|image_pad|>",
        grid[1] * grid[2] // merge**2,
    )


@pytest.mark.parametrize(("patch", "merge"), [(14, 2), (16, 3), (14, 3)])
def test_grids_equal_the_image_processor_of_one_frame(patch, merge, tmp_path):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    family = opened(tmp_path, patch, merge)
    real = Qwen2VLImageProcessorPil(
        patch_size=patch,
        merge_size=merge,
        temporal_patch_size=1,
        size={"shortest_edge": 3136, "longest_edge": 1_003_520},
    )
    rng = np.random.default_rng(merge)
    for height, width in rng.integers(28, 3000, (100, 2)).tolist():
        patches = real.get_number_of_image_patches(height, width, {})
        assert np.prod(family.image_plan(height, width).grid) == patches
    image = np.zeros((90, 150, 3), np.uint8)
    done = real(image, input_data_format="channels_last")["image_grid_thw"][0]
    assert family.image_plan(90, 150).grid == tuple(done)


def test_short_side_is_brought_to_28_pixels_first(tmp_path):
    family = opened(tmp_path)
    assert family.image_plan(10, 3000).grid == family.image_plan(28, 3000).grid
    with pytest.raises(Rejection) as caught:
        family.image_plan(10, 6000)
    assert caught.value.code == "aspect_ratio"
    with pytest.raises(Rejection, match="knows no min_pixels"):
        family.image_plan(100, 100, PixelLimits(max_pixels=9))


def test_frames_stand_behind_their_times(tmp_path):
    family = opened(tmp_path)
    video = VideoMetadata(frames=3, fps=2.0, height=56, width=84, listed=True)
    plan = family.video_plan(video)
    assert plan.grid == (3, 4, 6)
    expansion = family.expand_video(plan)
    assert expansion.slots == (6, 6, 6)
    assert expansion.text == (
        "<0.0 seconds><|vision_start|><|image_pad|><|vision_end|>\n"
        "<0.5 seconds><|vision_start|><|image_pad|><|vision_end|>\n"
        "<1.0 seconds><|vision_start|><|image_pad|><|vision_end|>\n"
    )
    two = family.expand_video(family.video_plan(video, VideoOptions(timestamp_decimals=2)))
    assert two.text.startswith("<0.00 seconds>")
    with pytest.raises(Rejection, match="give 1 or 2"):
        family.video_plan(video, VideoOptions(timestamp_decimals=3))
    assert family.video_placeholder == "<|vision_start|><|video_pad|><|vision_end|>"
    assert family.facts.video_token_id is None


def test_frames_of_a_file_are_taken_when_asked_for(tmp_path):
    family = opened(tmp_path)
    video = VideoMetadata(frames=40, fps=10.0, height=56, width=56)
    assert family.video_plan(video).grid[0] == 40
    plan = family.video_plan(video, VideoOptions(fps=2))
    assert plan.frame_indices.tolist() == [0, 5, 10, 15, 20, 25, 30, 35]
    assert plan.timestamps[:3] == (0.0, 0.5, 1.0)
    assert family.video_plan(video, VideoOptions(num_frames=3)).timestamps == (0.0, 1.3, 2.6)
    with pytest.raises(Rejection, match="41 asked for") as caught:
        family.video_plan(video, VideoOptions(num_frames=41))
    assert caught.value.code == "video_too_short"
    with pytest.raises(Rejection, match="knows no max_frames"):
        family.video_plan(video, VideoOptions(max_frames=4))


def test_canvases_may_hold_patches_of_several_frames():
    # two canvases of 4 x 4 patches, in blocks of 2 x 2: frames 0, 0, 3 | 3, 3, 7, 7, 9
    of_slots = [0, 0, 3, 3, 3, 7, 7, 9]
    positions = np.zeros((32, 3), np.int64)
    positions[:, 0] = np.repeat(of_slots, 4)
    frames, slots = canvas_frames(positions, 2)
    assert (frames.tolist(), slots.tolist()) == ([0, 3, 7, 9], [2, 3, 2, 1])
    expansion = behind_times([frame / 30 for frame in frames.tolist()], slots.tolist(), 2)
    assert expansion.slots == (2, 3, 2, 1)
    assert expansion.text.split("<|vision_start|>")[0] == "<0.00 seconds>"
    assert "<0.23 seconds>" in expansion.text


@pytest.mark.parametrize(
    ("image", "message"), [({"temporal_patch_size": 2}, "must be"), ({"merge_size": 3}, "must be")]
)
def test_files_that_contradict_are_refused(image, message, tmp_path):
    config = {"model_type": "llava_onevision2", "vision_config": {"spatial_merge_size": 2}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(image))
    with pytest.raises(InputError, match=message):
        open_family(tmp_path)


def sample(facts, grids):
    """One record: every medium's frames, with text between."""
    ids = [1]
    for frames, rows, columns in grids:
        frame = [facts.image_token_id] * (rows * columns // facts.merge_size**2)
        ids += [2, *frame] * frames
    ids = np.array([*ids, 3], np.int32)
    labels = np.full(ids.size, -100, np.int32)
    labels[-1] = 3
    media = tuple(Medium("image", f"{n}.jpg", 9, 9, grid) for n, grid in enumerate(grids))
    return Sample("a", "f:1", ids, labels, media)


@pytest.mark.parametrize(
    ("reading", "first", "packed"),
    [
        (VitWindows.FRAMES, [0, 32, 48], [0, 32, 48, 64, 72]),
        (VitWindows.TEMPORAL, [0, 8, 16, 24, 32, 40, 48], [0, 8, 16, 24, 32, 40, 48, 64, 72]),
    ],
)
def test_windows_of_rows_and_packs(reading, first, packed, tmp_path):
    facts = opened(tmp_path, vit_windows=reading).facts
    samples = [sample(facts, [(6, 2, 4)]), sample(facts, []), sample(facts, [(1, 4, 4), (1, 2, 4)])]
    packs = packs_of_one(samples, facts)
    assert to_batch(packs).column("vit_cu_seqlens").to_pylist() == [first, [0], [0, 16, 24]]
    together = packs.joined()
    assert to_batch(together).column("vit_cu_seqlens").to_pylist() == [packed]
    pairs = packs.grouped(Offsets.from_lengths([1, 2]))
    assert to_batch(pairs).column("vit_cu_seqlens").to_pylist() == [first, [0, 16, 24]]
    none = Packs.concatenated([packs]).take(np.zeros(0, np.int64))
    assert to_batch(none).column("vit_cu_seqlens").to_pylist() == []
    for rows in (packs, together):
        assert not check(to_rows(to_batch(rows), facts)).hits


def test_windows_that_are_not_the_grids_are_seen(tmp_path):
    facts = opened(tmp_path).facts
    rows = to_rows(to_batch(packs_of_one([sample(facts, [(6, 2, 4)])], facts)), facts)
    cells = dict(rows.cells)
    values = np.array([0, 40, 48], np.int32)
    cells["vit_cu_seqlens"] = replace(cells["vit_cu_seqlens"], values=values)
    ((rule, hit),) = check(replace(rows, cells=cells)).hits
    assert rule.code == "vit.windows"
    assert hit.message == (
        "vit_cu_seqlens of 3 boundaries goes on with [40, 48] at index 1; the windows of the "
        "grids, by frames, are 3 boundaries and go on with [32, 48]"
    )


def test_one_plane_of_positions_and_no_other(tmp_path):
    facts = opened(tmp_path).facts
    batch = to_batch(packs_of_one([sample(facts, [(2, 2, 2)])], facts))
    assert "mrope_position_ids" not in batch.schema.names
    assert batch.column("position_ids").to_pylist() == [list(range(6))]


@pytest.fixture
def with_text(shared, tmp_path):
    """A directory with the tokenizer and chat template that the model took over."""
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        source = shared / "models" / "qwen2_5_vl" / file
        if source.is_file():
            (tmp_path / file).write_bytes(source.read_bytes())
    opened(tmp_path)
    return tmp_path


def test_no_newline_behind_the_last_turn(with_text):
    family = open_family(with_text)
    record = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "A"}]
    }
    exact = TextEncoder.open(with_text, Placeholders.of(family)).encode(read_record(record))
    template = TextEncoder.open(with_text).encode(read_record(record))
    assert exact.input_ids.tolist() == template.input_ids.tolist()[:-1]
    assert exact.input_ids[-1] == exact.labels[-1] == 151645
    assert exact.labels[0] == -100


def test_length_of_a_video_is_slots_and_times(with_text):
    family = open_family(with_text)
    encoder = TextEncoder.open(with_text, Placeholders.of(family))
    parts = [{"type": "video", "video": ["a", "b"]}, {"type": "text", "text": "What?"}]
    record = {
        "messages": [
            {"role": "user", "content": parts},
            {"role": "assistant", "content": "A"},
        ]
    }
    plan = family.video_plan(VideoMetadata(2, 1.0, 56, 84, listed=True))
    text = encoder.encode(read_record(record), [], [family.expand_video(plan)])
    ids = text.input_ids.tolist()
    assert ids.count(151655) == 12
    assert ids.count(151656) == 0
    # "<0.0 seconds>" is 6 tokens, and each frame ends with a newline of its own
    blank = dict(record, messages=[{"role": "user", "content": "What?"}, record["messages"][1]])
    without = encoder.encode(read_record(blank)).input_ids.size
    assert len(ids) - without == 12 + 2 * (6 + 2 + 1)
