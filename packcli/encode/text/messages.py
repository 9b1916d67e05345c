"""Turns become the dictionaries that a chat template reads, with typed text marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.text.marks import SPARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packcli.encode.records.conversation import JsonObject, Turn
    from packcli.encode.text.marks import Marks
    from packcli.encode.text.template import ChatTemplate

_NONE: frozenset[str] = frozenset()


def build_messages(turns: Iterable[Turn], marks: Marks, template: ChatTemplate) -> list[JsonObject]:
    """Write turns as transformers hands them to a template: absent keys instead of nulls.

    Raises:
        Rejection: `template_error`, call arguments are not what the template needs.
    """
    return [_message(turn, marks, template) for turn in turns]


def _message(turn: Turn, marks: Marks, template: ChatTemplate) -> JsonObject:
    spared = SPARED if turn.role == "assistant" else _NONE
    message: JsonObject = {"role": turn.role, "content": _content(turn, marks, template, spared)}
    if turn.tool_calls:
        calls = turn.tool_calls
        # objects first, marks second: an escape inside JSON text may spell a token
        calls = [_with_object(c) for c in calls] if template.needs_objects else calls
        message["tool_calls"] = marks.mark_values(calls)
    if turn.reasoning_content is not None:
        reasoning = marks.mark(turn.reasoning_content, spared)
        message |= {"thinking": reasoning, "reasoning_content": reasoning}
    if turn.name is not None:
        message["name"] = marks.mark(turn.name)
    if turn.tool_call_id is not None:
        message["tool_call_id"] = marks.mark(turn.tool_call_id)
    return message


def _content(
    turn: Turn, marks: Marks, template: ChatTemplate, spared: frozenset[str]
) -> str | list[dict[str, str]]:
    content = turn.content
    if isinstance(content, str):
        marked = marks.mark(content, spared)
        return [{"type": "text", "text": marked}] if template.text_as_parts else marked
    if template.parts_as_text and all(part.kind == "text" for part in content):
        return marks.mark(turn.text, spared)
    return [
        {"type": "text", "text": marks.mark(part.text, spared)}
        if part.kind == "text"
        else {"type": part.kind}
        for part in content
    ]


def _with_object(call: JsonObject) -> JsonObject:
    """Turn arguments given as JSON text into an object, for templates that walk through it."""
    nested = isinstance(call.get("function"), dict)
    inner = cast("JsonObject", call["function"]) if nested else call
    arguments = inner.get("arguments")
    if not isinstance(arguments, str):
        return call
    inner = {**inner, "arguments": _object(arguments)}
    return {**call, "function": inner} if nested else inner


def _object(text: str) -> Any:  # noqa: ANN401 - the caller's JSON
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        message = f"tool call arguments {text!r:.60} are no JSON object, which the template needs"
        raise Rejection("template_error", f"{message}; write an object")
    return cast("JsonObject", value)


def check_system_turns(turns: Sequence[Turn], rendered: str, marks: Marks) -> None:
    """Refuse a template that silently leaves out a system turn in the middle.

    Raises:
        Rejection: `template_error`.
    """
    for number, turn in enumerate(turns[1:], 2):
        if turn.role == "system" and turn.text.strip() not in marks.unmark(rendered):
            message = f"the chat template leaves out the system turn {number}"
            raise Rejection("template_error", f"{message}; merge it into the first turn")
