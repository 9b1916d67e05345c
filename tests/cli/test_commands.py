"""What commands print, and where options come from."""

import json
import shlex
import shutil

import pytest

from packcli.contract.rejections import REJECTIONS, REMEDIES, WARNINGS
from packcli.contract.rules import BY_CODE

ENCODE = {
    "records", "kept", "rejected", "blank", "reasons", "warnings", "tokens", "supervised_tokens",
    "media", "output",
}  # fmt: skip
PLAN = {
    "capacity", "strategy", "samples", "rejected", "packs", "tokens", "lower_bound", "excess",
    "fill", "sum_sq_len_cv", "ranks", "imbalance", "seconds",
}  # fmt: skip

NO_EXAMPLE = {
    "isolation.control", "image_mode_unsupported", "media_remote_failed", "over_pack_length",
    "zero_length", "worker_crash",
}  # fmt: skip


@pytest.fixture
def model(sample_data):
    return sample_data / "models" / "qwen3_vl"


def test_encode_json(call, sample_data, model, tmp_path):
    out = tmp_path / "out"
    ended = call("encode", sample_data / "chats.jsonl", "--model", model, "-o", out, "--json")
    assert ended.status == 0
    assert set(ended.document) >= ENCODE
    assert ended.document["records"] == ended.document["kept"] + ended.document["rejected"] == 84
    assert ended.document["media"] == {"images": 48, "videos": 10}
    assert ended.document["output"] == str(out)
    assert ended.out.count("\n") == 1


def test_encode_text(call, sample_data, model, tmp_path):
    ended = call("encode", sample_data / "chats.jsonl", "--model", model, "-o", tmp_path / "out")
    assert ended.out.splitlines()[0] == f"encoded  84 of 84 records to {tmp_path / 'out'}"
    assert ended.err == ""


def test_plan_json_is_a_sweep(call, encoded):
    ended = call("plan", encoded(), "--capacity", "1024,2048", "--json")
    plans = ended.document["plans"]
    assert [plan["capacity"] for plan in plans] == [1024, 2048]
    assert all(set(plan) >= PLAN for plan in plans)
    assert all(plan["samples"] + plan["rejected"] == 84 for plan in plans)


def test_plan_reads_lengths(call, tmp_path):
    (tmp_path / "lengths.txt").write_text("10 6 5 4 3 2")
    ended = call("plan", tmp_path / "lengths.txt", "--capacity", "10")
    row = ended.out.splitlines()[1].split()
    assert row == ["10", "3", "3", "0", "100.00%", "0"]


def test_pack_json(call, encoded, tmp_path):
    ended = call("pack", encoded(), "-o", tmp_path / "out", "--capacity", 2048, "--json")
    document = ended.document
    assert set(document) >= (PLAN | {"reasons", "shards", "output"})
    assert (document["packs"], document["samples"], document["excess"]) == (7, 84, 0)


def test_pack_text(call, encoded, tmp_path):
    ended = call("pack", encoded(), "-o", tmp_path / "out", "--capacity", 2048)
    assert ended.out.splitlines() == [
        f"packed   84 samples into 7 packs of 2,048 to {tmp_path / 'out'}",
        "fill     96.76 %; lower bound 7 packs, excess 0 (optimal)",
    ]


def test_pack_text_of_padded_packs_and_of_one(call, encoded, tmp_path):
    flags = ("--pad-sample-multiple", 8, "--pad-pack-multiple", 64)
    ended = call("pack", encoded(), "-o", tmp_path / "out", "--capacity", 32_768, *flags)
    assert ended.out.splitlines() == [
        f"packed   84 samples into 1 pack of 32,768 to {tmp_path / 'out'}",
        "fill     42.33 %; lower bound 1 pack, excess 0 (optimal)",
        "padding  337 tokens, 2.37 % of all",
    ]


def test_verify_json(call, packed):
    ended = call("verify", packed, "--sample", 2, "--json")
    document = ended.document
    assert set(document) == {
        "passed", "level", "checked", "counts", "findings", "skipped", "proofs",
    }  # fmt: skip
    assert document["passed"] is True
    (proof,) = document["proofs"]
    assert {"kind", "kernel", "version", "device", "packs", "max_deviation"} <= set(proof)
    assert (proof["kernel"], proof["packs"]) == ("sdpa", 2)


def test_verify_text_names_the_kernel_and_the_teeth(call, packed):
    lines = call("verify", packed, "--sample", "all").out.splitlines()
    assert lines[0].startswith("contract 7 packs, 84 samples, 13,871 tokens in 3 shards")
    assert "sdpa" in lines[1]
    assert "on 7 packs" in lines[1]
    assert "6 of 6 sabotaged packs caught" in lines[1]
    assert lines[-1] == "verdict  PASSED"


def test_verify_takes_a_model_for_foreign_files(call, packed, model, tmp_path):
    # away from its dataset, whose manifest would tell the model
    shard = shutil.copy(min((packed / "data").iterdir()), tmp_path / "foreign.parquet")
    with_model = call("verify", shard, "--level", "contract", "--model", model, "--json").document
    without = call("verify", shard, "--level", "contract", "--json").document
    assert with_model["passed"]
    assert {*with_model["skipped"].values()} == {"needs a dataset's folder, with its manifest.json"}
    assert without["skipped"]["slot.count"].startswith("needs model with media")


def test_explain_knows_every_code(call):
    listed = call("explain").out
    for code in (*BY_CODE, *REJECTIONS, *WARNINGS):
        assert f"\n{code} " in f"\n{listed}"
        ended = call("explain", code)
        assert ended.status == 0
        assert ended.out.startswith(code)
        assert "\n  remedy   " in ended.out
    assert REMEDIES.keys() == REJECTIONS.keys()
    assert REMEDIES["over_length"] in call("explain", "over_length").out


@pytest.mark.parametrize("code", [*BY_CODE, *REJECTIONS])
def test_examples_of_explain_run_where_the_user_is(call, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = call("explain", code).out.partition("\n  example  ")[2].strip()
    if told.startswith("none: "):
        assert code in NO_EXAMPLE
        return
    name, *arguments = shlex.split(told)
    assert name == "packcli"
    if "model" in arguments:
        pytest.importorskip("transformers")
    ended = call(*arguments)
    assert ended.status == 1, ended.err
    assert f" {code}" in ended.out


def test_schema_prints_json(call, root):
    names = call("schema").out.split()
    files = {path.name.partition(".")[0] for path in (root / "schemas").glob("*.json")}
    assert set(names) == files
    for name in names:
        assert isinstance(json.loads(call("schema", name).out), dict)


# ---- where options come from ----


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "packcli.toml"
        path.write_text(text)
        return path

    return write


def capacity_of(ended):
    return ended.document["plans"][0]["capacity"]


def test_flags_win_over_variables_over_the_file_over_defaults(call, config, tmp_path, monkeypatch):
    (tmp_path / "lengths.txt").write_text("10 6 5 4 3 2")
    path = config("[plan]\ncapacity = 11\njson = true\n")
    source = tmp_path / "lengths.txt"
    assert capacity_of(call("plan", source, "--json")) == 8192
    assert capacity_of(call("--config", path, "plan", source)) == 11
    monkeypatch.setenv("PACKCLI_PLAN_CAPACITY", "12")
    assert capacity_of(call("--config", path, "plan", source)) == 12
    assert capacity_of(call("--config", path, "plan", source, "--capacity", 13)) == 13


def test_a_config_file_spells_options_as_flags_do(call, config, encoded, tmp_path):
    path = config(
        "[pack]\ncapacity = 2048\nmax-samples = 4\nresume = false\n"
        "[plan]\ncapacity = [1024, 2048]\nstrategy = 'sequential'\nopen_packs = 2\n"
        "[verify]\nkernel = ['sdpa']\nsample = 3\nlevel = 'kernel'\n"
    )
    ended = call("--config", path, "pack", encoded(), "-o", tmp_path / "out", "--json")
    assert ended.document["packs"] == 21
    ended = call("--config", path, "plan", encoded(), "--json")
    assert [plan["capacity"] for plan in ended.document["plans"]] == [1024, 2048]
    ended = call("--config", path, "verify", tmp_path / "out", "--json")
    assert [(p["kernel"], p["packs"]) for p in ended.document["proofs"]] == [("sdpa", 3)]


def test_variables_are_called_as_flags_are(call, packed, monkeypatch):
    monkeypatch.setenv("PACKCLI_VERIFY_KERNEL", "sdpa")
    monkeypatch.setenv("PACKCLI_VERIFY_SAMPLE", "1")
    monkeypatch.setenv("PACKCLI_JSON", "1")
    document = call("verify", packed).document
    assert [(p["kernel"], p["packs"]) for p in document["proofs"]] == [("sdpa", 1)]


def test_the_config_file_may_be_named_by_a_variable(call, config, tmp_path, monkeypatch):
    (tmp_path / "lengths.txt").write_text("10 6")
    monkeypatch.setenv("PACKCLI_CONFIG", str(config("[plan]\ncapacity = 16\n")))
    assert capacity_of(call("plan", tmp_path / "lengths.txt", "--json")) == 16


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[plan]\ncapacty = 11\n", "[plan] capacty"),
        ("[plans]\ncapacity = 11\n", "[plans]"),
        ("capacity = 11\n", "[capacity]"),
        ("[plan\n", "packcli.toml"),
        ("[plan]\ncapacity = 'much'\n", "'much'"),
        ("[plan]\nseed = [1]\n", "[plan] seed"),
    ],
)
def test_a_mistake_in_the_config_file_is_named(call, config, tmp_path, text, what):
    (tmp_path / "lengths.txt").write_text("10 6")
    ended = call("--config", config(text), "plan", tmp_path / "lengths.txt")
    assert ended.status == 2
    assert what in ended.err


def test_progress_stays_off_stdout(call, encoded, tmp_path, monkeypatch):
    monkeypatch.setattr("packcli.cli.progress._SECONDS", 0.0)
    shown = call("pack", encoded(), "-o", tmp_path / "a", "--json")
    assert shown.err == "pack: 1 of 1 part\n"
    assert shown.document["packs"]
    hidden = call("pack", encoded(), "-o", tmp_path / "b", "--json", "--no-progress")
    assert hidden.err == ""
    monkeypatch.setenv("PACKCLI_NO_PROGRESS", "1")
    assert call("pack", encoded(), "-o", tmp_path / "c", "--json").err == ""
