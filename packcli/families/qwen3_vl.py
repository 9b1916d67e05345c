"""Qwen3-VL: 16-pixel patches, two frames a second, a time before every frame pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import Rope
from packcli.families.processors.frames import spread_frames
from packcli.families.processors.native import VideoRule
from packcli.families.processors.processor_config import (
    Generation,
    ModelDefaults,
    VideoDefaults,
    open_native,
)
from packcli.families.processors.resize import fit_volume

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("qwen3_vl", "qwen3_vl_moe")

_GENERATION = Generation(
    family="qwen3_vl",
    model=ModelDefaults(
        vocab_size=151936,
        image_token_id=151655,
        video_token_id=151656,
        rope=Rope.FRAMES,
    ),
    video=VideoDefaults(
        patch_size=16,
        shortest_edge=128 * 32 * 32,
        longest_edge=32 * 32 * 768,
        fps=2,
        do_sample_frames=True,
        max_video_tokens=768,
        top_level_pixels=False,
    ),
    rule=VideoRule(sample=spread_frames, fit=fit_volume, stamped=True),
)


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Qwen3-VL directory.

    Raises:
        InputError: its files are missing, contradict each other or hold a wrong type.
    """
    return open_native(files, _GENERATION, choices.video_wrapper)
