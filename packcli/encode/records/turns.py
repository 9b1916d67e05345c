"""One message, in any of its forms, becomes a turn."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.records.agreement import agreed
from packcli.encode.records.conversation import JsonObject, Kind, Part, Role, Turn
from packcli.encode.records.media_refs import find_ref, read_options

if TYPE_CHECKING:
    from packcli.encode.records.media_refs import MediaSupply

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "tool_call": "assistant",
    "tool": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "function": "tool",
}
CALL_ROLES = frozenset({"function_call", "tool_call"})

_TAG = re.compile("<(image|video)>")
_PART_KINDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "video": "video",
    "video_url": "video",
    "input_video": "video",
}
_LARGEST_WEIGHT = 1e30
"""Weights are stored with 32 bits, which hold a little more."""
_REASONING = ("reasoning_content", "thinking", "reasoning")
_WEIGHTS = ("loss_scale", "weight")
_CONTENTS, _TEXTS = ("content", "value"), ("text", "value")
_ROLES = ("role", "from")


def read_turn(message: JsonObject, where: str, supply: MediaSupply) -> Turn:
    """Read a message, and take its media from the record's supply.

    Raises:
        Rejection: `bad_role`, `bad_record` or `bad_media_ref`.
    """
    alias = _role_name(message, where)
    role = ROLES[alias]
    content = _written(message, _CONTENTS, where)
    if alias in CALL_ROLES:
        turn_content, calls = "", _calls_from_text(content, where)
    else:
        turn_content = _content(content, role, where, supply)
        calls = _tool_calls(message, where) if role == "assistant" else None
    return Turn(
        role,
        turn_content,
        calls,
        reasoning_content=_reasoning(message, where) if role == "assistant" else None,
        name=_text_or_none(message, "name"),
        tool_call_id=_text_or_none(message, "tool_call_id"),
        loss=_loss(message, where),
        weight=_weight(message, where),
    )


def is_call(message: object) -> bool:
    """Whether a message is a call turn (ShareGPT, ms-swift), which joins its neighbours."""
    return isinstance(message, dict) and _given_role(cast("JsonObject", message)) in CALL_ROLES


def _given_role(message: JsonObject) -> object:
    return message.get("role") or message.get("from")


def _role_name(message: JsonObject, where: str) -> str:
    role = _given_role(message)
    if isinstance(role, str) and role in ROLES:
        given = {key: message.get(key) for key in _ROLES}
        agreed({k: ROLES[v] for k, v in given.items() if isinstance(v, str) and v in ROLES}, where)
        return role
    known = "system, user, assistant, tool or an alias of them"
    found = "has no role" if role is None else f"has the unknown role {role!r:.40}"
    raise Rejection("bad_role", f"{where} {found}; use {known}")


def _content(
    content: object, role: Role, where: str, supply: MediaSupply
) -> str | tuple[Part, ...]:
    if content is None:
        if role == "assistant":
            return ""
        raise Rejection("bad_record", f"{where}: the {role} turn has no content; give text")
    if isinstance(content, str):
        return content if role == "assistant" else _split_tags(content, supply)
    parts = [content] if isinstance(content, dict) else content
    if not isinstance(parts, list):
        raise Rejection("bad_record", f"{where}: content is {content!r:.40}; give text or parts")
    return tuple(_part(part, where, supply) for part in cast("list[object]", parts))


def _split_tags(text: str, supply: MediaSupply) -> str | tuple[Part, ...]:
    """Cut at every tag; a text without one stays a string."""
    if "<image>" not in text and "<video>" not in text:
        return text
    parts: list[Part] = []
    for place, piece in enumerate(_TAG.split(text)):
        if place % 2:
            kind = cast("Kind", piece)
            supply.take(kind)
            parts.append(Part(kind))
        elif piece:
            parts.append(Part("text", piece))
    return tuple(parts)


def _part(part: object, where: str, supply: MediaSupply) -> Part:
    if isinstance(part, str):
        return Part("text", part)
    if not isinstance(part, dict):
        raise Rejection("bad_record", f"{where}: a content part is {part!r:.40}; give an object")
    fields = cast("JsonObject", part)
    kind = _part_kind(fields, where)
    if others := {_PART_KINDS[key] for key in _PART_KINDS if fields.get(key)} - {kind}:
        told = f"{where}: a part of {kind} also holds {' and '.join(sorted(others))}"
        raise Rejection("bad_record", f"{told}; make each a part of its own")
    if kind == "text":
        text = _written(fields, _TEXTS, where)
        if not isinstance(text, str):
            raise Rejection("bad_record", f"{where}: a text part holds {text!r:.40}; give text")
        return Part("text", text)
    ref = find_ref(fields, kind)
    if ref is None:
        supply.take(kind, read_options(fields))
    else:
        supply.place(ref)
    return Part(kind)


def _part_kind(part: JsonObject, where: str) -> Any:  # noqa: ANN401 - a literal out of the table
    named = part.get("type")
    if named is None:
        named = next((key for key in _PART_KINDS if part.get(key) is not None), None)
    if isinstance(named, str) and named in _PART_KINDS:
        return _PART_KINDS[named]
    message = f"{where}: a content part has the type {named!r:.40}; use text, image or video"
    raise Rejection("bad_record", message)


def _tool_calls(message: JsonObject, where: str) -> list[JsonObject] | None:
    calls = message.get("tool_calls")
    if calls is None and isinstance(message.get("function_call"), dict):
        calls = [{"type": "function", "function": message["function_call"]}]
    if isinstance(calls, str):
        calls = read_json(calls, f"{where}: tool_calls") if calls.strip() else None
    if not calls:
        return None
    if not isinstance(calls, list):
        raise Rejection("bad_record", f"{where}: tool_calls is {calls!r:.40}; give a list")
    for call in cast("list[object]", calls):
        if call_name(call) is None:
            raise Rejection("bad_record", f"{where}: a tool call without a function name; add it")
    return [drop_nulls(call) for call in cast("list[JsonObject]", calls)]


def drop_nulls(call: JsonObject) -> JsonObject:
    """Leave out keys that are null, as chat templates tell absent from null badly."""
    return {key: value for key, value in call.items() if value is not None}


def call_name(call: object) -> str | None:
    """Return the function's name of a tool call, nested (OpenAI) or flat."""
    if not isinstance(call, dict):
        return None
    fields = cast("JsonObject", call)
    inner = fields.get("function")
    name = inner.get("name") if isinstance(inner, dict) else fields.get("name")
    return name if isinstance(name, str) and name else None


def _calls_from_text(content: object, where: str) -> list[JsonObject]:
    """Read a call turn: JSON text (or an object) with name and arguments, or a list of them."""
    value = read_json(content, f"{where}: the call") if isinstance(content, str) else content
    calls = cast("list[object]", value if isinstance(value, list) else [value])
    if not calls or any(call_name(call) is None for call in calls):
        raise Rejection("bad_record", f"{where}: the call has no name; write name and arguments")
    return [
        call if "function" in call else {"type": "function", "function": call}
        for call in cast("list[JsonObject]", calls)
    ]


def read_json(text: str, where: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON that stands inside a string.

    Raises:
        Rejection: `bad_record`, it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Rejection(
            "bad_record", f"{where} is not JSON: {error!s:.80}; mend the text"
        ) from None


def _reasoning(message: JsonObject, where: str) -> str | None:
    given = {key: m for key in _REASONING if isinstance(m := message.get(key), str)}
    return agreed({key: m for key, m in given.items() if m.strip()} or given, where)


def _written(source: JsonObject, names: tuple[str, str], where: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return what is written under either name; a number under the other is something else."""
    given = {k: source[k] for k in names if isinstance(source.get(k), str | list | dict)}
    given = {name: value for name, value in given.items() if value} or given
    first, other = (source.get(name) for name in names)
    return agreed(given, where) if given else (other if first is None else first)


def _text_or_none(message: JsonObject, key: str) -> str | None:
    value = message.get(key)
    return value if isinstance(value, str) else None


def _loss(message: JsonObject, where: str) -> bool | None:
    loss = message.get("loss")
    if loss is None or isinstance(loss, bool):
        return loss
    raise Rejection("bad_record", f"{where}: loss is {loss!r:.40}; give true or false")


def _weight(message: JsonObject, where: str) -> float | None:
    value = agreed({k: message[k] for k in _WEIGHTS if message.get(k) is not None}, where)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= _LARGEST_WEIGHT:
        return float(value)
    expected = "give a number from 0 to 1e30"
    raise Rejection("bad_record", f"{where}: the loss weight is {value!r:.40}; {expected}")
