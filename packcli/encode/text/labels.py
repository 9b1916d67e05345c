"""Which tokens are learned: spans of the rendered text become token ranges, then labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from packcli.contract.errors import Rejection
from packcli.encode.records.turns import call_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from packcli.encode.records.conversation import Turn
    from packcli.encode.text.spans import Span
    from packcli.encode.text.tokens import Vocabulary

IGNORED = -100
Supervise = Literal["all", "last"]
_THINK = ("<think>", "</think>")


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
        message = f"the template shows {len(spans)} answers of {len(turns)} assistant turns"
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
    for tag in _THINK:
        shown = shown.replace(tag, "")
    if shown.removesuffix("<|im_end|>").strip():
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


@dataclass(frozen=True, slots=True)
class PieceTokens:
    """Where the tokens of each piece lie.

    Attributes:
        texts: pieces without marks.
        unmark: what a piece of rendered text looks like there.
        ids: ids of each text.
        starts: tokens, first token of each piece, and the total.
    """

    texts: Sequence[str]
    unmark: Callable[[str], str]
    ids: dict[str, list[int]]
    starts: Sequence[int]


def token_range(
    span: Span, pieces: Sequence[str], tokens: PieceTokens, vocabulary: Vocabulary
) -> slice:
    """Find the tokens of a span; one that lies across an edge is left out.

    Args:
        span: the answer.
        pieces: the rendered text, cut, with marks.
        tokens: the same text, tokenized.
        vocabulary: tokenizes headers, and tells offsets where a token lies across an edge.
    """
    head = tokens.unmark(pieces[span.first][: span.skip])
    first = tokens.starts[span.first] + _tokens_to(span.first, head, tokens, vocabulary)[0]
    if span.keep is None:
        return slice(first, tokens.starts[span.last + 1])
    head = tokens.unmark(pieces[span.last][: span.keep])
    keep = _tokens_to(span.last, head, tokens, vocabulary)[1]
    return slice(first, tokens.starts[span.last] + keep)


def _tokens_to(
    piece: int, head: str, tokens: PieceTokens, vocabulary: Vocabulary
) -> tuple[int, int]:
    """Count tokens up to the end of `head` in a piece: with, and without the one across it."""
    text = tokens.texts[piece]
    ids = tokens.ids[text]
    # the header is nearly always tokens of its own: compare, instead of asking for offsets
    alone = vocabulary.encode_pieces([head])[head]
    if ids[: len(alone)] == alone:
        return len(alone), len(alone)
    _, covers = vocabulary.backend.encode_with_ends(text)
    return (
        sum(start < len(head) for start, _ in covers),
        sum(end <= len(head) for _, end in covers),
    )


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


def make_labels(
    input_ids: NDArray[np.int32], ranges: Sequence[slice], hidden: Sequence[int]
) -> NDArray[np.int32]:
    """Copy the ids of `ranges`, and ignore everything else.

    Args:
        input_ids: (T,) int32, token ids.
        ranges: tokens, what is learned.
        hidden: tokens, media slots inside them.

    Returns:
        (T,) int32, token ids or -100; the first is -100, it has nothing before it.
    """
    labels = np.full(input_ids.shape, IGNORED, dtype=np.int32)
    for part in ranges:
        labels[part] = input_ids[part]
    if hidden:
        labels[np.asarray(hidden)] = IGNORED
    labels[:1] = IGNORED
    return labels
