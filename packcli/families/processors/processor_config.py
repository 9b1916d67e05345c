"""Rules of native-resolution families as their processor and model files write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts, Rope
from packcli.families.processors.model_files import (
    ModelFiles,
    Values,
    flag,
    linear_attention,
    number,
    section,
    whole,
)
from packcli.families.processors.native import (
    ImageLimits,
    NativeResolution,
    Patches,
    VideoLimits,
    VideoRule,
)

if TYPE_CHECKING:
    from packcli.families.family import VideoWrapper


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """Values of a model that leaves them out of config.json: its configuration class's defaults."""

    vocab_size: int
    image_token_id: int
    video_token_id: int
    rope: Rope
    tokens_per_second: float = 1.0


@dataclass(frozen=True, slots=True)
class VideoDefaults:
    """Values of a video processor that leaves them out: its class's defaults.

    Attributes:
        patch_size: pixels per side of a patch.
        shortest_edge: pixels, at least (the processors' name for it).
        longest_edge: pixels, at most (the processors' name for it).
        fps: frames to take per second.
        do_sample_frames: whether frames are sampled when nobody asks for it.
        max_video_tokens: budget of the per-frame cap, tokens.
        top_level_pixels: whether `min_pixels` / `max_pixels` beside `size` are obeyed.
    """

    patch_size: int
    shortest_edge: int
    longest_edge: int
    fps: float | None
    do_sample_frames: bool
    max_video_tokens: int
    top_level_pixels: bool


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of native-resolution models.

    Attributes:
        family: the family file's name.
        model: what config.json may leave out.
        video: what the video processor's file may leave out.
        rule: how videos are sampled, sized and written.
    """

    family: str
    model: ModelDefaults
    video: VideoDefaults
    rule: VideoRule


# The class defaults of Qwen2VLImageProcessor (models/qwen2_vl), which all four families use
_IMAGE_PATCH, _IMAGE_LOW, _IMAGE_HIGH = 14, 56 * 56, 28 * 28 * 1280


def open_native(
    files: ModelFiles, generation: Generation, video_wrapper: VideoWrapper
) -> NativeResolution:
    """Open a model directory of a generation.

    Raises:
        InputError: its files are missing, contradict each other or hold a wrong type.
    """
    facts = read_facts(files, generation.family, generation.model)
    return NativeResolution(
        facts=facts,
        patches=read_patches(files, facts, generation.video.patch_size),
        images=read_image_limits(files),
        videos=read_video_limits(files, generation.video),
        rule=generation.rule,
        video_wrapper=video_wrapper,
    )


def read_facts(files: ModelFiles, family: str, defaults: ModelDefaults) -> ModelFacts:
    """Return the model's facts.

    Raises:
        InputError: a value of config.json has the wrong type.
    """
    text, vision = section(files.config, "text_config"), section(files.config, "vision_config")
    vocab = whole(text, "vocab_size", whole(files.config, "vocab_size", defaults.vocab_size))
    return ModelFacts(
        family=family,
        vocab_size=vocab,
        rope=defaults.rope,
        image_token_id=whole(files.config, "image_token_id", defaults.image_token_id),
        video_token_id=whole(files.config, "video_token_id", defaults.video_token_id),
        merge_size=whole(vision, "spatial_merge_size", 2),
        tokens_per_second=number(vision, "tokens_per_second", defaults.tokens_per_second),
        linear_attention=linear_attention(files.config),
    )


def read_patches(files: ModelFiles, facts: ModelFacts, video_patch_size: int) -> Patches:
    """Return how pixels become slots; image, video and model must agree, they share one tower.

    Raises:
        InputError: they are missing or disagree, or resizing is switched off.
    """
    if not files.image:
        raise InputError(
            f"{files.directory}: expected preprocessor_config.json of a vision model, found none; "
            "copy the model's processor files beside config.json"
        )
    image = _patches(files.image, _IMAGE_PATCH)
    video = _patches(files.video, video_patch_size)
    if image != video or image.merge_size != facts.merge_size:
        raise InputError(
            f"{files.directory}: image and video processor and vision_config must agree, found "
            f"{image}, {video}, spatial_merge_size {facts.merge_size}; correct the files"
        )
    if not (
        flag(files.image, "do_resize", default=True)
        and flag(files.video, "do_resize", default=True)
    ):
        raise InputError(
            f"{files.directory}: do_resize false gives sizes packcli cannot tell; drop it"
        )
    return image


def read_image_limits(files: ModelFiles) -> ImageLimits:
    """Return the pixel limits of images.

    Raises:
        InputError: only one of the two limits stands in `size`.
    """
    low, high = _pixels(files.image, _IMAGE_LOW, _IMAGE_HIGH, top_level=True)
    return ImageLimits(min_pixels=low, max_pixels=high)


def read_video_limits(files: ModelFiles, defaults: VideoDefaults) -> VideoLimits:
    """Return the numbers of the video processor.

    Unset, the per-frame cap is off: what transformers 5.24 does, announcing that it will change.

    Raises:
        InputError: a value has the wrong type.
    """
    video = files.video
    low, high = _pixels(
        video, defaults.shortest_edge, defaults.longest_edge, top_level=defaults.top_level_pixels
    )
    fps = defaults.fps if video.get("fps") is None else number(video, "fps", 0)
    return VideoLimits(
        min_pixels=low,
        max_pixels=high,
        fps=fps,
        num_frames=None if video.get("num_frames") is None else whole(video, "num_frames", 1),
        min_frames=whole(video, "min_frames", 4),
        max_frames=whole(video, "max_frames", 768),
        do_sample_frames=flag(video, "do_sample_frames", default=defaults.do_sample_frames),
        cap_pixels_per_frame=flag(video, "cap_pixels_per_frame", default=False),
        max_video_tokens=whole(video, "max_video_tokens", defaults.max_video_tokens),
    )


def _patches(values: Values, patch_size: int) -> Patches:
    return Patches(
        patch_size=whole(values, "patch_size", patch_size),
        merge_size=whole(values, "merge_size", 2),
        temporal_patch_size=whole(values, "temporal_patch_size", 2),
    )


def _pixels(values: Values, low: int, high: int, *, top_level: bool) -> tuple[int, int]:
    return (
        _limit(values, ("min_pixels", "shortest_edge"), low, top_level=top_level),
        _limit(values, ("max_pixels", "longest_edge"), high, top_level=top_level),
    )


def _limit(values: Values, names: tuple[str, str], default: int, *, top_level: bool) -> int:
    pixels, edge = names
    if top_level and values.get(pixels) is not None:
        return whole(values, pixels, default)
    size = section(values, "size")
    # `size` replaces the class's pair as a whole, so half of it would be no limit at all upstream
    if size and size.get(edge) is None:
        raise InputError(f"model directory: size lacks {edge}, found {sorted(size)}; add it")
    return whole(size, edge, default)
