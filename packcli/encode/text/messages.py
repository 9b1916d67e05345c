"""Turns become the dictionaries that a chat template reads, with typed text marked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.text.marks import SPARED
from packcli.encode.text.sandbox import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packcli.encode.records.conversation import JsonObject, Turn
    from packcli.encode.text.marks import Marks
    from packcli.encode.text.template import ChatTemplate

_WORD = re.compile(r"[A-Za-z0-9]+")
_REMEDIES = {
    "system": "merge it into the first turn",
    "tool": "use a template that knows tools",
}
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
        if template.needs_objects or template.needs_text:
            calls = [_with_arguments(call, text=template.needs_text) for call in calls]
        message["tool_calls"] = marks.mark_values(calls)
        if template.null_beside_calls and not turn.text.strip():
            message["content"] = None
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


def _with_arguments(call: JsonObject, *, text: bool) -> JsonObject:
    """Turn arguments into JSON text, or JSON text into an object, as the template wants them."""
    nested = isinstance(call.get("function"), dict)
    inner = cast("JsonObject", call["function"]) if nested else call
    arguments = inner.get("arguments")
    if isinstance(arguments, str):
        arguments = arguments if text else _object(arguments)
    elif text and arguments is not None:
        arguments = to_json(arguments)
    else:
        return call
    inner = {**inner, "arguments": arguments}
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


def check_shown(turns: Sequence[Turn], rendered: str, marks: Marks) -> None:
    """Refuse a template that silently leaves out a system turn in the middle, or a tool's result.

    Raises:
        Rejection: `template_error`.
    """
    late = [(n, turn) for n, turn in enumerate(turns[1:], 2) if turn.role in _REMEDIES]
    shown = marks.unmark(rendered) if late else rendered
    for number, turn in late:
        text = turn.text.strip() if turn.role == "system" else _longest_word(turn.text)
        if text not in shown:
            message = f"the chat template leaves out the {turn.role} turn {number}"
            raise Rejection("template_error", f"{message}; {_REMEDIES[turn.role]}")


def _longest_word(text: str) -> str:
    """Return what stands in every spelling of a text: templates write results as JSON, too."""
    return max(_WORD.findall(text), key=len, default="")
