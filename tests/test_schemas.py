"""The published schemas are those of the code, and what packcli writes keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from packcli.cli import cli
from packcli.cli.bundled import bundled
from packcli.cli.schema import SCHEMAS, text
from packcli.contract.columns import COLUMNS, FORBIDDEN, columns_for
from packcli.contract.model import ModelFacts
from packcli.contract.rejections import REJECTIONS, WARNINGS
from packcli.contract.rules import BY_CODE
from packcli.contract.schemas import of_type

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "sample_data"
COPIES = ROOT / "schemas"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code in {0, 1}, result.output
    return result.stdout


def broken_laws(name: str, document: object) -> list[str]:
    validator = Draft202012Validator(json.loads(text(name)))
    return [f"{list(e.path)}: {e.message[:200]}" for e in validator.iter_errors(document)]


def rows_of(dataset: Path) -> list[dict]:
    return pq.read_table(dataset / "data").to_pylist()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, object]:
    """What the commands print, and where they wrote."""
    out = tmp_path_factory.mktemp("made")
    model = ("--model", DATA / "models" / "text", "--max-reject-rate", 1, "--no-progress")
    encoded = run("encode", DATA / "chats.jsonl", *model, "-o", out / "encoded", "--json")
    plan = run("plan", out / "encoded", "--capacity", "128,1024", "--json")
    packed = run("pack", out / "encoded", "-o", out / "packed", "--capacity", 128, "--json")
    return {
        "out": out,
        "encode_summary": json.loads(encoded),
        "plan": json.loads(plan),
        "pack_summary": json.loads(packed.splitlines()[-1]),
    }


def test_committed_copies_are_what_the_code_says():
    names = {path.name for path in COPIES.iterdir()}
    assert names == {f"{name}.schema.json" for name in SCHEMAS}
    stale = [
        name
        for name in SCHEMAS
        if (COPIES / f"{name}.schema.json").read_text("utf-8") != text(name)
    ]
    assert stale == [], "packcli schema NAME > schemas/NAME.schema.json"


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_a_schema_and_is_printed(name):
    printed = run("schema", name)
    assert printed == text(name)
    document = json.loads(printed)
    Draft202012Validator.check_schema(document)
    assert document["title"] == f"packcli {name}"


def test_command_lists_the_schemas_and_refuses_others():
    assert run("schema").split() == list(SCHEMAS)
    assert CliRunner().invoke(cli, ["schema", "nonsense"]).exit_code == 2


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_property_has_a_type_and_words(name):
    def walk(schema):
        for key, inner in schema.get("properties", {}).items():
            if name != "plan" or key != "plans":
                assert inner["description"], key
            yield key
            yield from walk(inner)
            yield from walk(inner.get("items", {}))

    assert len(list(walk(json.loads(text(name))))) >= 7


@pytest.mark.parametrize("name", ["encode_summary", "plan", "pack_summary"])
def test_printed_summaries_keep_their_schemas(made, name):
    assert broken_laws(name, made[name]) == []


@pytest.mark.parametrize("dataset", ["encoded", "packed"])
def test_datasets_of_text_keep_their_schemas(made, dataset):
    folder = made["out"] / dataset
    assert broken_laws("manifest", json.loads((folder / "manifest.json").read_bytes())) == []
    lines = [json.loads(line) for line in (folder / "rejected.jsonl").read_bytes().splitlines()]
    assert len(lines) > 1
    assert [law for line in lines for law in broken_laws("rejection", line)] == []
    rows = rows_of(folder)
    assert len(rows) > 1
    assert [law for row in rows for law in broken_laws("pack", row)] == []


def test_dataset_with_media_keeps_its_schemas():
    assert broken_laws("manifest", json.loads((DATA / "good/manifest.json").read_bytes())) == []
    assert [law for row in rows_of(DATA / "good") for law in broken_laws("pack", row)] == []


@pytest.mark.parametrize("code", ["position.reset", "shard.missing", "label.value"])
def test_verdicts_of_broken_datasets_keep_the_schema(code):
    printed = json.loads(run("verify", DATA / "broken" / code, "--json"))
    assert printed["counts"][code] > 0
    assert broken_laws("verdict", printed) == []


def test_verdict_with_a_proof_keeps_the_schema():
    printed = json.loads(run("verify", DATA / "good", "--sample", 2, "--json"))
    assert len(printed["proofs"][0]["controls"]) > 0
    assert broken_laws("verdict", printed) == []


@pytest.mark.parametrize(
    ("change", "law"),
    [
        ({"labels": None}, "labels"),
        ({"input_ids": [2**31]}, "input_ids"),
        ({"loss_mask": [200]}, "loss_mask"),
        ({"image_grid_thw": [[1, 2]]}, "image_grid_thw"),
        ({"mrope_position_ids": [[0], [0]]}, "mrope_position_ids"),
        ({"sample_digests": ["00"]}, "sample_digests"),
        ({"attention_mask": [1]}, "attention_mask"),
    ],
)
def test_pack_schema_refuses(change, law):
    row = rows_of(DATA / "good")[0] | change
    (error,) = Draft202012Validator(json.loads(text("pack"))).iter_errors(row)
    assert error.path[0] == law


def test_pack_schema_wants_media_columns_together():
    row = rows_of(DATA / "good")[0]
    del row["media"]
    assert broken_laws("pack", row) != []


@pytest.mark.parametrize("name", ["manifest", "verdict", "encode_summary", "pack_summary"])
def test_schema_refuses_a_document_with_a_field_lost_or_added(name, made):
    document = {
        "manifest": json.loads((DATA / "good" / "manifest.json").read_bytes()),
        "verdict": json.loads(run("verify", DATA / "good", "--level", "contract", "--json")),
        **made,
    }[name]
    assert broken_laws(name, document) == []
    assert broken_laws(name, document | {"more": 1}) != []
    for field in document:
        fewer = {key: value for key, value in document.items() if key != field}
        assert broken_laws(name, fewer) != [], field


def test_pack_schema_holds_every_declared_column():
    document = json.loads(text("pack"))
    media = document["properties"]["media"]["items"]["properties"]
    flat = document["properties"].keys() - {"media"} | {f"media.{name}" for name in media}
    assert flat == {column.name for column in COLUMNS} | FORBIDDEN.keys()
    always = columns_for(ModelFacts("text", 1))
    assert set(document["required"]) == {column.name for column in always}


def test_codes_are_those_of_the_tables():
    finding = json.loads(text("verdict"))["properties"]["findings"]["items"]
    assert finding["properties"]["code"]["enum"] == list(BY_CODE)
    assert json.loads(text("rejection"))["properties"]["code"]["enum"] == list(REJECTIONS)
    summary = json.loads(text("encode_summary"))["properties"]
    assert summary["reasons"]["propertyNames"]["enum"] == list(REJECTIONS)
    assert summary["warnings"]["propertyNames"]["enum"] == list(WARNINGS)


def test_type_without_a_schema_is_refused():
    with pytest.raises(TypeError, match="no JSON schema"):
        of_type(bytes)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("position.reset", "packcli verify {}/broken/position.reset\n"),
        ("isolation.state", "packcli verify {}/broken/isolation.state --kernel gated_delta\n"),
        (
            "over_length",
            (
                "packcli lint {0}/bad_records/over_length/input.jsonl "
                "--model {0}/models/qwen2_5_vl --max-length 64\n"
            ),
        ),
        (
            "sample.changed",
            "packcli verify {0}/broken/sample.changed --against {0}/good_text\n",
        ),
    ],
)
def test_explain_names_the_bundled_example(code, line, monkeypatch, tmp_path):
    data = bundled("sample_data")
    monkeypatch.chdir(tmp_path)
    assert run("explain", code).endswith(f"  example  {line.format(data)}")
    monkeypatch.chdir(data.parent)
    assert run("explain", code).endswith(f"  example  {line.format('sample_data')}")


def test_explain_says_where_there_is_no_example():
    told = "  example  none: no file that comes with packcli earns it\n"
    assert run("explain", "isolation.control").endswith(told)
