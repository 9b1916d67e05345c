"""Reports of a verdict, and what data may not do in them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from packcli.cli.reports import FORMATS, render
from packcli.cli.reports.github import place, summary
from packcli.cli.reports.safe import plain
from packcli.cli.verify import command
from packcli.contract.rules import BY_CODE, RULES
from packcli.contract.verdict import COMPARED, Finding, Verdict

EVIL = "\x1b[31mred\r\n::set-output name=x::y\n##[add-path]z, 100%: |<b>\u202e\u2028"
WHERE = "a.parquet, row 3, sample 1 ('cat'), token 23, chats.jsonl:7"
GOOD = Verdict("kernel")
GOOD.checked.update(shards=2, packs=4, samples=9, tokens=12345)
GOOD.shards += ["a.parquet", "b.parquet"]


def broken(limit=100):
    verdict = Verdict("kernel", limit=limit)
    verdict.checked.update(shards=2, packs=4, samples=9, tokens=12345)
    verdict.shards += ["a.parquet", "b.parquet"]
    verdict.skipped["mrope.sample"] = "needs model with mRoPE"
    place = ("a.parquet", 3, 1, 23, "cat", "chats.jsonl:7")
    verdict.add(Finding("position.reset", "position_ids is 0 at token 23", *place))
    verdict.add(Finding("isolation.attention", "sample 1 sees sample 0", *place))
    verdict.add(Finding("conservation", "9 packs, 8 expected"))
    verdict.add(Finding("position.reset", "again", "b.parquet", 0))
    verdict.proofs.append(
        {
            "kind": "attention",
            "kernel": "sdpa",
            "version": "torch 2",
            "device": "cpu",
            "dtype": "float32",
            "packs": 4,
            "tokens": 12345,
            "max_deviation": 0.5,
            "tolerance": 0.05,
            "controls": [{"name": "all", "caught": True, "deviation": 1.0}],
        }
    )
    return verdict


def evil():
    verdict = Verdict("contract")
    verdict.checked.update(shards=1, packs=1)
    verdict.shards.append(EVIL)
    verdict.skipped[EVIL] = EVIL
    verdict.add(Finding("position.reset", EVIL, EVIL, 0, 0, 0, EVIL, EVIL + ":7"))
    return verdict


def test_text_ends_with_the_verdict():
    lines = render(broken(), "text").split("\n")
    assert lines == [
        "contract 4 packs, 9 samples, 12,345 tokens in 2 shards: 4 findings",
        (
            "attention sdpa (torch 2, cpu, float32) on 4 packs: deviation 0.5, tolerance 0.05; "
            "1 of 1 sabotaged packs caught"
        ),
        f"finding  position.reset: {WHERE}: position_ids is 0 at token 23",
        f"finding  isolation.attention: {WHERE}: sample 1 sees sample 0",
        "finding  conservation: dataset: 9 packs, 8 expected",
        "finding  position.reset: b.parquet, row 0: again",
        "skipped  mrope.sample: needs model with mRoPE",
        "verdict  FAILED",
    ]
    assert render(GOOD, "text").endswith(": every rule holds\nverdict  PASSED")
    assert "finding  … and 3 more" in render(broken(limit=1), "text")


def test_json_is_the_published_document():
    assert json.loads(render(broken(), "json")) == broken().to_json()
    assert "\n" not in render(broken(), "json")


def test_github_annotates_the_line_of_the_record():
    lines = render(broken(), "github").split("\n")
    assert lines[0] == (
        "::error file=chats.jsonl,line=7,title=position.reset::a.parquet, row 3, "
        "sample 1 ('cat'), token 23, chats.jsonl:7: position_ids is 0 at token 23"
    )
    assert lines[2] == "::error title=conservation::dataset: 9 packs, 8 expected"
    assert lines[-1] == "verdict  FAILED"
    assert sum(line.startswith("::error ") for line in lines) == 4
    assert not any(line.startswith("::") for line in render(GOOD, "github").split("\n"))


def test_github_escapes_as_the_runner_unescapes():
    finding = Finding("position.reset", "50%\r\nnext", source="a,b:c.jsonl:7")
    verdict = Verdict()
    verdict.add(finding)
    (line,) = [x for x in render(verdict, "github").split("\n") if x.startswith("::")]
    assert line == (
        "::error file=a%2Cb%3Ac.jsonl,line=7,title=position.reset::"
        "dataset, a,b:c.jsonl:7: 50%25%0D%0Anext"
    )


def test_the_summary_names_rules_with_their_law():
    page = summary(broken())
    assert page.startswith("### packcli verify: FAILED\n")
    row = "| `position.reset` | 2 | "
    (line,) = [line for line in page.split("\n") if line.startswith(row)]
    assert "position\\_ids counts 0, 1, 2, … from every boundary" in line
    assert summary(GOOD).startswith("### packcli verify: passed\n")


def test_junit_has_a_case_for_each_rule_in_each_shard():
    root = ET.fromstring(render(broken(), "junit"))  # noqa: S314 - our own output
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["a.parquet", "b.parquet", "dataset"]
    for name in ("a.parquet", "b.parquet"):
        codes = [case.get("name") for case in suites[name]]
        assert codes == [rule.code for rule in RULES]
        assert suites[name].get("failures") == "1"
        assert suites[name].get("skipped") == "1"
    cases = {case.get("name"): case for case in suites["dataset"]}
    assert len(cases) == len(BY_CODE) - len(RULES)
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"conservation", "isolation.attention"}
    failure = suites["a.parquet"].find("testcase[@name='position.reset']/failure")
    assert failure.get("type") == "position.reset"
    assert failure.text.startswith("a.parquet, row 3, sample 1 ('cat'), token 23, chats.jsonl:7")
    assert failure.text.endswith(f"remedy: {BY_CODE['position.reset'].remedy}")
    good = ET.fromstring(render(GOOD, "junit"))  # noqa: S314 - our own output
    assert {suite.get("failures") for suite in good} == {"0"}


def unrun(verdict):
    suite = ET.fromstring(render(verdict, "junit"))[-1]  # noqa: S314 - our own output
    return {c.get("name"): c[0].get("message") for c in suite if c.find("skipped") is not None}


def test_junit_passes_no_rule_that_did_not_run():
    verdict = Verdict("contract")
    source = dict.fromkeys(COMPARED, "needs the source, by --input or --against")
    kinds = ("attention", "windows", "state", "conv", "model", "control")
    proofs = [f"isolation.{kind}" for kind in kinds] + ["model.slots"]
    unproven = dict.fromkeys(proofs, "no proof of this kind at level contract")
    assert unrun(verdict) == source | unproven
    verdict.checked["compared"] += 0
    verdict.proofs += broken().proofs
    assert unrun(verdict).keys() == unproven.keys() - {"isolation.attention", "isolation.control"}
    verdict.proofs.append({**verdict.proofs[0], "kind": "model"})
    left = {"isolation.windows", "isolation.state", "isolation.conv"}
    assert unrun(verdict).keys() == left


def test_junit_counts_what_is_not_kept():
    root = ET.fromstring(render(broken(limit=1), "junit"))  # noqa: S314 - our own output
    failure = root.find("testsuite[@name='b.parquet']/testcase[@name='position.reset']/failure")
    assert failure.text.startswith("… 1 more")


def test_sarif_names_rules_and_lines():
    document = json.loads(render(broken(), "sarif"))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(BY_CODE)
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
    first = run["results"][0]
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "position.reset"
    physical = first["locations"][0]["physicalLocation"]
    assert physical == {"artifactLocation": {"uri": "chats.jsonl"}, "region": {"startLine": 7}}
    last = run["results"][3]["locations"][0]["physicalLocation"]
    assert last == {"artifactLocation": {"uri": "b.parquet"}}
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]


@pytest.mark.parametrize("form", FORMATS)
def test_data_steers_neither_a_terminal_nor_a_runner(form):
    text = render(evil(), form)
    assert not set(text) & set("\x1b\r\u202e\u2028")
    assert "##[" not in text
    own = {"github": 1}.get(form, 0)
    lines = text.split("\n")
    assert sum(line.lstrip().startswith("::") for line in lines) == own
    if form == "github":
        assert lines[0].startswith("::error file=")
        # the runner reads properties up to the next "::", which must be ours
        properties, _, data = lines[0].removeprefix("::").partition("::")
        assert properties.endswith(",line=7,title=position.reset")
        assert data.endswith("|<b>\\u202e\\u2028")
    if form == "json":
        assert json.loads(text)["findings"][0]["sample_id"] == EVIL
    if form == "junit":
        ET.fromstring(text)  # noqa: S314 - our own output
    page = summary(evil())
    assert not set(page) & set("\x1b\r\u202e\u2028")
    assert "<b>" not in page


def test_readable_text_stays_readable():
    assert plain("Ünïcode 漢字 🙂 50% a:b") == "Ünïcode 漢字 🙂 50% a:b"
    assert plain("\ud800\x00\x9b") == "\\ud800\\x00\\x9b"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.jsonl:7", ("a.jsonl", "7")),
        ("c:/x:y.jsonl:12", ("c:/x:y.jsonl", "12")),
        ("a.jsonl", ("a.jsonl", None)),
        ("", (None, None)),
        (None, (None, None)),
    ],
)
def test_sources_are_split_at_the_last_colon(source, expected):
    assert place(source) == expected


def verify(*arguments, **environment):
    done = CliRunner().invoke(command, [str(one) for one in arguments], env=environment)
    return done.exit_code, done.output


def test_the_command_writes_each_format(sample_data):
    path = sample_data / "broken" / "position.reset"
    for form in FORMATS:
        status, output = verify(path, "--level", "contract", "--output-format", form)
        assert status == 1
        assert "position.reset" in output
    as_json = verify(path, "--level", "contract", "--json")
    assert json.loads(as_json[1])["counts"] == {"position.reset": 1}
    status, output = verify(path, "--level", "contract", "--max-findings", 1)
    assert (status, output.count("finding  ")) == (1, 1)


def test_the_step_summary_is_appended(sample_data, tmp_path):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    path = sample_data / "good_text"
    status, _ = verify(
        path, "--level", "contract", "--output-format", "github", GITHUB_STEP_SUMMARY=str(page)
    )
    assert status == 0
    assert page.read_text().startswith("before\n### packcli verify: passed\n")
    verify(path, "--level", "contract", GITHUB_STEP_SUMMARY=str(page))
    assert page.read_text().count("###") == 1


def test_the_command_runs_a_model(sample_data):
    model = sample_data / "models" / "text"
    path = sample_data / "broken" / "isolation.model"
    status, output = verify(path, "--level", "model", "--model", model)
    assert status == 1
    assert "finding  isolation.attention: " in output
    assert "finding  isolation.model: " in output
    assert "model     Qwen3ForCausalLM, sdpa (transformers " in output


def test_the_command_encodes_again(sample_data, tmp_path):
    records = tmp_path / "chats.jsonl"
    whole = (sample_data / "chats.jsonl").read_bytes()
    arguments = [
        *(sample_data / "good", "--level", "contract", "--input", records),
        *("--model", sample_data / "models" / "qwen2_5_vl", "--media-root", sample_data),
    ]
    records.write_bytes(whole)
    assert verify(*arguments) == (0, verify(*arguments)[1])
    records.write_bytes(whole.replace(b"The red circle.", b"The rad circle.", 1))
    status, output = verify(*arguments)
    assert status == 1
    (line,) = [line for line in output.split("\n") if line.startswith("finding")]
    assert line.startswith("finding  sample.changed: train-00000-of-00001.parquet, row ")
    assert "'shapes-left-right'), chats.jsonl:3: " in line


def test_encoding_again_needs_a_model(sample_data):
    records = sample_data / "chats.jsonl"
    done = CliRunner().invoke(
        command, [str(sample_data / "good"), "--level", "contract", "--input", str(records)]
    )
    assert "name the model directory with --model" in str(done.exception)


def test_the_command_compares_with_encoded_shards(sample_data):
    missing = sample_data / "broken" / "sample.missing"
    status, output = verify(missing, "--level", "contract", "--against", sample_data / "good_text")
    assert status == 1
    assert output.count("finding  sample.missing: ") >= 1
