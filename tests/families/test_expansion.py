from __future__ import annotations

import json
import re

import numpy as np
import pytest

from packcli.families import installed_wrapper, open_family
from packcli.families.family import VideoMetadata, VideoOptions

NAMES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
PADS = r"<\|(?:image|video)_pad\|>"


def replaced(text, placeholder, expansion):
    """Text with the first placeholder replaced and every pad repeated."""
    slots = iter(expansion.slots)
    full = re.sub(PADS, lambda pad: pad.group() * next(slots), expansion.text)
    assert next(slots, None) is None
    return text.replace(placeholder, full, 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("frames", "fps"), [(4, 1.0), (13, 7.5), (61, 29.97)])
def test_ids_of_a_video_equal_the_processors(name, frames, fps, family_of, processor_of):
    from transformers.video_utils import VideoMetadata as Upstream

    family, processor = family_of(name), processor_of(name)
    text = "Look: <|vision_start|><|video_pad|><|vision_end|>What happens?"
    expected = processor(
        text=[text],
        videos=[np.zeros((frames, 3, 20, 30), dtype=np.uint8)],
        video_metadata=[Upstream(total_num_frames=frames, fps=fps)],
        do_sample_frames=True,
        fps=2,
    )["input_ids"][0]
    plan = family.video_plan(VideoMetadata(frames, fps, 20, 30), VideoOptions(fps=2))
    ours = replaced(text, family.video_placeholder, family.expand_video(plan))
    assert processor.tokenizer(ours)["input_ids"] == list(expected)


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_images_equal_the_processors(name, family_of, processor_of):
    family, processor = family_of(name), processor_of(name)
    text = "<|vision_start|><|image_pad|><|vision_end|>" * 2 + "Compare."
    images = [np.zeros((3, 40, 90), dtype=np.uint8), np.zeros((3, 100, 57), dtype=np.uint8)]
    expected = processor(text=[text], images=images)["input_ids"][0]
    ours = text.replace("<|image_pad|>", "\0")
    for image in images:
        plan = family.image_plan(*image.shape[1:])
        ours = replaced(ours, "\0", family.expand_image(plan))
    assert processor.tokenizer(ours)["input_ids"] == list(expected)


@pytest.mark.parametrize(
    ("wrapper", "version", "name"),
    [
        ("legacy", "4.57.6", "qwen2_5_vl"),
        ("legacy", "4.57.6", "qwen3_vl"),
        ("hf5", "5.24.0", "qwen2_5_vl"),
        ("hf5", "5.24.0", "qwen3_vl"),
        ("hf5", "5.24.0", "qwen3_5"),
    ],
)
def test_recorded_texts_of_both_wrappers(wrapper, version, name, shared, directory_of):
    recorded = json.loads(
        (shared / "models" / "reference" / f"reference_hf_video_{version}.json").read_text()
    )[name]["default"]
    family = open_family(directory_of(name), video_wrapper=wrapper)
    plan = family.video_plan(VideoMetadata(96, 24.0, 240, 320))
    assert [list(plan.grid)] == recorded["grid"]
    expansion = family.expand_video(plan)
    assert sum(expansion.slots) == recorded["slots"]
    text = "<|vision_start|><|video_pad|><|vision_end|>"
    ours = text.replace(family.video_placeholder, expansion.text)
    slots = iter(expansion.slots)
    collapsed = re.sub(PADS, lambda _: f"[{next(slots)}]", ours)
    assert f"user\n{collapsed}What happens?" in recorded["collapsed"]


@pytest.mark.parametrize(
    ("name", "wrapper", "placeholder"),
    [
        ("qwen2_5_vl", "legacy", "<|video_pad|>"),
        ("qwen3_vl", "legacy", "<|vision_start|><|video_pad|><|vision_end|>"),
        ("qwen3_5", "hf5", "<|video_pad|>"),
    ],
)
def test_wrapper_mode_decides_what_is_replaced(name, wrapper, placeholder, directory_of):
    family = open_family(directory_of(name), video_wrapper=wrapper)
    assert family.video_placeholder == placeholder


@pytest.mark.parametrize(("version", "wrapper"), [("4.57.6", "legacy"), ("5.24.0", "hf5")])
def test_auto_follows_the_installed_transformers(version, wrapper, monkeypatch):
    monkeypatch.setattr("packcli.families.metadata.version", lambda _: version)
    installed_wrapper.cache_clear()
    assert installed_wrapper() == wrapper
    installed_wrapper.cache_clear()
