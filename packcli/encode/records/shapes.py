"""The shapes of records: each is turned into a list of messages with role and content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.records.turns import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.encode.records.conversation import JsonObject

Messages = list[Any]


def read_messages(record: JsonObject) -> Messages:
    """Find the shape of a record by its keys, and return its messages.

    Raises:
        Rejection: `bad_record`, no shape fits, or a field has the wrong type.
    """
    for keys, read in _SHAPES:
        if all(record.get(key) is not None for key in keys):
            return _with_system(record, read(record))
    accepted = "; ".join(" + ".join(keys) for keys, _ in _SHAPES)
    found = ", ".join(list(record)[:8]) or "nothing"
    raise Rejection("bad_record", f"no known shape: found {found}; give one of: {accepted}; text")


def second_shape(record: JsonObject) -> bool:
    """Whether a record has more than the shape that `read_messages` takes, whole and not empty."""
    if record.keys().isdisjoint(_LATER):
        return False
    return sum(all(record.get(key) for key in keys) for keys, _ in _SHAPES) > 1


def _list(record: JsonObject, key: str) -> Messages:
    value = record[key]
    if not isinstance(value, list):
        raise Rejection("bad_record", f"{key} is {value!r:.40}; give a list of turns")
    return cast("Messages", value)


def _messages(record: JsonObject) -> Messages:
    return _list(record, "messages")


def _conversations(record: JsonObject) -> Messages:
    return _list(record, "conversations")


def _conversation(record: JsonObject) -> Messages:
    return _list(record, "conversation")


def _prompt_completion(record: JsonObject) -> Messages:
    """Only the completion is learned: answers inside a prompt are context."""
    prompt = [
        {**m, "loss": m.get("loss") or False} if isinstance(m, dict) else m
        for m in _as_messages(record["prompt"], "user")
    ]
    return prompt + _as_messages(record["completion"], "assistant")


def _as_messages(value: object, role: str) -> Messages:
    if isinstance(value, list):
        return cast("Messages", value)
    return [{"role": role, "content": value}]


def _query(record: JsonObject) -> Messages:
    return [*_history(record), *_pair(record["query"], record["response"])]


def _instruction(record: JsonObject) -> Messages:
    question, extra = record["instruction"], record.get("input")
    if isinstance(question, str) and isinstance(extra, str) and extra:
        question = f"{question}\n{extra}" if question else extra
    return [*_history(record), *_pair(question, record["output"])]


def _history(record: JsonObject) -> Messages:
    turns: Messages = []
    entries = record.get("history") or []
    if not isinstance(entries, list):
        raise Rejection("bad_record", f"history is {entries!r:.40}; give [query, response] pairs")
    for number, pair in enumerate(cast("list[Any]", entries), 1):
        if not isinstance(pair, list) or len(cast("list[Any]", pair)) != len(("query", "response")):
            raise Rejection(
                "bad_record", f"history entry {number} is not [query, response]; mend it"
            )
        turns += _pair(*cast("list[Any]", pair))
    return turns


def _pair(question: object, answer: object) -> Messages:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _with_system(record: JsonObject, messages: Messages) -> Messages:
    """Put the `system` key first; with a system turn beside it, both must say the same."""
    system = record.get("system")
    if system is None or system == "":
        return messages
    if not isinstance(system, str):
        raise Rejection("bad_record", f"system is {system!r:.40}; give text")
    first = cast("JsonObject", messages[0]) if messages and isinstance(messages[0], dict) else {}
    if ROLES.get(str(first.get("role") or first.get("from"))) != "system":
        return [{"role": "system", "content": system}, *messages]
    if system not in {str(first.get(key)) for key in ("content", "value")}:
        raise Rejection("bad_record", "a system key and another system turn; keep one of them")
    return messages


_SHAPES: tuple[tuple[tuple[str, ...], Callable[[JsonObject], Messages]], ...] = (
    (("messages",), _messages),
    (("conversations",), _conversations),
    (("conversation",), _conversation),
    (("prompt", "completion"), _prompt_completion),
    (("query", "response"), _query),
    (("instruction", "output"), _instruction),
)

_LATER = frozenset(keys[-1] for keys, _ in _SHAPES[1:])
"""A key of each shape but the first, which most records have: without them there is one shape."""
