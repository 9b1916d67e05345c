"""config.json of the tiny models: the published keys, with sizes that a CPU runs in a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Settings = dict[str, Any]


def _width(tokenizer: Tokenizer) -> int:
    """Return the vocabulary size, padded to a multiple of 64 as embeddings usually are."""
    return -(-tokenizer.get_vocab_size() // 64) * 64


def _media_ids(tokenizer: Tokenizer) -> Settings:
    """Return the ids by which the model finds media."""
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {key: tokenizer.token_to_id(token) for key, token in names.items()}


def _ends(tokenizer: Tokenizer) -> Settings:
    """Return the ids of the first and last token of a text."""
    return {
        "bos_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
    }


def _decoder(tokenizer: Tokenizer) -> Settings:
    """Return the sizes that all language parts share."""
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": _width(tokenizer),
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-06,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
    }


def _flat(name: str, vision: Settings, tokenizer: Tokenizer) -> Settings:
    """Return a config of the Qwen2 generation, whose language keys stand at the top level."""
    return {
        "model_type": name,
        **_media_ids(tokenizer),
        **_decoder(tokenizer),
        **_ends(tokenizer),
        "rope_theta": 1000000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "use_sliding_window": False,
        "vision_config": {
            "depth": 2,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            **vision,
        },
    }


def _qwen2_vl(tokenizer: Tokenizer) -> Settings:
    vision = {"embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2, "in_chans": 3}
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        **_flat("qwen2_vl", vision, tokenizer),
    }


def _qwen2_5_vl(tokenizer: Tokenizer) -> Settings:
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "out_hidden_size": 64,
        "in_channels": 3,
        "window_size": 112,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
        "hidden_act": "silu",
    }
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        **_flat("qwen2_5_vl", vision, tokenizer),
    }


def _vision3(name: str, deepstack: list[int]) -> Settings:
    """Return the vision part of the Qwen3 generation."""
    return {
        "model_type": name,
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "out_hidden_size": 64,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": deepstack,
        "hidden_act": "gelu_pytorch_tanh",
    }


def _qwen3_vl(tokenizer: Tokenizer) -> Settings:
    rope = {"mrope_interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"}
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        **_media_ids(tokenizer),
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "qwen3_vl_text",
            **_decoder(tokenizer),
            **_ends(tokenizer),
            "head_dim": 16,
            "attention_bias": False,
            "rope_theta": 5000000,
            "rope_scaling": rope,
        },
        "vision_config": _vision3("qwen3_vl", [0, 1]),
    }


def _qwen3_5(tokenizer: Tokenizer) -> Settings:
    rope = {
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "rope_type": "default",
    }
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        **_media_ids(tokenizer),
        "tie_word_embeddings": True,
        "text_config": {
            "model_type": "qwen3_5_text",
            **_decoder(tokenizer),
            "num_hidden_layers": 4,
            "head_dim": 32,
            "attention_bias": False,
            "attn_output_gate": True,
            "dtype": "float32",
            "eos_token_id": tokenizer.token_to_id("<|endoftext|>"),
            "full_attention_interval": 2,
            "layer_types": ["linear_attention", "full_attention"] * 2,
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_value_head_dim": 16,
            "mamba_ssm_dtype": "float32",
            "rope_parameters": rope,
        },
        "vision_config": _vision3("qwen3_5_vision", []),
    }


def _text(tokenizer: Tokenizer) -> Settings:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **_decoder(tokenizer),
        **_ends(tokenizer),
        "head_dim": 16,
        "attention_bias": False,
        "rope_theta": 1000000,
        "use_sliding_window": False,
    }


BUILDERS = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_5": _qwen3_5,
    "text": _text,
}


def config(name: str, tokenizer: Tokenizer) -> Settings:
    """Build config.json.

    Args:
        name: the folder's name.
        tokenizer: the tokenizer whose ids the config names.

    Returns:
        The settings; transformers 5.24 builds a random model from them.
    """
    return BUILDERS[name](tokenizer)
