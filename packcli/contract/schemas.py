"""JSON Schemas (draft 2020-12) built from the code: the column table, dataclasses, docstrings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from inspect import getdoc
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_type_hints,
    is_typeddict,
)
from typing import get_args as arguments
from typing import get_origin as origin

import numpy as np

from packcli.contract.columns import COLUMNS, FORBIDDEN, Axis, Column, Need
from packcli.contract.rejections import REJECTIONS, RejectedLine
from packcli.contract.rows import expected_dtype
from packcli.contract.rules import BY_CODE
from packcli.contract.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema: TypeAlias = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
}


def titled(name: str, body: Schema) -> Schema:
    """Make a document of a schema.

    Args:
        name: under which it is published.
        body: the schema.
    """
    return {"$schema": _DIALECT, "title": f"packcli {name}"} | body


def pack() -> Schema:
    """Schema of one row of a shard, read as plain values."""
    properties: Schema = {}
    for column in COLUMNS:
        name, _, inner = column.name.partition(".")
        if not inner:
            properties[name] = _column(column)
            continue
        items = properties.setdefault(name, _structs(column))["items"]
        items["properties"][inner] = _element(column) | _notes(column)
        items["required"].append(inner)
    barred: Schema = {name: {"not": {}, "description": why} for name, why in FORBIDDEN.items()}
    together = _fields(Need.MEDIA)
    return {
        "description": "One pack: one row of a shard. x-need names the models whose shards hold it",
        "type": "object",
        "properties": properties | barred,
        "required": _fields(Need.ALWAYS),
        "dependentRequired": {name: [n for n in together if n != name] for name in together},
    }


def _structs(column: Column) -> Schema:
    items = _object({}, f"one {column.axis}")
    words = "images and videos, in the order in which the slots stand"
    return _array(items) | {"description": words, "x-need": column.need}


def _fields(need: Need) -> list[str]:
    return list(dict.fromkeys(c.name.partition(".")[0] for c in COLUMNS if c.need is need))


def _column(column: Column) -> Schema:
    body = _element(column)
    if column.width > 1 and column.dtype != "digest":
        body = _array(body, column.width)
    if column.axis is not Axis.PACK:
        body = _array(body)
    return (_array(body, column.planes) if column.planes > 1 else body) | _notes(column)


def _notes(column: Column) -> Schema:
    notes: Schema = {"description": column.meaning, "x-type": expected_dtype(column)}
    if "." in column.name:
        notes["x-type"] = column.dtype
    notes |= {"x-axis": column.axis, "x-need": column.need}
    return notes | ({"x-derived": True} if column.derived else {})


def _element(column: Column) -> Schema:
    if column.dtype == "digest":
        return {"type": "string", "pattern": "^[0-9a-f]{32}$"}
    if column.dtype.startswith("list<"):
        return _array(_number(column.dtype[5:-1]))
    return {"type": "string"} if column.dtype == "string" else _number(column.dtype)


def _number(dtype: str) -> Schema:
    if np.dtype(dtype).kind == "f":
        return {"type": "number"}
    limits = np.iinfo(dtype)
    return {"type": "integer", "minimum": int(limits.min), "maximum": int(limits.max)}


def _array(items: Schema, size: int | None = None) -> Schema:
    sized: Schema = {} if size is None else {"minItems": size, "maxItems": size}
    return {"type": "array", "items": items} | sized


def verdict() -> Schema:
    """Schema of what `packcli verify --json` prints."""
    codes = list(BY_CODE)
    body = document(Verdict, Verdict().to_json())
    properties = body["properties"]
    properties["findings"]["items"]["properties"]["code"]["enum"] = codes
    properties["counts"]["propertyNames"] = {"enum": codes}
    return body


def rejection() -> Schema:
    """Schema of a line of ``rejected.jsonl``."""
    body = of_type(RejectedLine)
    body["properties"]["code"]["enum"] = list(REJECTIONS)
    return body


def document(
    kind: type, example: Mapping[str, object], told: Mapping[str, Schema] | None = None
) -> Schema:
    """Schema of what the `to_json` of a class returns.

    A field's type is its annotation, else that of its value in the example; its description is
    its line in the docstring, else that of the property of its name.

    Args:
        kind: the class.
        example: what `to_json` of any instance returns.
        told: what the code cannot tell, by field; it comes before what the code tells.
    """
    hints, words = _hints(kind), _words(kind)
    properties: Schema = {}
    for name, value in example.items():
        body = of_type(hints.get(name, type(value)))
        spoken: Schema = {"description": words[name]} if name in words else {}
        properties[name] = spoken | body | (told or {}).get(name, {})
    return _object(properties, _summary(kind))


def of_type(annotation: Any) -> Schema:  # noqa: ANN401 - any annotation
    """Schema of the values that an annotation allows, as they stand in JSON."""
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return {"type": "string", "enum": [str(member) for member in annotation]}
    if is_dataclass(annotation) or is_typeddict(annotation):
        return _fielded(annotation)
    return _generic(annotation)


def _generic(annotation: Any) -> Schema:  # noqa: ANN401 - any annotation
    of, inner = origin(annotation) or annotation, arguments(annotation)
    if of in (Union, UnionType):
        return {"anyOf": [of_type(one) for one in inner]}
    if of is Literal:
        return {"enum": [*inner]}
    if of in (list, tuple):
        return _array(of_type(inner[0] if inner else Any))
    if of is Counter:
        return {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    if of is dict:
        return {"type": "object", "additionalProperties": of_type(inner[1] if inner else Any)}
    raise TypeError(f"{annotation} has no JSON schema; tell it")


def _reads(kind: Any) -> bool:  # noqa: ANN401 - a dataclass or TypedDict
    return is_dataclass(kind) and hasattr(kind, "from_json")


def _fielded(kind: Any) -> Schema:  # noqa: ANN401 - a dataclass or TypedDict
    words = _words(kind)
    properties: Schema = {}
    optional: list[str] = []
    # what a class leaves out where it is as usual, it reads back as usual
    usual = {f.name for f in fields(kind) if f.default is not MISSING} if _reads(kind) else set()
    for name, hint in get_type_hints(kind, include_extras=True).items():
        optional += [name] if origin(hint) is NotRequired or name in usual else []
        plain = arguments(hint)[0] if origin(hint) is NotRequired else hint
        properties[name] = of_type(plain) | {"description": words[name]}
    body = _object(properties, _summary(kind))
    body["required"] = [name for name in properties if name not in optional]
    return body


def _object(properties: Schema, description: str) -> Schema:
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _hints(kind: type) -> dict[str, Any]:
    """Annotations of a class; none where they name what only a type checker imports."""
    try:
        return get_type_hints(kind)
    except NameError:
        return {}


def _summary(documented: object) -> str:
    return _plain((getdoc(documented) or "").partition("\n")[0])


def _plain(text: str) -> str:
    """Say a docstring's words for readers of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.replace("``", "`").split()))


def _words(kind: type) -> dict[str, str]:
    """What a docstring says of each attribute, and properties of themselves."""
    words = {
        name: _summary(member)
        for name, member in vars(kind).items()
        if isinstance(member, property)
    }
    section = (getdoc(kind) or "").partition("\nAttributes:\n")[2]
    for entry in re.split(r"\n {4}(?=\w)", "\n" + section):
        name, colon, text = entry.partition(":")
        if colon:
            words[name.strip()] = _plain(text)
    return words
