import math

import pytest

from packcli.contract.errors import Rejection
from packcli.encode.records.raw import RawRecord, parse


def read(raw):
    return parse(RawRecord(1, 0, raw))


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"a": ', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b'{"a":"caf\xe9"}', "bad_utf8"),
        (b'{"a":"\\ud83d"}', "bad_unicode"),
        (b'{"a":["\\udc00x"]}', "bad_unicode"),
        (b"[1]", "bad_record"),
        (b"null", "bad_record"),
        (b'"a"', "bad_record"),
        (b"3", "bad_record"),
    ],
)
def test_each_fault_has_its_code(raw, code):
    with pytest.raises(Rejection) as caught:
        read(raw)
    assert caught.value.code == code


def test_numbers_beyond_json_are_kept():
    found = read(b'{"a": 1180591620717411303424, "b": 1e400, "c": NaN, "d": -9223372036854775809}')
    assert found["a"] == 2**70
    assert found["b"] == math.inf
    assert math.isnan(found["c"])
    assert found["d"] == -(2**63) - 1


def test_giant_integer_is_kept_as_its_digits():
    assert read(b'{"a": ' + b"7" * 5000 + b"}") == {"a": "7" * 5000}


def test_surrogate_pairs_are_characters():
    assert read(b'{"a": "\\ud83d\\ude00", "b": NaN}')["a"] == "\U0001f600"


def test_a_known_fault_is_bad_json():
    with pytest.raises(Rejection, match="bad_json: cut"):
        parse(RawRecord(1, 0, b"{}", "cut"))
