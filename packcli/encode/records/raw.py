"""Raw records: bytes with their place in a file, and how they become a JSON object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, cast

import orjson

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD_LIMIT = 64 * 2**20
"""Bytes of one record; longer ones are rejected without being held in memory."""

_LONG_NUMBER = b"0" * 19
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_INT_DIGITS = 4000
_TEXT = {str}
_ROW_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_KINDS = {"list": "an array", "str": "a string", "NoneType": "null", "bool": "a truth value"}


class Table(Protocol):
    """Rows of an Arrow table or record batch."""

    @property
    def num_rows(self) -> int: ...  # noqa: D102 - as Arrow has it

    def to_pylist(self) -> list[dict[str, Any]]: ...  # noqa: D102 - as above

    def slice(self, offset: int, length: int) -> Table: ...  # noqa: D102 - as above


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file that is read by itself; a record belongs to it if its first byte does.

    Of a compressed file the bytes are those of its content; of a file of rows, rows stand for
    bytes.

    Attributes:
        start: bytes, the first byte of the range.
        stop: bytes, one past the last byte.
        newlines: how many newlines stand before `start`, so that line numbers stay physical.
    """

    start: int
    stop: int
    newlines: int = 0


@dataclass(slots=True)
class RawRecord:
    """One line of a file, one element of a JSON array, or one row of a table.

    Attributes:
        line: physical line number of the first byte, from 1; of a row its number.
        offset: bytes, where the record starts in the file; of a row those before it.
        raw: the bytes, without the line end; empty for a row.
        fault: what is known to be wrong before parsing (cut, or too long), else None.
        row: the record of a table's row, which needs no parsing; else None.
        code: the rejection of a fault.
    """

    line: int
    offset: int
    raw: bytes
    fault: str | None = None
    row: dict[str, Any] | None = None
    code: str = "bad_json"

    @classmethod
    def of_row(cls, number: int, row: dict[str, Any]) -> RawRecord:
        """Take a row; nulls are what a table's schema puts where a record says nothing."""
        return cls(number + 1, number, b"", row=_without_nulls(row))

    @property
    def blank(self) -> bool:
        """Whether there is nothing but white space: counted, and not a record."""
        raw = self.raw
        return (not raw or raw.isspace()) and self.fault is None and self.row is None

    @property
    def sha256(self) -> str:
        """Hash of the bytes; of a row, of its JSON with hashes for bytes inside."""
        raw = self.raw if self.row is None else orjson.dumps(self.row, _hashed, _ROW_OPTIONS)
        return sha256(raw).hexdigest()


def rows_of(table: Table, first: int) -> Iterator[RawRecord]:
    """Yield the rows of a table; one that Python has no value for costs no other row.

    Args:
        table: rows.
        first: number of the first one.
    """
    try:
        rows = table.to_pylist()
    except (ValueError, OverflowError) as error:
        if table.num_rows > 1:
            for number in range(table.num_rows):
                yield from rows_of(table.slice(number, 1), first + number)
            return
        utf8 = isinstance(error, UnicodeDecodeError)
        fault = f"the row cannot be read: {error!s:.160}; mend or drop it"
        yield RawRecord(first + 1, first, b"", fault, code="bad_utf8" if utf8 else "bad_record")
        return
    for number, row in enumerate(rows, first):
        yield RawRecord.of_row(number, row)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {key: _without_nulls(item) for key, item in fields.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("list[object]", value)]
    return value


def _hashed(value: object) -> str:
    return sha256(value).hexdigest() if isinstance(value, bytes) else str(value)


def parse(record: RawRecord) -> dict[str, Any]:
    """Turn bytes into a JSON object, exactly and without a schema.

    NaN, infinities and integers of any size are kept, as the standard library reads them.

    Raises:
        Rejection: `bad_json`, `bad_utf8`, `bad_unicode` or `bad_record`.
    """
    if record.row is not None:
        return record.row
    if record.fault is not None:
        raise Rejection(record.code, record.fault)
    value = _value(record.raw)
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value).__name__, "a number")
        raise Rejection("bad_record", f"the record is {kind}, not a JSON object; write one object")
    return cast("dict[str, Any]", value)


def _value(raw: bytes) -> object:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _value_by_stdlib(raw)
    # orjson turns integers beyond 64 bits into floats without a word: those go the slow way
    if _only_text(value) or _LONG_NUMBER not in raw.translate(_DIGITS_AS_ZERO):
        return value
    return _value_by_stdlib(raw)


def _only_text(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Whether a record of turns, at first sight, holds no number that may have been cut."""
    if type(value) is not dict:
        return False
    for item in cast("dict[str, Any]", value).values():
        if type(item) is list:
            if not all(map(_of_text, cast("list[Any]", item))):
                return False
        elif type(item) is not str and type(item) is not int:
            return False
    return True


def _of_text(turn: Any) -> bool:  # noqa: ANN401 - any JSON value
    return type(turn) is dict and {*map(type, cast("dict[str, Any]", turn).values())} <= _TEXT


def _value_by_stdlib(raw: bytes) -> object:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejection(
            "bad_utf8", f"byte {error.start} of the record is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        value = json.loads(text, parse_int=_integer)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Rejection("bad_json", "brackets are nested too deeply; flatten the record") from None
    except UnicodeEncodeError:
        raise Rejection(
            "bad_unicode", "a \\u escape is half of a surrogate pair; write the whole character"
        ) from None
    except ValueError as error:
        raise Rejection("bad_json", f"not valid JSON: {error}; mend or drop the line") from None
    return value


def _integer(digits: str) -> int | str:
    """Keep giant integers as text: Python refuses to convert them, and no field needs one."""
    return int(digits) if len(digits) <= _INT_DIGITS else digits
