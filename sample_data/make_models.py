"""Tiny model directories: tokenizer, chat template, processor values and config.

Vocabularies, templates and sizes are our own; token names, patch sizes and pixel limits are those
of the published processors, so that lengths and grids follow the same rules.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from make_configs import config
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ORDINARY = 1792
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
MARKERS = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]
LETTERS = {False: r"\p{L}", True: r"\p{L}\p{M}"}
STYLES = {  # default system turn, which answers show reasoning, how a tool call is written
    "qwen2_vl": ("You are a helpful assistant.", "given", "json"),
    "qwen2_5_vl": ("You are a helpful assistant.", "given", "json"),
    "qwen3_vl": ("", "given", "json"),
    "qwen3_5": ("", "always", "xml"),
    "text": ("", "last", "json"),
}
PROCESSORS = {
    "qwen2_vl": "Qwen2VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen3_vl": "Qwen3VLProcessor",
    "qwen3_5": "Qwen3VLProcessor",
}

Settings = dict[str, Any]


def _pattern(*, marks: bool) -> Regex:
    """Return Qwen's word pattern; Qwen3.5 counts combining marks among the letters."""
    letters = LETTERS[marks]
    word = f"[{letters}]+" if marks else rf"{letters}+"
    return Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?"
        + word
        + rf"|\p{{N}}| ?[^\s{letters}\p{{N}}]+[\r\n]*"
        + r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def train(texts: Iterable[str], *, marks: bool) -> Tokenizer:
    """Train a byte-level BPE and add the control tokens behind its vocabulary.

    Args:
        texts: what to learn from.
        marks: whether combining marks count as letters.

    Returns:
        A tokenizer of `ORDINARY` + 26 tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = pre_tokenizers.Split(_pattern(marks=marks), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    tokenizer.post_processor = processors.ByteLevel(**level)
    tokenizer.decoder = decoders.ByteLevel(**level)
    trainer = trainers.BpeTrainer(
        vocab_size=ORDINARY,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    found = tokenizer.get_vocab_size()
    if found != ORDINARY:
        raise SystemExit(f"the chats give {found} tokens of {ORDINARY}; write more text")
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in SPECIAL]
    )
    tokenizer.add_tokens([AddedToken(name, normalized=False, special=False) for name in MARKERS])
    return tokenizer


def _tokenizer_config(tokenizer: Tokenizer) -> Settings:
    """Return what AutoTokenizer needs beside tokenizer.json."""
    decoder = {
        str(tokenizer.token_to_id(name)): {
            "content": name,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": name in SPECIAL,
        }
        for name in [*SPECIAL, *MARKERS]
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": SPECIAL[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def _template(name: str, body: str) -> str:
    """Return the chat template of one family: its settings, then the common body."""
    system, thinking, call_style = STYLES[name]
    return (
        f'{{%- set default_system = "{system}" -%}}{{%- set thinking = "{thinking}" -%}}'
        f'{{%- set call_style = "{call_style}" -%}}\n{body}'
    )


def _image_settings(name: str) -> Settings:
    """Return preprocessor_config.json with the published values."""
    if name in {"qwen2_vl", "qwen2_5_vl"}:
        return {
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": PROCESSORS[name],
        }
    return {
        "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": PROCESSORS[name],
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }


def _video_settings(name: str) -> Settings | None:
    """Return video_preprocessor_config.json; the Qwen2 families publish none."""
    if name in {"qwen2_vl", "qwen2_5_vl"}:
        return None
    settings = _image_settings(name)
    del settings["image_processor_type"]
    settings["size"] = {"longest_edge": 25165824, "shortest_edge": 4096}
    return {**settings, "video_processor_type": "Qwen3VLVideoProcessor"}


def _put(path: Path, value: Settings) -> None:
    """Write one readable JSON file."""
    path.write_bytes((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def write(folder: Path, source: Path, texts: list[str]) -> None:
    """Write the five model directories under `folder`."""
    body = (source / "chat_template.jinja").read_text("utf-8")
    trained = {marks: train([*texts, body], marks=marks) for marks in (False, True)}
    for name in STYLES:
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        tokenizer = trained[name == "qwen3_5"]
        compact = json.dumps(
            json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")
        )
        (target / "tokenizer.json").write_bytes(compact.encode("utf-8"))
        (target / "chat_template.jinja").write_bytes(_template(name, body).encode("utf-8"))
        _put(target / "tokenizer_config.json", _tokenizer_config(tokenizer))
        _put(target / "config.json", config(name, tokenizer))
        if name in PROCESSORS:
            _put(target / "preprocessor_config.json", _image_settings(name))
        video = _video_settings(name) if name in PROCESSORS else None
        if video is not None:
            _put(target / "video_preprocessor_config.json", video)
