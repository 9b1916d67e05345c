"""Where the answers stand in a rendered conversation, read off the one rendered text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from packcli.contract.errors import InputError, Rejection
from packcli.encode.text.marks import ANY_MARK, CLOSE, OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from packcli.encode.text.template import ChatTemplate

_START, _END, _HEADER = "<|im_start|>", "<|im_end|>", "assistant\n"


@dataclass(frozen=True, slots=True)
class Span:
    """One answer, from a place in one piece to a place in another.

    Pieces are what `Vocabulary.cut` gives: text at even, an added token at odd places.

    Attributes:
        first: the piece in which the answer starts.
        skip: characters of that piece, marks counted, that belong to the header.
        last: the piece in which the answer ends.
        keep: characters of that piece that belong to it; None for all of it.
    """

    first: int
    skip: int
    last: int
    keep: int | None = None

    def text(self, pieces: Sequence[str]) -> str:
        """Return what was rendered for this answer, marks and added tokens included."""
        if self.first == self.last:
            return pieces[self.first][self.skip : self.keep]
        inner = "".join(pieces[self.first + 1 : self.last])
        return pieces[self.first][self.skip :] + inner + pieces[self.last][: self.keep]


class SpanFinder(Protocol):
    """How the answers of one kind of template are found."""

    def __call__(self, pieces: Sequence[str]) -> list[Span]:
        """Return the answers in order.

        Raises:
            Rejection: `template_error`, an answer does not end.
        """
        ...


def choose_finder(template: ChatTemplate, added: Collection[str]) -> SpanFinder:
    """Choose by what the template says: its own tags first, else ChatML.

    Raises:
        InputError: neither is there; answers are never guessed.
    """
    if template.marks_answers:
        return tagged_spans
    if {_START, _END} <= set(added) and _START in template.source and _END in template.source:
        return chatml_spans
    raise InputError(
        "the chat template is neither ChatML nor marks answers; put {% generation %} and "
        "{% endgeneration %} around what the assistant says in chat_template.jinja"
    )


def chatml_spans(pieces: Sequence[str]) -> list[Span]:
    """From behind `<|im_start|>assistant` and its newline to `<|im_end|>`, which is included."""
    spans: list[Span] = []
    start = None
    for place in range(1, len(pieces), 2):
        token = pieces[place]
        if token == _START:
            if start is not None:
                raise Rejection("template_error", f"the template did not end answer {len(spans)}")
            start = place + 1 if pieces[place + 1].startswith(_HEADER) else None
        elif token == _END and start is not None:
            spans.append(Span(start, len(_HEADER), place))
            start = None
    if start is not None:
        raise Rejection("template_error", "the template did not end the last answer")
    return spans


def tagged_spans(pieces: Sequence[str]) -> list[Span]:
    """Between the marks of `{% generation %}`; white space behind the last token is left out."""
    spans: list[Span] = []
    start: tuple[int, int] | None = None
    for place in range(0, len(pieces), 2):
        for match in ANY_MARK.finditer(pieces[place]):
            if match[0] == OPEN:
                start = (place, match.end())
            elif match[0] == CLOSE:
                if start is None:
                    raise Rejection("template_error", "{% generation %} blocks are nested")
                spans.append(_closed(pieces, start, place, match.start()))
                start = None
    if start is not None:
        raise Rejection("template_error", "a {% generation %} block did not end")
    return spans


def _closed(pieces: Sequence[str], start: tuple[int, int], last: int, keep: int) -> Span:
    if last > start[0] and not pieces[last][:keep].strip():
        return Span(*start, last - 1)
    return Span(*start, last, keep)
