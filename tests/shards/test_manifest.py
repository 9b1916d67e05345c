from __future__ import annotations

import json
from dataclasses import fields, replace
from hashlib import sha256

import pytest

from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts, Rope
from packcli.shards.manifest import (
    FORMAT,
    NAME,
    Manifest,
    ShardEntry,
    canonical,
    file_sha256,
    read_manifest,
)
from tests.contract.making import MODELS

BASE = Manifest(
    kind="packed",
    model=MODELS["qwen2_5_vl"],
    versions={"packcli": "0.1.0", "pyarrow": "26.0.1"},
    settings={"min_pixels": 3136, "tokenizer.json": "ab" * 32},
    options={"capacity": 8192, "strategy": "bfd"},
    inputs=[{"name": "train.jsonl", "bytes": 10, "sha256": "cd" * 32}],
    counts={"records": 7, "kept": 6, "rejected": {"bad_json": 1}},
    digest="0f" * 32,
    shards=(ShardEntry("train-00000-of-00001.parquet", 2, 6, 90, 1234, "ef" * 32),),
)
BEFORE = {
    "kind": "encoded",
    "model": replace(BASE.model, vocab_size=1101),
    "versions": {"packcli": "0.1.1", "pyarrow": "26.0.1"},
    "settings": {"min_pixels": 3137, "tokenizer.json": "ab" * 32},
    "options": {"capacity": 8193, "strategy": "bfd"},
    "inputs": [{"name": "train.jsonl", "bytes": 11, "sha256": "cd" * 32}],
}
RESULTS = {"counts": {}, "digest": "", "shards": ()}


def store(folder, manifest):
    text = canonical(manifest.to_json())
    (folder / NAME).write_text(text, encoding="utf-8")
    return text


def test_round_trip(tmp_path):
    store(tmp_path, BASE)
    assert read_manifest(tmp_path) == BASE


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_model_facts_come_back(model):
    again = ModelFacts.from_json(json.loads(canonical(model.to_json())))
    assert again == model
    assert isinstance(again.rope, Rope)


def test_canonical_bytes_do_not_depend_on_the_order_of_keys():
    a = {"b": 1, "a": {"y": [1, 2], "x": None}}
    b = {"a": {"x": None, "y": [1, 2]}, "b": 1}
    assert canonical(a) == canonical(b)
    assert canonical(a) == '{\n "a": {\n  "x": null,\n  "y": [\n   1,\n   2\n  ]\n },\n "b": 1\n}\n'


def test_canonical_bytes_are_those_read_back(tmp_path):
    text = store(tmp_path, BASE)
    assert canonical(read_manifest(tmp_path).to_json()) == text


def test_canonical_keeps_letters_and_refuses_nan():
    assert canonical({"name": "größe"}) == '{\n "name": "größe"\n}\n'
    with pytest.raises(ValueError):
        canonical({"rate": float("nan")})


@pytest.mark.parametrize("name", BEFORE)
def test_fingerprint_changes_with_all_that_decides_the_output(name):
    assert replace(BASE, **{name: BEFORE[name]}).fingerprint != BASE.fingerprint


@pytest.mark.parametrize("name", RESULTS)
def test_fingerprint_does_not_change_with_results(name):
    assert replace(BASE, **{name: RESULTS[name]}).fingerprint == BASE.fingerprint


def test_every_field_is_a_cause_or_a_result():
    assert {field.name for field in fields(Manifest)} == BEFORE.keys() | RESULTS.keys()


def test_fingerprint_does_not_change_with_the_order_of_keys():
    turned = replace(BASE, options={"strategy": "bfd", "capacity": 8192})
    assert turned.fingerprint == BASE.fingerprint


def test_document_tells_everything():
    document = BASE.to_json()
    assert document["format"] == FORMAT
    assert document["fingerprint"] == BASE.fingerprint
    assert document["shards"] == [
        {
            "name": "train-00000-of-00001.parquet",
            "rows": 2,
            "samples": 6,
            "tokens": 90,
            "bytes": 1234,
            "sha256": "ef" * 32,
        }
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="packcli/99"), "format 'packcli/99'"),
        (lambda d: d.pop("format"), "format None"),
        (lambda d: d.pop("inputs"), "inputs"),
        (lambda d: d["model"].pop("family"), "family"),
        (lambda d: d["model"].update(color=1), "color"),
        (lambda d: d["model"].update(rope="spiral"), "spiral"),
        (lambda d: d["shards"][0].pop("sha256"), "sha256"),
        (lambda d: d.update(shards=None), "cannot be read"),
    ],
)
def test_documents_that_cannot_be_used_are_named(tmp_path, change, message):
    document = json.loads(canonical(BASE.to_json()))
    change(document)
    (tmp_path / NAME).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=message) as told:
        read_manifest(tmp_path)
    assert str(tmp_path / NAME) in str(told.value)


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff\xfe", b"null"])
def test_files_that_are_no_manifest_are_named(tmp_path, data):
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(InputError, match=NAME):
        read_manifest(tmp_path)


def test_missing_manifest_is_named(tmp_path):
    with pytest.raises(InputError, match="no manifest"):
        read_manifest(tmp_path)


def test_sha256_of_a_file(tmp_path):
    data = bytes(range(256)) * 9000
    (tmp_path / "x").write_bytes(data)
    assert file_sha256(tmp_path / "x") == sha256(data).hexdigest()
