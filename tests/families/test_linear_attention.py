"""Which models carry a recurrent state next to attention."""

from __future__ import annotations

import json

import pytest

from packcli.families import open_family
from packcli.families.processors.model_files import linear_attention


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen2_vl", False),
        ("qwen2_5_vl", False),
        ("qwen3_vl", False),
        ("qwen3_5", True),
        ("text", False),
    ],
)
def test_sample_models(sample_data, name, expected):
    assert open_family(sample_data / "models" / name).facts.linear_attention is expected


def test_layer_types_decide_before_sizes():
    text = {"layer_types": ["full_attention"], "linear_num_key_heads": 2}
    assert not linear_attention({"text_config": text})


def test_sizes_tell_when_layer_types_are_left_out():
    assert linear_attention({"linear_num_key_heads": 2})


def test_a_text_model_with_linear_layers(tmp_path):
    config = {"model_type": "qwen3_next", "vocab_size": 100, "layer_types": ["linear_attention"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert open_family(tmp_path).facts.linear_attention
