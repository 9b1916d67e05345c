"""Frames: what a template writes around the texts of a plain conversation, told once a form.

Most conversations are nothing but turns of text, and what stands around the texts follows from the
roles alone, in nearly every template. Then nothing has to be rendered and cut at added tokens for
each of them. Where any of that does not hold, there is no frame, and the template is rendered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packcli.encode.records.conversation import Turn
from packcli.encode.text.drafts import Draft
from packcli.encode.text.labels import NOTHING
from packcli.encode.text.messages import build_messages
from packcli.encode.text.quick_template import NotAlikeError, drawn
from packcli.encode.text.unseen import HOLE, MOST_HOLES, Unseen, hole_number, stripping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packcli.encode.placeholders import Placeholders
    from packcli.encode.records.conversation import Role
    from packcli.encode.text.labels import Supervise
    from packcli.encode.text.marks import Marks
    from packcli.encode.text.spans import Span, SpanFinder
    from packcli.encode.text.template import ChatTemplate
    from packcli.encode.text.tokens import Vocabulary

_MOST = 256
"""Forms of conversations that are tried; others are rendered one by one."""

Roles = tuple["Role", ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The pieces of every conversation of one form.

    Attributes:
        pieces: what `Vocabulary.cut` gives, without what holds a content.
        filled: of each content in order its piece, and what stands before and behind it there.
        strip: takes off each content the white space that the template takes off.
        learned: the answers.
    """

    pieces: list[str]
    filled: list[tuple[int, str, str]]
    strip: list[Callable[[str], str]]
    learned: list[tuple[Turn, Span]]

    def draft(self, contents: list[str], supervise: Supervise) -> Draft:
        pieces = self.pieces.copy()
        for (place, before, behind), strip, content in zip(
            self.filled, self.strip, contents, strict=True
        ):
            pieces[place] = f"{before}{strip(content)}{behind}"
        return Draft(pieces, pieces, self.learned if supervise == "all" else self.learned[-1:])


class Frames:
    """The frames of one template and vocabulary.

    Args:
        template: is asked once a form.
        vocabulary: cuts what it writes.
        marks: know what a content may not hold.
        places: what stands for media.
        find_spans: finds the answers.
    """

    def __init__(
        self,
        template: ChatTemplate,
        vocabulary: Vocabulary,
        marks: Marks,
        places: Placeholders,
        find_spans: SpanFinder,
    ) -> None:
        self._template, self._vocabulary, self._marks = template, vocabulary, marks
        self._places, self._find_spans = places, find_spans
        self._frames: dict[Roles, _Frame | None] = {}
        # a placeholder that a user may type would have to be looked for in every text
        named = all(marks.mark(text) != text for text in places.shown)
        self._possible = named and vocabulary.plain and not template.marks_answers

    def draft(self, turns: Sequence[Turn], supervise: Supervise) -> Draft | None:
        """Put the texts of a conversation into its frame.

        Returns:
            What `TextEncoder.cut` gives; None where the conversation has to be rendered.

        Raises:
            NotAlikeError: the template writes something else.
        """
        clear, nothing = self._marks.clear, NOTHING.match
        contents: list[str] = []
        for turn in turns:
            text = turn.content
            if type(text) is not str or not turn.plain or nothing(text) or not clear(text):
                return None
            contents.append(text)
        key: Roles = tuple([turn.role for turn in turns])
        frame = self._frames[key] if key in self._frames else self._made(key)
        if frame is None:
            return None
        draft = frame.draft(contents, supervise)
        if drawn(contents[-1]):
            self._check(turns, draft)
        return draft

    def _check(self, turns: Sequence[Turn], draft: Draft) -> None:
        exact = self._template.exact(build_messages(turns, self._marks, self._template))
        shown = None if exact is None else self._marks.unmark(exact)
        if shown is None or shown.removesuffix(self._places.tail) != "".join(draft.pieces):
            raise NotAlikeError

    def _made(self, roles: Roles) -> _Frame | None:
        if not self._possible or len(self._frames) >= _MOST or len(roles) > MOST_HOLES:
            return None
        try:
            frame = self._make(roles)
        except Exception:  # noqa: BLE001 - whatever a template does with holes, it can be rendered
            frame = None
        self._frames[roles] = frame
        return frame

    def _make(self, roles: Roles) -> _Frame | None:
        tokens = self._vocabulary.ids
        turns = [Turn(role, Unseen.hole(n, tokens)) for n, role in enumerate(roles)]
        rendered = self._template.render_unseen(build_messages(turns, self._marks, self._template))
        holes = HOLE.findall(rendered)
        tail = self._places.tail
        if [*map(hole_number, holes)] != [*range(len(roles))] or (
            tail and HOLE.search(rendered[-len(tail) :])
        ):
            return None
        rendered, _ = self._places.expand(rendered, (), ())
        pieces = self._vocabulary.cut(rendered)
        places = [n for n, piece in enumerate(pieces) if HOLE.search(piece)]
        filled = [(n, *_around(pieces[n])) for n in places]
        if len(filled) != len(roles) or not self._apart(HOLE.split(rendered)):
            return None
        spans = self._find_spans([Unseen(p, tokens) if HOLE.search(p) else p for p in pieces])
        answers = [hole for hole, role in zip(holes, roles, strict=True) if role == "assistant"]
        if not all(
            _is_answer(span.text(pieces), h) for span, h in zip(spans, answers, strict=True)
        ):
            return None
        if any(span.keep is not None for span in spans):
            return None
        learned = [(Turn("assistant", ""), span) for span in spans]
        return _Frame(pieces, filled, [*map(stripping, holes)], learned)

    def _apart(self, around: list[str]) -> bool:
        """Whether no token can be put together from a content and what stands beside it."""
        splits = [(t[:n], t[n:]) for t in self._vocabulary.ids for n in range(1, len(t))]
        heads, tails = (tuple({*ends}) for ends in zip(*splits, strict=True))
        before, behind = around[:-1], around[1:]
        return not (
            any(text.endswith(heads) for text in before)
            or any(text.startswith(tails) for text in behind)
        )


def _around(piece: str) -> tuple[str, str]:
    """Return what stands before and behind the one hole of a piece."""
    before, behind = HOLE.split(piece)
    return before, behind


def _is_answer(shown: str, hole: str) -> bool:
    """Whether a span holds one content, and nothing beside it that hides whether it is blank."""
    before, found, behind = shown.partition(hole)
    return bool(found) and all(NOTHING.match(text) is not None for text in (before, behind))
