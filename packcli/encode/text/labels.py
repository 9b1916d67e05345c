"""Which tokens are learned: spans of the rendered text become token ranges, then labels."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

from packcli.contract.errors import Rejection
from packcli.encode.records.media_refs import counted
from packcli.encode.records.turns import call_name
from packcli.encode.text.formats import ENDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packcli.encode.records.conversation import Turn
    from packcli.encode.text.spans import Span

Supervise = Literal["all", "last"]
_THINK = ("<think>", "</think>")
NOTHING = re.compile(rf"(?:\s|</?think>)*(?:{'|'.join(map(re.escape, ENDS))})?(?:</?think>)*\Z")
"""An answer in which there is nothing to learn."""


def learned_turns(
    turns: Sequence[Turn],
    spans: Sequence[Span],
    pieces: Sequence[str],
    unmark: Callable[[str], str],
) -> list[tuple[Turn, Span]]:
    """Pair assistant turns with their spans, and keep those that may be learned.

    Args:
        turns: the assistant turns, in order.
        spans: the answers found in the rendered text.
        pieces: the rendered text, cut.
        unmark: what stands in it, as it was typed.

    Raises:
        Rejection: `template_error`, the template left an answer out, wholly or in part.
    """
    if len(turns) != len(spans):
        shown, given = counted(len(spans), "answer"), counted(len(turns), "assistant turn")
        message = f"the template shows {shown} of {given}"
        raise Rejection("template_error", f"{message}; use a template that shows each")
    learned: list[tuple[Turn, Span]] = []
    for turn, span in zip(turns, spans, strict=True):
        shown = span.text(pieces)
        if turn.tool_calls:
            _check_calls(turn, unmark(shown))
        if (
            not turn.empty
            and not _blank(turn, shown)
            and turn.loss is not False
            and turn.weight != 0
        ):
            learned.append((turn, span))
    return learned


def _blank(turn: Turn, shown: str) -> bool:
    """Whether the template shows nothing to learn; thinking of earlier turns may be left out."""
    if NOTHING.match(shown) is None:
        return False
    if turn.tool_calls or turn.text.rpartition(_THINK[1])[2].strip():
        raise Rejection(
            "template_error", "the chat template leaves out an assistant turn; change it"
        )
    return True


def _check_calls(turn: Turn, shown: str) -> None:
    for call in turn.tool_calls or ():
        name = call_name(call) or ""
        as_json = json.dumps(name, ensure_ascii=False)[1:-1]
        if name not in shown and as_json not in shown:
            message = f"the chat template leaves out the tool call {name!r:.40}"
            raise Rejection("template_error", f"{message}; use a template that knows tool_calls")
    answer = turn.text.rpartition(_THINK[1])[2].strip()
    if answer not in shown:
        message = "the chat template shows tool_calls and leaves out the text beside them"
        raise Rejection("template_error", f"{message}; drop one of the two")


def choose(learned: list[tuple[Turn, Span]], supervise: Supervise) -> list[tuple[Turn, Span]]:
    """Keep all turns, or the last.

    Raises:
        Rejection: `no_supervised_tokens`, none is left.
    """
    if not learned:
        raise Rejection(
            "no_supervised_tokens", "no assistant turn is left to learn; drop the record"
        )
    return learned if supervise == "all" else learned[-1:]
