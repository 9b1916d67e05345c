"""`packcli lint`, and `packcli encode --dry-run`: what encode would do, and nothing written."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "sample_data"
GOOD = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "in" / "a.jsonl"
    path.parent.mkdir()
    lines = [json.dumps(GOOD), '{"id": "\x1b[2J"', "", json.dumps(GOOD), json.dumps({"a": 1})]
    path.write_text("\n".join(lines) + "\n")
    return path


MODEL = ("--model", DATA / "models" / "text", "--no-progress")


def test_lint_names_every_bad_record(call, records):
    ended = call("lint", records, *MODEL)
    assert ended.status == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith("a.jsonl:2: not valid JSON")
    assert lines[0].endswith("[bad_json]")
    assert lines[1].startswith("a.jsonl:5: no known shape: found a")
    assert lines[2] == "4 records: 2 good, 2 bad"
    assert "50.00 %, allowed 1.00 %" in ended.err
    assert sorted(path.name for path in records.parent.iterdir()) == ["a.jsonl"]
    assert call("lint", records, *MODEL, "--max-reject-rate", 0.5).status == 0


def test_warnings_say_what_to_do(call, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD | {"query": "q", "response": "r", "id": "a"}) + "\n")
    line = "warning  1 second_shape_ignored: a record has several shapes; the first of messages, "
    for ended in (call("lint", path, *MODEL), call("encode", path, *MODEL, "--dry-run")):
        assert ended.status == 0
        (told,) = [told for told in ended.out.splitlines() if told.startswith("warning  ")]
        assert told.startswith(line)
        assert told.endswith("; drop the keys of the others")


def test_lint_names_what_is_warned_of(call, tmp_path):
    twice = GOOD | {"query": "q", "response": "r"}
    records = [twice | {"id": "a"}, GOOD | {"id": "b"}, {"a": 1}, twice | {"id": "a"}, twice]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    flags = (path, *MODEL, "--max-reject-rate", 1)
    ended = call("lint", *flags)
    assert ended.status == 0
    shape = "a record has several shapes"
    assert [line[:59] for line in ended.out.splitlines() if line.startswith("warning: ")] == [
        f"warning: a.jsonl:1: {shape}; the first ",
        f"warning: a.jsonl:4: {shape}; the first ",
        "warning: a.jsonl:4: a sample has the id of one before it [d",
        f"warning: a.jsonl:5: {shape}; the first ",
    ]
    assert "… and 2 more" in call("lint", *flags, "--max-findings", 2).out
    shown = call("lint", *flags, "--json").document
    assert shown["warnings"] == {"duplicate_id": 1, "second_shape_ignored": 3}
    assert [(w["line"], w["id"], w["code"]) for w in shown["warned"]] == [
        (1, "a", "second_shape_ignored"),
        (4, "a", "second_shape_ignored"),
        (4, None, "duplicate_id"),
        (5, None, "second_shape_ignored"),
    ]
    assert len(call("lint", *flags, "--json", "--max-findings", 1).document["warned"]) == 1
    for more in (("--dry-run",), ("-o", tmp_path / "out")):
        encoded = call("encode", *flags, *more)
        assert "`packcli lint` names the records that are warned of" in encoded.out
        assert call("encode", *flags, *more, "--json", "--overwrite").document[
            "warnings"] == shown["warnings"]  # fmt: skip


def test_lint_does_not_depend_on_workers(call, tmp_path, monkeypatch):
    monkeypatch.setattr("packcli.encode.run.PART_BYTES", 200)
    path = tmp_path / "a.jsonl"
    records = [GOOD | {"query": "q", "response": "r", "id": n % 5} for n in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    one, two = (call("lint", path, *MODEL, "--json", "--num-proc", n).document for n in (1, 2))
    assert one == two
    assert one["warnings"] == {"duplicate_id": 15, "second_shape_ignored": 20}


def test_lint_embeds_as_encode_does(call, tmp_path):
    held = {"bytes": base64.b64encode((DATA / "media" / "dot.png").read_bytes()).decode()}
    path = tmp_path / "a.jsonl"
    asked = {"role": "user", "content": "<image>?"}
    record = {"messages": [asked, *GOOD["messages"][1:]], "images": [held]}
    path.write_text(json.dumps(record) + "\n")
    flags = (path, "--model", DATA / "models" / "qwen3_vl", "--no-progress", "--json")
    assert call("lint", *flags).document["warnings"] == {"media_bytes_not_kept": 1}
    assert call("lint", *flags, "--embed-media").document["warnings"] == {}
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


def test_lint_as_json(call, records):
    ended = call("lint", records, *MODEL, "--json", "--max-findings", 1, "--limit", 3)
    assert (ended.document["records"], ended.document["rejected"]) == (3, 1)
    (finding,) = ended.document["findings"]
    assert (finding["file"], finding["line"], finding["code"]) == ("a.jsonl", 2, "bad_json")


def test_lint_says_how_many_it_left_out(call, records):
    shown = call("lint", records, *MODEL, "--max-findings", 1).out
    assert "… and 1 more; --max-findings 0 names all" in shown
    assert call("lint", records, *MODEL, "--max-findings", 0).out.count("[bad_") == 2


def test_lint_gives_the_reasons_of_encode(call, tmp_path):
    bad = DATA / "bad_records"
    files = sorted(bad.rglob("*.jsonl"))
    assert files
    for path in files[:6]:
        flags = ("--model", DATA / "models" / "qwen3_vl", "--no-progress", "--json")
        linted = call("lint", path, *flags).document
        encoded = call("encode", path, *flags, "-o", tmp_path / path.parent.name).document
        assert linted["reasons"] == encoded["reasons"]


def test_a_dry_run_writes_nothing(call, records, tmp_path):
    shown = call("encode", records, *MODEL, "--dry-run", "--max-reject-rate", 1)
    assert shown.status == 0
    assert "encoded  2 of 4 records, nothing written" in shown.out
    assert "up to    samples" in shown.out
    document = call("encode", records, *MODEL, "--dry-run", "--json").document
    assert sum(part["samples"] for part in document["lengths"]) == document["kept"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_encode_without_an_output_is_a_mistake(call, records):
    ended = call("encode", records, *MODEL)
    assert ended.status == 2
    assert "add `-o DIR`, the folder to write, or --dry-run to write nothing" in ended.err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--min-frames", 100, "--max-frames", 2), "min_frames 100 is above max_frames 2"),
        (("--min-pixels", 9, "--max-pixels", 8), "min_pixels 9 is above max_pixels 8"),
        (("--vit-windows", "temporal"), "text has no windows in its vision tower"),
        (("--fps", 1, "--num-frames", 2), "fps and num_frames exclude each other"),
    ],
)
def test_flags_that_cannot_be_are_a_wrong_call(call, records, tmp_path, flags, told):
    for command in (("lint",), ("encode", "-o", tmp_path / "out")):
        ended = call(*command, records, *MODEL, *flags)
        assert ended.status == 2
        assert told in ended.err
    assert not (tmp_path / "out").exists()


def test_one_of_a_thing_is_no_plural(call, records, tmp_path):
    lines = call("encode", records, *MODEL, "--limit", 1, "-o", tmp_path / "out").out.splitlines()
    assert lines[0] == f"encoded  1 of 1 record to {tmp_path / 'out'}"
    assert lines[2] == "media    0 images, 0 videos"
    assert call("lint", records, *MODEL, "--limit", 1).out == "1 record: 1 good, 0 bad\n"


def test_inputs_without_records_are_told(call, tmp_path):
    (tmp_path / "folder").mkdir()
    ended = call("encode", tmp_path / "folder", *MODEL, "-o", tmp_path / "out")
    assert ended.status == 3
    assert "folder: a folder without data files; give one with .json, .jsonl" in ended.err
    (tmp_path / "blank.jsonl").write_text("\n \n")
    for command in (("lint",), ("encode", "--dry-run"), ("encode", "-o", tmp_path / "out")):
        ended = call(*command, tmp_path / "blank.jsonl", *MODEL)
        assert ended.status == 1
        assert ended.err == "packcli: the inputs hold no records; nothing was encoded\n"
    assert call("lint", tmp_path / "blank.jsonl", *MODEL, "--limit", 0).status == 2


@pytest.mark.parametrize("choice", ["auto", "fast", "hf"])
def test_the_tokenizer_flag_reaches_the_job(call, records, monkeypatch, choice):
    seen = []

    def survey(_inputs, job, **_):
        seen.append(job.tokenizer)
        raise SystemExit(0)

    monkeypatch.setattr("packcli.encode.survey.survey", survey)
    call("lint", records, *MODEL, "--tokenizer", choice)
    assert seen == [choice]


def test_a_fault_of_packcli_ends_with_its_own_status(call, records, tmp_path, monkeypatch):
    def fail(_record):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("packcli.encode.encoder.read_record", fail)
    ended = call("encode", records, *MODEL, "-o", tmp_path / "out")
    assert ended.status == 70
    assert "failed itself on 3 records" in ended.err
    first = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()[0]
    assert "a.jsonl:1: packcli failed on it (ZeroDivisionError" in first


def test_progress_tells_rate_and_rejects(call, records, tmp_path, monkeypatch):
    monkeypatch.setattr("packcli.cli.progress._SECONDS", 0.0)
    shown = call("lint", records, *MODEL[:2])
    assert "lint: 1 of 1 part, 4 records, " in shown.err
    assert " a second, 2 rejected" in shown.err
