"""Where the answers stand in a rendered conversation, read off the one rendered text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from packcli.contract.errors import InputError, Rejection
from packcli.encode.text.formats import FORMATS
from packcli.encode.text.marks import ANY_MARK, CLOSE, OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from packcli.encode.text.formats import Format
    from packcli.encode.text.template import ChatTemplate


@dataclass(slots=True)
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
    """Choose by what the template says: its own tags first, else a known format.

    Raises:
        InputError: neither is there; answers are never guessed.
    """
    if template.marks_answers:
        return tagged_spans
    for known in FORMATS:
        if known.fits(template.source, added):
            return partial(framed_spans, known.as_prompted(template.prompt()))
    names = ", ".join(known.name for known in FORMATS)
    raise InputError(
        f"the chat template is neither ChatML nor another known format ({names}), and does not "
        "mark answers; put {% generation %} and {% endgeneration %} around what the assistant "
        "says in chat_template.jinja"
    )


def framed_spans(known: Format, pieces: Sequence[str]) -> list[Span]:
    """From behind the header of an answer to the token that ends it, which is included."""
    spans: list[Span] = []
    start: tuple[int, int] | None = None
    for place in range(1, len(pieces), 2):
        token = pieces[place]
        if start is not None:
            if token not in known.ends and token not in known.turns:
                continue
            if not (known.others and token in known.turns and _nothing(pieces, start, place)):
                if token not in known.ends:
                    raise _endless(len(spans))
                spans.append(Span(*start, place))
        start = known.opened(pieces, place)
    # a template may end with the header of an answer that nobody gave
    if start is not None and (known.open or not _nothing(pieces, start, len(pieces))):
        if not known.open:
            raise Rejection("template_error", "the template did not end the last answer")
        spans.append(_closed(pieces, start, len(pieces) - 1, len(pieces[-1])))
    return spans


def _nothing(pieces: Sequence[str], start: tuple[int, int], stop: int) -> bool:
    first, skip = start
    return not (pieces[first][skip:] + "".join(pieces[first + 1 : stop])).strip()


def _endless(answer: int) -> Rejection:
    return Rejection("template_error", f"the template did not end answer {answer}")


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
