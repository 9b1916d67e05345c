"""What a template may leave out and the record still is a sample: thinking, and lists of tools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.encode.records.conversation import Conversation, JsonObject, Part, Turn

    Render = Callable[[Conversation], str]

_OPEN, _CLOSE = "<think>", "</think>"
_LONG = 16
"""Characters of a text that nobody writes again by chance."""


def omissions(conversation: Conversation, rendered: str, render: Render) -> list[str]:
    """Find what does not show.

    Where the text itself does not settle it, the record is rendered again with something else in
    the place of what is looked for.

    Args:
        conversation: what was rendered.
        rendered: how.
        render: renders another one the same way.

    Returns:
        `tools_not_shown` and `thinking_not_shown`, each at most once.
    """
    codes: list[str] = []
    if conversation.tools and not _shows_tools(conversation, rendered, render):
        codes.append("tools_not_shown")
    thoughts = [_thinking(turn) for turn in conversation.turns]
    if any(thoughts) and not _shows_thinking(conversation, thoughts, rendered, render):
        codes.append("thinking_not_shown")
    return codes


def _shows_tools(conversation: Conversation, rendered: str, render: Render) -> bool:
    told = [text for tool in conversation.tools or () if len(text := _description(tool)) >= _LONG]
    if any(text in rendered for text in told):
        said = "\n".join(f"{turn.text}\n{turn.reasoning_content}" for turn in conversation.turns)
        if any(text in rendered and text not in said for text in told):
            return True
    try:
        return render(replace(conversation, tools=None)) != rendered
    except Rejection:
        # what is refused without tools has looked at them
        return True


def _description(tool: JsonObject) -> str:
    inner = tool.get("function", tool)
    text = inner.get("description") if isinstance(inner, dict) else None
    return text if isinstance(text, str) else ""


def _shows_thinking(
    conversation: Conversation, thoughts: list[str], rendered: str, render: Render
) -> bool:
    turns = conversation.turns
    given = [thought for thought in thoughts if thought]
    said = "\n".join(_said(turn, thought) for turn, thought in zip(turns, thoughts, strict=True))
    if all(
        len(text) >= _LONG
        and text not in said
        and rendered.count(text) >= sum(text in other for other in given)
        for text in given
    ):
        return True
    # a template that shows thinking shows a word that stands in its place
    probes = [f"packcli-thinking-{number}." if text else "" for number, text in enumerate(thoughts)]
    probed = [_with(probe, turn) for turn, probe in zip(turns, probes, strict=True)]
    try:
        shown = render(replace(conversation, turns=tuple(probed)))
    except Rejection:
        return True
    return all(probe in shown for probe in probes)


def _thinking(turn: Turn) -> str:
    """Return the thinking of an answer, kept apart or where templates look for it; else nothing."""
    if turn.role != "assistant":
        return ""
    if apart := (turn.reasoning_content or "").strip():
        return apart
    before, close, _ = turn.text.partition(_CLOSE)
    return before.rpartition(_OPEN)[2].strip() if close else ""


def _said(turn: Turn, thought: str) -> str:
    """Return what a turn says beside its thinking."""
    return turn.text.replace(thought, "", 1) if _within(turn, thought) else turn.text


def _within(turn: Turn, thought: str) -> bool:
    return bool(thought) and not (turn.reasoning_content or "").strip()


def _with(probe: str, turn: Turn) -> Turn:
    """Put a word into the place of the thinking, or before its end where that is in the answer."""
    if not probe:
        return turn
    if not _within(turn, probe):
        return replace(turn, reasoning_content=probe)
    return replace(turn, content=_before_close(probe, turn.content))


def _before_close(probe: str, content: str | tuple[Part, ...]) -> str | tuple[Part, ...]:
    if isinstance(content, str):
        return content.replace(_CLOSE, probe + _CLOSE, 1)
    return tuple(
        replace(part, text=part.text.replace(_CLOSE, probe + _CLOSE, 1)) for part in content
    )
