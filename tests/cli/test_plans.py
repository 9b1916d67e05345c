"""`plan -o`, `pack --plan` and mixtures on the command line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from packcli.cli.pack import describe
from packcli.cli.planning import weighed
from packcli.pack.run import PackSummary


def test_a_plan_is_written_and_filled(call, encoded, tmp_path):
    plan, packed = tmp_path / "plan.parquet", tmp_path / "packed"
    assert call("plan", encoded(), "--capacity", "1024", "-o", plan).status == 0
    ended = call("pack", encoded(), "--plan", plan, "-o", packed, "--json")
    assert ended.status == 0
    summary = json.loads(ended.out)
    assert (summary["capacity"], summary["samples"], summary["excess"]) == (1024, 84, 0)


def test_flags_beside_a_plan_are_refused(call, encoded, tmp_path):
    plan = tmp_path / "plan.json"
    call("plan", encoded(), "-o", plan)
    ended = call("pack", encoded(), "--plan", plan, "-o", tmp_path / "out", "--seed", "1")
    assert ended.status == 2
    assert "leave out --seed" in ended.err
    ended = call("pack", f"{encoded()}:2", "--plan", plan, "-o", tmp_path / "out")
    assert "leave out epochs" in ended.err


def test_one_plan_is_written_at_a_time(call, encoded, tmp_path):
    ended = call("plan", encoded(), "--capacity", "1,2", "-o", tmp_path / "plan.json")
    assert (ended.status, "one capacity" in ended.err) == (2, True)


@pytest.mark.parametrize("name", ["plan.csv", "plan", "plan.parquet.gz"])
def test_a_plan_is_parquet_or_json(call, encoded, tmp_path, name):
    ended = call("plan", encoded(), "-o", tmp_path / name)
    assert (ended.status, "a plan is a .parquet or .json file" in ended.err) == (2, True)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "chats.jsonl"),
        ("plan", "chats.jsonl", "-o", "p.json"),
        ("pack", "chats.jsonl", "-o", "x"),
        ("plan", "."),
        ("pack", ".", "-o", "../x"),
    ],
)
def test_records_are_no_encoded_dataset(call, sample_data, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample_data / "chats.jsonl", tmp_path)
    ended = call(*command)
    assert ended.status == 3
    assert "run `packcli encode` on" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["chats.jsonl"]


@pytest.mark.parametrize("flags", [("--balance", "attention"), ("--ranks", "4")])
@pytest.mark.parametrize("command", ["plan", "pack"])
def test_balance_needs_ranks_and_ranks_need_balance(call, encoded, tmp_path, command, flags):
    output = ["-o", tmp_path / "x"] if command == "pack" else []
    ended = call(command, encoded(), *output, *flags)
    assert ended.status == 2
    assert "--balance attention or vision, and --ranks of at least 2" in ended.err


def test_the_balance_of_steps_is_printed(call, encoded, tmp_path):
    flags = ["--capacity", "1024", "--balance", "attention", "--ranks", "4"]
    (plan,) = call("plan", encoded(), *flags, "--json").document["plans"]
    longer, least = (f"{100 * (plan[name] - 1):.2f}" for name in ("imbalance", "least_imbalance"))
    assert plan["imbalance"] > 1
    head, row = call("plan", encoded(), *flags).out.splitlines()
    assert head.endswith("imbalance  at least")
    assert row.split()[-2:] == [f"{longer}%", f"{least}%"]
    packed = call("pack", encoded(), "-o", tmp_path / "x", *flags).out
    told = f"\nbalance  steps of 4 ranks take {longer} % longer than equal shares"
    assert f"{told}; the last step has 2 packs\n" in packed
    assert "imbalance" not in call("plan", encoded()).out
    assert "\nbalance " not in call("pack", encoded(), "-o", tmp_path / "y").out


def test_lengths_are_one_source(call, tmp_path):
    (tmp_path / "lengths.txt").write_text("1 2")
    ended = call("plan", tmp_path / "lengths.txt", tmp_path / "lengths.txt")
    assert (ended.status, "several sources" in ended.err) == (2, True)


def test_a_mixture_says_what_it_drew(call, encoded, tmp_path):
    ended = call("pack", f"{encoded()}:1.5", "-o", tmp_path / "mixed", "--seed", "1", "--json")
    assert json.loads(ended.out)["samples"] == 84 + 42
    ended = call("pack", f"{encoded()}:0", "-o", tmp_path / "none")
    assert (ended.status, "epochs above 0" in ended.err) == (2, True)


def test_windows_say_what_they_cost():
    summary = PackSummary(8192, "binpack", packs=1002, lower_bound=1000, excess=2, windows=3)
    text = "windows  3, planned one after the other; at most 0.200 % more packs"
    assert text in describe(summary)
    assert "windows" not in describe(replace(summary, windows=1))


def test_a_colon_may_be_part_of_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:2").mkdir()
    paths = [Path("a:2"), Path("b"), Path("c:x")]
    assert weighed(["a:2", "b", "c:x"]) == (paths, None)
    assert weighed(["a:2:0.5", "b"]) == ([Path("a:2"), Path("b")], [0.5, 1.0])


@pytest.mark.parametrize("name", ["nan", "inf", "-1"])
def test_epochs_are_numbers_above_zero(call, encoded, tmp_path, name):
    ended = call("pack", f"{encoded()}:{name}", "-o", tmp_path / "out")
    assert (ended.status, "epochs above 0" in ended.err) == (2, True)
