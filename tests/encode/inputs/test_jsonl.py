import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.encode import inputs
from packcli.encode.inputs import jsonl
from packcli.encode.records.raw import ByteRange


def read(path, target=10**9):
    return [r for part in jsonl.ranges(path, target) for r in jsonl.records(path, part)]


def test_bom_crlf_blank_lines_and_no_final_newline(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\r\n   \n{"b":2}')
    found = read(path)
    assert [(r.line, r.offset, r.raw, r.blank) for r in found] == [
        (1, 3, b'{"a":1}', False),
        (2, 12, b"", True),
        (3, 14, b"   ", True),
        (4, 18, b'{"b":2}', False),
    ]


def test_empty_file_has_no_range(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    assert jsonl.ranges(path, 5) == []


def test_ranges_count_newlines_before_them(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"aa\nbb\ncc\n")
    assert jsonl.ranges(path, 4) == [ByteRange(0, 4, 0), ByteRange(4, 8, 1), ByteRange(8, 9, 2)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"x", b"yy", b"\xef\xbb\xbf"]), max_size=30),
    st.integers(1, 12),
)
def test_any_cut_gives_the_lines_of_the_whole(tmp_path_factory, pieces, target):
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    path.write_bytes(b"".join(pieces))
    whole = read(path)
    assert read(path, target) == whole
    content = b"".join(pieces)
    assert [r.line for r in whole] == list(range(1, len(whole) + 1))
    for record in whole:
        assert content[record.offset :].startswith(record.raw)


def test_a_line_beyond_the_limit_is_a_fault_and_the_next_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl, "RECORD_LIMIT", 8)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 20 + b"\n{}\n")
    first, second = read(path)
    assert first.fault == "the line has 21 bytes, more than 8; split the record"
    assert (second.line, second.offset, second.raw) == (2, 21, b"{}")


def test_reader_is_chosen_by_suffix(tmp_path):
    assert inputs.reader_for(tmp_path / "A.JSONL").SUFFIXES == (".jsonl", ".ndjson")
    assert inputs.reader_for(tmp_path / "a.json").SUFFIXES == (".json",)


def test_unknown_suffix_names_the_known_ones(tmp_path):
    with pytest.raises(inputs.InputError, match=r"\.json, \.jsonl"):
        inputs.reader_for(tmp_path / "a.xlsx")
