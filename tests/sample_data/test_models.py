"""The bundled model directories: what tokenizers and transformers make of them."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from tokenizers import Tokenizer

DATA = Path(__file__).resolve().parents[2] / "sample_data"
MODELS = ["qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_vl", "text"]
VISION = MODELS[:-1]


@pytest.mark.parametrize("name", MODELS)
def test_tokenizer_round_trips_and_numbers_its_control_tokens_last(name):
    path = DATA / "models" / name / "tokenizer.json"
    assert path.stat().st_size < 150_000
    tokenizer = Tokenizer.from_file(str(path))
    assert tokenizer.get_vocab_size(with_added_tokens=False) == 1792
    assert tokenizer.get_vocab_size() == 1818
    assert tokenizer.token_to_id("<|endoftext|>") == 1792
    assert tokenizer.token_to_id("<|image_pad|>") == 1804
    assert tokenizer.token_to_id("</think>") == 1817
    for text in (
        "你好\uff0c世界\uff01",
        "🌅👩\u200d🚀 ok",
        "Straße\n\n  à la carte\t9.11",
        "हिन्दी",
    ):
        assert tokenizer.decode(tokenizer.encode(text).ids) == unicodedata.normalize("NFC", text)
    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("é").ids
    assert tokenizer.encode("<|im_start|>").ids == [1793]


@pytest.mark.parametrize("name", MODELS)
def test_config_names_the_ids_of_its_tokenizer(name):
    folder = DATA / "models" / name
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_bytes())
    assert config.get("text_config", config)["vocab_size"] == 1856
    if name in VISION:
        assert config["image_token_id"] == tokenizer.token_to_id("<|image_pad|>")
        assert config["video_token_id"] == tokenizer.token_to_id("<|video_pad|>")
        assert config["vision_start_token_id"] == tokenizer.token_to_id("<|vision_start|>")


@pytest.mark.parametrize("name", MODELS)
def test_transformers_reads_the_directory_and_runs_a_random_model(name):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    folder = DATA / "models" / name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "<|im_start|>user\nHello, 你好 🌅 e\u0301 हिन्दी<|im_end|>\n"
    ids = tokenizer(text)["input_ids"]
    assert ids == raw.encode(text).ids
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0], None)
    if kind is None:
        pytest.skip(f"this transformers has no {config.architectures[0]}")
    with torch.no_grad():
        logits = kind(config).eval()(input_ids=torch.tensor([ids])).logits
    assert logits.shape == (1, len(ids), 1856)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", VISION)
def test_auto_processor_loads(name):
    pytest.importorskip("torchvision")
    transformers = pytest.importorskip("transformers")
    processor = transformers.AutoProcessor.from_pretrained(DATA / "models" / name)
    factor = 28 if name.startswith("qwen2") else 32
    image = processor.image_processor
    assert image.patch_size * image.merge_size == factor
    assert processor.chat_template == (DATA / "models" / name / "chat_template.jinja").read_text(
        "utf-8"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen2_vl", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"),
        ("qwen3_vl", ""),
        ("text", ""),
        ("qwen3_5", ""),
    ],
)
def test_template_renders_a_picture_turn(name, expected):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    parts = [{"type": "image", "image": "a.png"}, {"type": "text", "text": "What is it?"}]
    chat = [{"role": "user", "content": parts}, {"role": "assistant", "content": "A box."}]
    think = "<think>\n\n</think>\n\n" if name == "qwen3_5" else ""
    assert tokenizer.apply_chat_template(chat, tokenize=False) == (
        f"{expected}<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is it?"
        f"<|im_end|>\n<|im_start|>assistant\n{think}A box.<|im_end|>\n"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3_vl", '<tool_call>\n{"name": "f", "arguments": {"a": "b", "n": 1}}\n</tool_call>'),
        (
            "qwen3_5",
            (
                "<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n<parameter=n>\n1\n"
                "</parameter>\n</function>\n</tool_call>"
            ),
        ),
    ],
)
def test_template_renders_reasoning_and_a_tool_call(name, expected):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "b", "n": 1}}}
    chat = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "content": "done"},
    ]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == (
        f"<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\n"
        f"{expected}<|im_end|>\n<|im_start|>user\n<tool_response>\ndone\n</tool_response><|im_end|>\n"
    )
