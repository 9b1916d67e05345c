import json as stdlib_json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import InputError, Rejection
from packcli.encode.inputs import json
from packcli.encode.records.raw import parse

VALUES = [{"a": '[{,"\\'}, {"b": [1, {"c": "é\n"}]}, {}, {"d": "]"}]


def read(path, target=10**9):
    return [r for part in json.ranges(path, target) for r in json.records(path, part)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_elements_whatever_the_layout(tmp_path, monkeypatch, indent, chunk):
    monkeypatch.setattr(json, "_CHUNK", chunk)
    monkeypatch.setattr(json, "_is_array", lambda path: True)
    path = tmp_path / "a.json"
    text = stdlib_json.dumps(VALUES, indent=indent, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    found = read(path)
    assert [parse(r) for r in found] == VALUES
    content = path.read_bytes()
    for record in found:
        assert content[record.offset :].startswith(record.raw)
        assert record.line == content[: record.offset].count(b"\n") + 1


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.sampled_from([None, 1]))
def test_any_cut_gives_the_elements_of_the_whole(tmp_path_factory, target, indent):
    path = tmp_path_factory.mktemp("cut") / "a.json"
    path.write_text(stdlib_json.dumps(VALUES * 3, indent=indent))
    assert read(path, target) == read(path)


def test_a_broken_element_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"a":1}, {"b":nope}, 5, {"c":3}]')
    outcomes = []
    for record in read(path):
        try:
            outcomes.append(parse(record))
        except Rejection as rejection:
            outcomes.append(rejection.code)
    assert outcomes == [{"a": 1}, "bad_json", "bad_record", {"c": 3}]


@pytest.mark.parametrize(
    "text", [b'[{"a":1},{"b":', b'[{"a":1},', b'[{"a":1}', b'[{"a":1},{"b":"x']
)
def test_a_cut_file_is_told(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    *_, last = read(path)
    assert last.fault == "the file ends inside the array: it was cut; copy it again"
    with pytest.raises(Rejection, match="bad_json"):
        parse(last)


@pytest.mark.parametrize(
    ("text", "good", "line"),
    [
        (b'[{"a":1},\n{"b":2},\n]', 2, 3),
        (b'[{"a":1},,{"b":2}]', 2, 1),
        (b'[\n,{"a":1}]', 1, 2),
        (b"[,]", 0, 1),
    ],
)
def test_a_stray_comma_is_told_and_spoils_nothing(tmp_path, text, good, line):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    for target in (10**9, 1):
        records = read(path, target)
        assert sum(record.fault is None for record in records) == good
        faults = [record for record in records if record.fault is not None]
        assert {f.fault for f in faults} == {
            "a comma without an element behind or before it; drop the comma"
        }
        assert faults[0].line == line
        assert not any(record.blank for record in records)
        with pytest.raises(Rejection, match="bad_json"):
            parse(faults[0])


def test_text_behind_the_array_is_told(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"a":1}]\n{"b":2}\n')
    first, last = read(path)
    assert first.raw == b'{"a":1}'
    assert (last.fault, last.line) == ("there is text after the end of the array; drop it", 2)


@pytest.mark.parametrize("text", [b"[]", b"\xef\xbb\xbf [ \n ]\n"])
def test_an_empty_array_has_no_records(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text)
    assert read(path) == []


def test_lines_in_a_json_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    assert [r.raw for r in read(path)] == [b'{"a":1}', b'{"b":2}']


def test_an_endless_element_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json, "RECORD_LIMIT", 100)
    monkeypatch.setattr(json, "_CHUNK", 50)
    monkeypatch.setattr(json, "_is_array", lambda path: True)
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"a":"' + b"x" * 500 + b'"}]')
    with pytest.raises(InputError, match="exceeds 100 bytes; use JSON Lines"):
        read(path)
