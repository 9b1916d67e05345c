"""A JSON object of any accepted shape becomes a conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.records.agreement import agreed
from packcli.encode.records.canvases import POSITIONS, tags_of_canvases, with_positions
from packcli.encode.records.conversation import (
    Conversation,
    JsonObject,
    Kind,
    MediaRef,
    Part,
    Turn,
)
from packcli.encode.records.media_refs import OPTION_NAMES, MediaSupply, read_media, read_options
from packcli.encode.records.shapes import read_messages
from packcli.encode.records.turns import is_call, read_json, read_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Conversation", "Kind", "MediaRef", "Part", "Turn", "identity_of", "read_record"]

_CHAT_KEYS = ("messages", "conversations", "conversation", "completion", "response", "output")
_OPTION_SOURCES = ("mm_processor_kwargs", "chat_template_kwargs")
_RESERVED = ("messages", "tools", "add_generation_prompt", "continue_final_message", "documents")
_AUDIO = ("audio", "audios")
_PLAIN_KEYS = 2
_PLAIN_ROLES = ("system", "user", "assistant")
_BEYOND_PLAIN = frozenset(
    {"system", "tools", "image", "images", "video", "videos"}
    | {*_AUDIO, *OPTION_NAMES, *_OPTION_SOURCES}
)
"""Keys beside `messages` that say something about a conversation."""


def read_record(record: JsonObject) -> Conversation:
    """Read a record of any shape.

    Raises:
        Rejection: `bad_record`, `bad_role`, `bad_media_ref`, `tag_count_mismatch`,
            `empty_conversation`, `no_supervised_tokens`, `empty_target` or `zero_length`.
    """
    if (plain := _plain(record)) is not None:
        return plain
    if any(record.get(key) for key in _AUDIO):
        raise Rejection("bad_record", "audio is not supported; drop it or the record")
    if isinstance(record.get("text"), str) and all(record.get(k) is None for k in _CHAT_KEYS):
        return _document(record)
    try:
        messages = read_messages(record)
        supply = _supply(record)
        if record.get(POSITIONS) is not None and not supply.waiting["video"]:
            messages = tags_of_canvases(messages, supply.waiting["image"])
        turns = tuple(_turns(messages, supply))
    except RecursionError:
        raise Rejection("bad_record", "fields are nested too deeply; flatten the record") from None
    supply.check()
    _check(turns)
    return Conversation(
        identity_of(record),
        turns,
        tuple(supply.placed),
        _tools(record.get("tools")),
        _template_kwargs(record),
    )


def _plain(record: JsonObject) -> Conversation | None:
    """Read the most common record the short way: `messages` of role and text, no media."""
    messages = record.get("messages")
    if type(messages) is not list or not record.keys().isdisjoint(_BEYOND_PLAIN):
        return None
    turns: list[Turn] = []
    for message in cast("list[Any]", messages):
        if type(message) is not dict or len(message) != _PLAIN_KEYS:
            return None
        role, content = message.get("role"), message.get("content")
        if role not in _PLAIN_ROLES or type(content) is not str:
            return None
        if role != "assistant" and ("<image>" in content or "<video>" in content):
            return None
        turns.append(Turn(role, content))
    _check(turns)
    return Conversation(identity_of(record), tuple(turns))


def _document(record: JsonObject) -> Conversation:
    if not record["text"]:
        raise Rejection("zero_length", "text is empty; drop the record")
    media = _supply(record)
    media.check()
    tools = _tools(record.get("tools"))
    return Conversation(identity_of(record), (), tools=tools, text=record["text"])


def identity_of(record: JsonObject) -> str | None:
    """Return the record's own name, None where it has none."""
    name = record.get("id")
    return str(name) if isinstance(name, str | int | float) and name != "" else None


def _supply(record: JsonObject) -> MediaSupply:
    waiting: dict[Kind, list[MediaRef]] = {
        "image": with_positions(read_media(record, "image"), record.get(POSITIONS)),
        "video": read_media(record, "video"),
    }
    given = any(record.get(key) is not None for key in (*OPTION_NAMES, *_OPTION_SOURCES))
    return MediaSupply(waiting, _options(record) if given else {})


def _options(record: JsonObject) -> dict[str, Any]:
    """Collect options of the whole record, which may stand in three places."""
    places = {"the record": record} | {key: record.get(key) for key in _OPTION_SOURCES}
    _check_kwargs(places[_OPTION_SOURCES[0]], _OPTION_SOURCES[0])
    found = {
        place: read_options(cast("JsonObject", source), of_record=True)
        for place, source in places.items()
        if isinstance(source, dict)
    }
    names = dict.fromkeys(name for options in found.values() for name in options)
    return {
        name: agreed({f"{name} of {p}": held[name] for p, held in found.items() if name in held})
        for name in names
    }


def _check_kwargs(kwargs: object, where: str) -> None:
    """Refuse what is meant for the processor and not read; what is off changes nothing."""
    if kwargs is None:
        return
    if not isinstance(kwargs, dict):
        raise Rejection("bad_record", f"{where} is {kwargs!r:.40}; give an object")
    for name, value in cast("JsonObject", kwargs).items():
        if name not in OPTION_NAMES and value is not None and value is not False:
            raise Rejection("bad_record", f"{where}: {name!s:.40} is not supported; drop it")


def _turns(messages: list[Any], supply: MediaSupply) -> list[Turn]:
    turns: list[Turn] = []
    joins = False
    for number, message in enumerate(messages, 1):
        where = f"turn {number}"
        if not isinstance(message, dict):
            raise Rejection("bad_record", f"{where} is {message!r:.40}; give an object with role")
        turn = read_turn(cast("JsonObject", message), where, supply)
        # neighbouring call turns are parallel calls of one answer
        if joins and is_call(message):
            turns[-1] = replace(
                turns[-1], tool_calls=[*(turns[-1].tool_calls or ()), *(turn.tool_calls or ())]
            )
        else:
            turns.append(turn)
        joins = is_call(message)
    return turns


def _check(turns: Sequence[Turn]) -> None:
    if not turns:
        raise Rejection("empty_conversation", "there is no turn; drop the record")
    answered = False
    for turn in turns:
        if turn.role == "assistant":
            if not turn.empty:
                return
            answered = True
    if not answered:
        raise Rejection("no_supervised_tokens", "there is no assistant turn; add an answer")
    raise Rejection("empty_target", "every assistant turn is empty; write an answer")


def _tools(value: object) -> list[JsonObject] | None:
    if isinstance(value, str):
        value = read_json(value, "tools") if value.strip() else None
    if not value:
        return None
    tools = cast("list[object]", [value] if isinstance(value, dict) else value)
    if not isinstance(value, list | dict) or not all(isinstance(tool, dict) for tool in tools):
        raise Rejection("bad_record", f"tools is {value!r:.40}; give a list of objects")
    return cast("list[JsonObject]", tools)


def _template_kwargs(record: JsonObject) -> dict[str, Any]:
    value = record.get("chat_template_kwargs")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Rejection("bad_record", f"chat_template_kwargs is {value!r:.40}; give an object")
    kwargs = cast("JsonObject", value)
    for name in _RESERVED:
        if name in kwargs:
            message = f"chat_template_kwargs must not set {name}; it comes from the record"
            raise Rejection("bad_record", message)
    return {key: item for key, item in kwargs.items() if key not in OPTION_NAMES}
