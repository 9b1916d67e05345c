"""Tiny directories of every family that transformers has a model for: to encode, and to train."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.families import upstream

_SIDE, _PATCH = 56, 14
_ENDS = ("<|turn|>", "<|end|>")

_TEMPLATE = """\
{%- for message in messages -%}
<|turn|>{{ message.role }}: {% if message.role == 'assistant' -%}
{%- generation -%}{{ message.content }}<|end|>{%- endgeneration -%}
{%- elif message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}IMAGE{%- elif part.type == 'video' -%}VIDEO
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
"""
_SQUARE = {
    "size": {"shortest_edge": _SIDE},
    "crop_size": {"height": _SIDE, "width": _SIDE},
    "do_center_crop": True,
}
_EXACT = {"size": {"height": _SIDE, "width": _SIDE}}
_SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
_TOWER = {**_SMALL, "num_attention_heads": 2, "image_size": _SIDE, "patch_size": _PATCH}
_TEXT = {
    **_SMALL,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "initializer_range": 0.2,
}
_QWEN = {"model_type": "qwen2", **_TEXT}
_CLIP = {"model_type": "clip_vision_model", **_TOWER}
_SIGLIP = {"model_type": "siglip_vision_model", **_TOWER, "vision_use_head": False}
_CANVASES = [[56, 112], [112, 56], [112, 112], [56, 168]]
# what a wrong mask of a full layer leaks is seen in the layers after it
_LAYERS = ["sliding_attention", "full_attention"] * 2
_OVIS = upstream.OVIS


@dataclass(frozen=True)
class Tiny:
    """A model that is small enough to train in a second.

    Attributes:
        model: the files of its directory, and transformers' processor.
        pad: token of a slot.
        image: text that stands for an image in a rendered chat.
        video: text that stands for a video; None where the family takes none.
        ids: further tokens whose number config.json tells.
        film: values of the video processor.
    """

    model: upstream.Model
    pad: str
    image: str
    video: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    film: dict[str, Any] = field(default_factory=dict)


def _tiny(like, pad, *, place=None, clip=None, ids=(), film=None, **changes):
    """Make a small one of one of `upstream.MODELS`: own config, sizes and tokens."""
    known = upstream.MODELS[like]
    tokens = (*known.tokens, *_ENDS, *changes.pop("tokens", ()))
    model = upstream.Model(
        known.family,
        known.processors,
        named=known.named,
        tokens=tokens,
        video=known.video,
        audio=known.audio,
        call=known.call,
        **changes,
    )
    return Tiny(model, pad, place or pad, clip, dict(ids), film or {})


MODELS: dict[str, Tiny] = {
    "internvl": _tiny(
        "internvl3",
        "<IMG_CONTEXT>",
        clip="<video>",
        film=_EXACT,
        config={
            "vision_config": {
                "model_type": "internvl_vision",
                **_TOWER,
                "image_size": [_SIDE, _SIDE],
                "patch_size": [_PATCH, _PATCH],
            },
            "text_config": _QWEN,
            "downsample_ratio": 0.5,
        },
        image={**_EXACT, "min_patches": 1, "max_patches": 4},
        processor={"image_seq_length": 4},
    ),
    "aya_vision": _tiny(
        "aya_vision",
        "<|IMG_PATCH|>",
        place="<image>",
        config={
            "vision_config": _SIGLIP,
            "text_config": {"model_type": "cohere2", **_TEXT, "sliding_window": 16},
            "downsample_factor": 2,
            "vision_feature_layer": -1,
            "alignment_intermediate_size": 64,
        },
        image={**_EXACT, "min_patches": 1, "max_patches": 4},
        processor={"patch_size": _PATCH, "img_size": _SIDE, "downsample_factor": 2},
    ),
    "cohere2_vision": _tiny(
        "command_a_vision",
        "<|IMG_PATCH|>",
        config={
            "vision_config": _SIGLIP,
            "text_config": {"model_type": "cohere2", **_TEXT, "sliding_window": 16},
            "downsample_factor": 2,
            "alignment_intermediate_size": 64,
        },
        image={**_EXACT, "patch_size": 2, "max_patches": 4},
    ),
    "ovis2": _tiny(
        "ovis2",
        "<IMG_ATOM>",
        place="<image>",
        config={
            "vision_config": {
                **_TOWER,
                "hidden_stride": 2,
                "vocab_size": 64,
                "num_visual_indicator_tokens": 5,
            },
            "text_config": _QWEN,
            "hidden_size": 32,
        },
        image={**_EXACT, "crop_to_patches": True, "max_patches": 4},
        processor={"image_seq_length": 4},
    ),
    "gemma3": _tiny(
        "gemma3",
        "<image_soft_token>",
        place="<start_of_image>",
        config={
            "vision_config": _SIGLIP,
            "text_config": {
                "model_type": "gemma3_text",
                **_TEXT,
                "sliding_window": 16,
                "num_hidden_layers": len(_LAYERS),
                "layer_types": _LAYERS,
                "query_pre_attn_scalar": 8,
            },
            "mm_tokens_per_image": 4,
        },
        image=_EXACT,
        processor={"image_seq_length": 4},
    ),
    "gemma4": _tiny(
        "gemma4",
        "<|image|>",
        clip="<|video|>",
        tokens=("<|video|>",),
        ids={"video": "<|video|>"},
        config={
            "vision_config": {
                **_SMALL,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "patch_size": 16,
                "pooling_kernel_size": 3,
                "position_embedding_size": 1024,
            },
            "audio_config": None,
            "text_config": {
                "model_type": "gemma4_text",
                **_TEXT,
                "sliding_window": 16,
                "num_hidden_layers": len(_LAYERS),
                "layer_types": _LAYERS,
                "hidden_size_per_layer_input": 8,
                "use_bidirectional_attention": "vision",
            },
        },
        image={"max_soft_tokens": 70},
    ),
    "idefics3": _tiny(
        "idefics3",
        "<image>",
        config={
            "vision_config": {"model_type": "idefics3_vision", **_TOWER},
            "text_config": {"model_type": "llama", **_TEXT},
            "scale_factor": 2,
        },
        image={"size": {"longest_edge": 2 * _SIDE}, "max_image_size": {"longest_edge": _SIDE}},
        processor={"image_seq_len": 4},
    ),
    "smolvlm": _tiny(
        "smolvlm",
        "<image>",
        config={
            "model_type": "smolvlm",
            "vision_config": {"model_type": "smolvlm_vision", **_TOWER},
            "text_config": {"model_type": "llama", **_TEXT},
            "scale_factor": 2,
        },
        image={"size": {"longest_edge": 2 * _SIDE}, "max_image_size": {"longest_edge": _SIDE}},
        processor={"image_seq_len": 4},
    ),
    "pixtral": _tiny(
        "pixtral_12b",
        "[IMG]",
        config={
            "model_type": "llava",
            "vision_config": {"model_type": "pixtral", **_TOWER, "head_dim": 16},
            "text_config": {"model_type": "mistral", **_TEXT},
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        image={"size": {"longest_edge": 112}, "patch_size": {"height": 14, "width": 14}},
        processor={"patch_size": _PATCH},
    ),
    "mistral3": _tiny(
        "mistral_small",
        "[IMG]",
        config={
            "model_type": "mistral3",
            "vision_config": {"model_type": "pixtral", **_TOWER, "head_dim": 16},
            "text_config": {"model_type": "mistral", **_TEXT},
            "spatial_merge_size": 2,
            "vision_feature_layer": -1,
        },
        image={"size": {"longest_edge": 112}, "patch_size": {"height": 14, "width": 14}},
        processor={"patch_size": _PATCH, "spatial_merge_size": 2},
    ),
    "llava": _tiny(
        "llava_1_5",
        "<image>",
        config={
            "vision_config": _CLIP,
            "text_config": {"model_type": "llama", **_TEXT},
            "image_seq_length": 16,
        },
        image=_SQUARE,
        processor=upstream.CLIP,
    ),
    "llava_next": _tiny(
        "llava_next",
        "<image>",
        config={
            "vision_config": _CLIP,
            "text_config": {"model_type": "llama", **_TEXT},
            "image_grid_pinpoints": _CANVASES,
        },
        image={**_SQUARE, "image_grid_pinpoints": _CANVASES},
        processor=upstream.CLIP,
    ),
    "llava_onevision": _tiny(
        "llava_onevision",
        "<image>",
        clip="<video>",
        ids={"video": "<video>"},
        film=_EXACT,
        config={
            "vision_config": _SIGLIP,
            "text_config": _QWEN,
            "image_grid_pinpoints": _CANVASES,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "vision_aspect_ratio": "anyres_max_9",
        },
        image={**_EXACT, "image_grid_pinpoints": _CANVASES},
        processor={"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
    ),
    "glm4v": _tiny(
        "glm_4_1v",
        "<|image|>",
        tokens=("<|begin_of_image|>", "<|end_of_image|>"),
        config={
            "model_type": "glm4v",
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "out_hidden_size": 32,
                "intermediate_size": 48,
                "num_heads": 2,
                "image_size": _SIDE,
                "patch_size": _PATCH,
                "spatial_merge_size": 2,
            },
            "text_config": {
                "model_type": "glm4v_text",
                **_TEXT,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [1, 1, 2],
                    "partial_rotary_factor": 1.0,
                },
            },
        },
        image={"size": {"shortest_edge": 3136, "longest_edge": 20000}},
    ),
    "kimi_k25": _tiny(
        "kimi_small",
        "<|media_pad|>",
        config={
            "vision_config": {
                "num_attention_heads": 2,
                "num_hidden_layers": 2,
                "hidden_size": 32,
                "intermediate_size": 48,
                "pos_emb_height": 8,
                "pos_emb_width": 8,
            },
            "projection_hidden_size": 32,
            "text_config": {"model_type": "llama", **_TEXT},
        },
        image={"size": {"max_height": 8, "max_width": 8}, "max_patches": 64},
    ),
}


def write(name: str, path) -> Any:
    """Write a model directory; returns transformers' own processor of it."""
    tiny = MODELS[name]
    model = tiny.model
    tokenizer = upstream.tiny_tokenizer(model, _ENDS[1])
    number = tokenizer.convert_tokens_to_ids
    given = {"image_token_id": number(tiny.pad), "image_token_index": number(tiny.pad)}
    for kind, token in tiny.ids.items():
        given |= {f"{kind}_token_id": number(token), f"{kind}_token_index": number(token)}
    if model.family == "ovis2":
        given["visual_indicator_token_ids"] = [number(token) for token in _OVIS[2:]]
    config = {"model_type": model.family, **model.config, **given}
    config["vocab_size"] = size = len(tokenizer)
    config["text_config"] = {**config["text_config"], "vocab_size": size}
    if model.family == "gemma4":
        config["text_config"]["vocab_size_per_layer_input"] = size
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(path)
    image_class, video = model.processors[1], model.video
    files = {
        "config": config,
        "preprocessor_config": {"image_processor_type": image_class, **model.image},
        "processor_config": model.processor,
    }
    if video is not None:
        files["video_preprocessor_config"] = {"video_processor_type": video[1], **tiny.film}
    for file, values in files.items():
        (path / f"{file}.json").write_text(json.dumps(values))
    template = _TEMPLATE.replace("IMAGE", tiny.image).replace("VIDEO", tiny.video or "")
    (path / "chat_template.jinja").write_text(template)
    processor = upstream.real_processor(model)
    if video is not None:
        processor.video_processor = upstream.found(*video)(**tiny.film)
    return processor
