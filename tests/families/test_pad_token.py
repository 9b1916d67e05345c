"""The padding token of a model directory."""

from __future__ import annotations

import json

import pytest

from packcli.contract.errors import InputError
from packcli.families.processors.model_files import read_model_files
from packcli.families.processors.pad_token import pad_token_id


@pytest.fixture
def told(tmp_path):
    """Write a model directory; give its padding token."""

    def write(config=None, tokenizer=None, definition=None):
        files = {
            "config.json": {"model_type": "any"} | (config or {}),
            "tokenizer_config.json": tokenizer,
            "tokenizer.json": definition,
        }
        for name, content in files.items():
            if content is not None:
                text = content if isinstance(content, str) else json.dumps(content)
                (tmp_path / name).write_text(text)
        return pad_token_id(read_model_files(tmp_path))

    return write


def test_the_tokenizers_word_comes_first(told):
    listed = {"7": {"content": "<pad>"}, "8": {"content": "<end>"}}
    tokenizer = {"pad_token": "<pad>", "added_tokens_decoder": listed}
    assert told({"pad_token_id": 3}, tokenizer) == 7


def test_its_id_may_stand_in_the_definition_alone(told):
    tokenizer = {"pad_token": {"content": "<pad>"}}
    assert told(None, tokenizer, {"added_tokens": [{"content": "<pad>", "id": 11}]}) == 11


def test_the_config_is_asked_then_the_end_token(told):
    assert told({"pad_token_id": 3, "eos_token_id": 2}) == 3
    assert told({"text_config": {"pad_token_id": 4}, "pad_token_id": None}) == 4


def test_the_end_token_serves_where_there_is_no_padding_token(told):
    assert told({"eos_token_id": [2, 9]}) == 2
    assert told({"pad_token_id": None, "text_config": {"eos_token_id": 5}}) == 5


def test_no_file_may_name_one(told):
    assert told() is None
    assert told({"eos_token_id": []}) is None


def test_a_damaged_definition_is_told(told):
    with pytest.raises(InputError, match=r"tokenizer\.json: no tokenizer can be read"):
        told(None, {"pad_token": "<pad>"}, "{")


def test_real_directories(shared, sample_data):
    found = {
        name: pad_token_id(read_model_files(shared / "models" / name))
        for name in ("qwen2_5_vl", "qwen3_vl", "qwen3_5")
    }
    assert found == {"qwen2_5_vl": 151643, "qwen3_vl": 151643, "qwen3_5": 248044}
    assert pad_token_id(read_model_files(sample_data / "models" / "text")) == 1792
