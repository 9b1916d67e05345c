"""A tiny model made on the spot, and the real ones beside the checkout."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from packcli.encode.placeholders import Placeholders
from packcli.encode.text.text_encoder import TextEncoder

if TYPE_CHECKING:
    from pathlib import Path

SPECIAL = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
PLAIN = ("<think>", "</think>", "<tool_call>", "</tool_call>")
CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{ message.content }}
{%- else %}{% for part in message.content %}
{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- endfor %}"""


def write_model(folder: Path, template: str | None = CHATML) -> Path:
    """A byte-level tokenizer: one token a byte, except `Hi` and two newlines."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: i for i, char in enumerate(alphabet)} | {"Hi": 256, "ĊĊ": 257}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("H", "i"), ("Ċ", "Ċ")]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    folder.mkdir(exist_ok=True, parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    # the plain ones are listed in the config alone, as in some published models
    start = tokenizer.get_vocab_size()
    listed = {str(start + i): {"content": text} for i, text in enumerate(PLAIN)}
    config = {"added_tokens_decoder": listed, "eos_token": {"content": "<|im_end|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    encoder = TextEncoder.open(tiny_folder)
    pad = encoder._vocabulary.ids["<|image_pad|>"]
    return TextEncoder.open(tiny_folder, Placeholders("<|image_pad|>", None, frozenset({pad})))


@pytest.fixture(scope="session")
def encoder_of(shared):
    @cache
    def open_model(name: str) -> TextEncoder:
        pads = {248056, 248057} if name == "qwen3_5" else {151655, 151656}
        places = Placeholders("<|image_pad|>", "<|video_pad|>", frozenset(pads))
        return TextEncoder.open(shared / "models" / name, places)

    return open_model
