"""Qwen2.5-VL: 14-pixel patches, every video frame unless asked, one run of slots per medium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.model import Rope
from packcli.families.processors.frames import stepped_frames
from packcli.families.processors.native import VideoRule
from packcli.families.processors.processor_config import (
    Generation,
    ModelDefaults,
    VideoDefaults,
    open_native,
)
from packcli.families.processors.resize import fit_each_frame

if TYPE_CHECKING:
    from packcli.families.family import Choices, Family
    from packcli.families.processors.model_files import ModelFiles

MODEL_TYPES = ("qwen2_5_vl",)

_GENERATION = Generation(
    family="qwen2_5_vl",
    model=ModelDefaults(
        vocab_size=152064,
        image_token_id=151655,
        video_token_id=151656,
        rope=Rope.TIMED,
        tokens_per_second=4,
    ),
    video=VideoDefaults(
        patch_size=14,
        shortest_edge=128 * 28 * 28,
        longest_edge=28 * 28 * 768,
        fps=None,
        do_sample_frames=False,
        max_video_tokens=128_000,
        top_level_pixels=True,
    ),
    rule=VideoRule(sample=stepped_frames, fit=fit_each_frame, timed=True),
)


def open_model(files: ModelFiles, choices: Choices) -> Family:
    """Open a Qwen2.5-VL directory.

    Raises:
        InputError: its files are missing, contradict each other or hold a wrong type.
    """
    return open_native(files, _GENERATION, choices.video_wrapper)
