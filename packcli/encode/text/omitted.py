"""What may be left out, and the record still is a sample.

A template may not show thinking, what an answer says before it, or a list of tools.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packcli.encode.records.conversation import Conversation, JsonObject, Turn

    Render = Callable[[Conversation], str]

_OPEN, _CLOSE = "<think>", "</think>"
_LONG = 16
"""Characters of a text that nobody writes again by chance."""


@dataclass(frozen=True, slots=True)
class _Thought:
    """The thinking of an answer.

    Attributes:
        text: the thinking itself; empty where there is none.
        lead: what the answer says before it, where it is part of the answer.
        more: what it says between the end of it and a second end.
        apart: it is given beside the answer.
    """

    text: str = ""
    lead: str = ""
    more: str = ""
    apart: bool = False


def omissions(conversation: Conversation, rendered: str, render: Render) -> list[str]:
    """Find what does not show.

    Where the text itself does not settle it, the record is rendered again with something else in
    the place of what is looked for.

    Args:
        conversation: what was rendered.
        rendered: how.
        render: renders another one the same way.

    Returns:
        `tools_not_shown`, `thinking_not_shown` and `words_not_shown`, each at most once.
    """
    codes: list[str] = []
    if conversation.tools and not _shows_tools(conversation, rendered, render):
        codes.append("tools_not_shown")
    thoughts = [_thought(turn) for turn in conversation.turns]
    if any(one.text for one in thoughts) and not _shows_thinking(
        conversation, thoughts, rendered, render
    ):
        codes.append("thinking_not_shown")
    if not _shows_words(conversation, thoughts, render):
        codes.append("words_not_shown")
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
    conversation: Conversation, thoughts: list[_Thought], rendered: str, render: Render
) -> bool:
    turns = conversation.turns
    given = [thought.text for thought in thoughts if thought.text]
    said = "\n".join(map(_said, turns, thoughts))
    if all(
        len(text) >= _LONG
        and text not in said
        and rendered.count(text) >= sum(text in other for other in given)
        for text in given
    ):
        return True
    # a template that shows thinking shows a word that stands in its place
    held = [bool(thought.text) for thought in thoughts]
    return _shows_probes(conversation, held, [*map(_probed, thoughts)], render)


def _shows_words(conversation: Conversation, thoughts: list[_Thought], render: Render) -> bool:
    """Tell whether words show that are put beside those before thinking, and behind its end."""
    return all(
        _shows_probes(conversation, held, [partial(_beside, mark, form)] * len(held), render)
        for mark, form, held in (
            (_OPEN, "{probe}{mark}", [bool(thought.lead) for thought in thoughts]),
            (_CLOSE, "{mark}{probe}", [bool(thought.more) for thought in thoughts]),
        )
        if any(held)
    )


def _shows_probes(
    conversation: Conversation,
    held: list[bool],
    put: Sequence[Callable[[Turn, str], Turn]],
    render: Render,
) -> bool:
    """Put a word of its own into every turn that holds what is looked for; tell if all show."""
    probes = {n: f"packcli-probe-{n}." for n, holds in enumerate(held) if holds}
    turns = [
        put[n](turn, probes[n]) if n in probes else turn
        for n, turn in enumerate(conversation.turns)
    ]
    try:
        shown = render(replace(conversation, turns=tuple(turns)))
    except Rejection:
        return True
    return all(probe in shown for probe in probes.values())


def _thought(turn: Turn) -> _Thought:
    """Find the thinking of an answer, kept apart or where templates look for it."""
    if turn.role != "assistant":
        return _Thought()
    if apart := (turn.reasoning_content or "").strip():
        return _Thought(apart, apart=True)
    before, close, behind = turn.text.partition(_CLOSE)
    lead, _, text = before.rpartition(_OPEN)
    more = behind.rpartition(_CLOSE)[0]
    return _Thought(text.strip(), lead.strip(), more.strip()) if close else _Thought()


def _said(turn: Turn, thought: _Thought) -> str:
    """Return what a turn says beside its thinking."""
    return turn.text if thought.apart else turn.text.replace(thought.text, "", 1)


def _probed(thought: _Thought) -> Callable[[Turn, str], Turn]:
    """Put a word into the place of thinking, or before its end where that is in the answer."""
    if thought.apart:
        return lambda turn, probe: replace(turn, reasoning_content=probe)
    return partial(_beside, _CLOSE, "{probe}{mark}")


def _beside(mark: str, form: str, turn: Turn, probe: str) -> Turn:
    """Put a word before or behind the first mark of an answer."""
    both = form.format(mark=mark, probe=probe)
    if isinstance(turn.content, str):
        return replace(turn, content=turn.content.replace(mark, both, 1))
    texts = (part.text.replace(mark, both, 1) for part in turn.content)
    parts = zip(turn.content, texts, strict=True)
    return replace(turn, content=tuple(replace(part, text=text) for part, text in parts))
