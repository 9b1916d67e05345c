"""Conversations become token ids and labels: one rendering, one cut, one look at the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.errors import InputError, Rejection
from packcli.encode.placeholders import Placeholders
from packcli.encode.text.labels import (
    IGNORED,
    PieceTokens,
    Supervise,
    choose,
    learned_turns,
    make_labels,
    token_range,
)
from packcli.encode.text.marks import Marks
from packcli.encode.text.messages import build_messages, check_system_turns
from packcli.encode.text.spans import choose_finder
from packcli.encode.text.template import (
    ChatTemplate,
    read_object,
    read_template,
    special_variables,
)
from packcli.encode.text.tokens import read_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.encode.records.conversation import Conversation, Turn
    from packcli.encode.text.spans import Span, SpanFinder
    from packcli.encode.text.tokens import Vocabulary
    from packcli.families.family import Expansion


@dataclass(frozen=True, slots=True)
class EncodedText:
    """One sample.

    Attributes:
        input_ids: (T,) int32, token ids.
        labels: (T,) int32, token ids, or -100 for what is not learned.
        loss_scale: (T,) float32, weight of each label; None where all are 1.
    """

    input_ids: NDArray[np.int32]
    labels: NDArray[np.int32]
    loss_scale: NDArray[np.float32] | None = None

    @property
    def learns(self) -> bool:
        """Whether any token is learned; a text of one token has none."""
        return bool(np.any(self.labels != IGNORED))


@dataclass(frozen=True, slots=True)
class Draft:
    """A conversation that is rendered and checked, and not yet tokenized.

    Attributes:
        pieces: rendered text, cut at added tokens, with marks.
        texts: the same without marks.
        learned: turns and where they stand.
        slots: tokens, repeats of every pad in order.
    """

    pieces: list[str]
    texts: list[str]
    learned: list[tuple[Turn, Span]]
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Chat:
    template: ChatTemplate
    find_spans: SpanFinder


class TextEncoder:
    """Renders, cuts, tokenizes and labels, for one model directory.

    Args:
        vocabulary: the tokenizer.
        templates: by whether tools are given; empty in a model without chat template.
        placeholders: what stands for media.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        templates: dict[bool, ChatTemplate],
        placeholders: Placeholders,
    ) -> None:
        self._vocabulary = vocabulary
        self._marks = Marks([*vocabulary.ids])
        self._places = placeholders
        self._chats = {
            tools: _Chat(template, choose_finder(template, vocabulary.ids))
            for tools, template in templates.items()
        }

    @classmethod
    def open(cls, directory: Path, placeholders: Placeholders | None = None) -> TextEncoder:
        """Read the tokenizer and the chat template of a model directory.

        Raises:
            InputError: the tokenizer or the template cannot be used.
        """
        variables = {
            **special_variables(read_object(directory / "special_tokens_map.json")),
            **special_variables(read_object(directory / "tokenizer_config.json")),
        }
        compiled: dict[str, ChatTemplate] = {}
        templates: dict[bool, ChatTemplate] = {}
        for with_tools in (False, True):
            source = read_template(directory, with_tools=with_tools)
            if source is not None:
                compiled.setdefault(source, ChatTemplate(source, variables))
                templates[with_tools] = compiled[source]
        return cls(read_vocabulary(directory), templates, placeholders or Placeholders())

    def encode(
        self,
        conversation: Conversation,
        images: Sequence[Expansion] = (),
        videos: Sequence[Expansion] = (),
        *,
        supervise: Supervise = "all",
    ) -> EncodedText:
        """Encode one conversation.

        Args:
            conversation: what `read_record` gives.
            images: what replaces each image placeholder, in order.
            videos: what replaces each video placeholder, in order.
            supervise: learn every assistant turn, or the last.

        Raises:
            Rejection: `template_error`, `tag_count_mismatch`, `no_supervised_tokens` or
                `bad_unicode`.
            InputError: the model has no chat template, and the record is a chat.
        """
        sample = self.finish([self.draft(conversation, images, videos, supervise=supervise)])[0]
        if not sample.learns:
            raise Rejection("no_supervised_tokens", "no token is left to learn; drop the record")
        return sample

    def draft(
        self,
        conversation: Conversation,
        images: Sequence[Expansion] = (),
        videos: Sequence[Expansion] = (),
        *,
        supervise: Supervise = "all",
    ) -> Draft:
        """Do everything but tokenizing, so that `finish` can tokenize many at once.

        Raises:
            Rejection: as `encode`.
            InputError: as `encode`.
        """
        if conversation.text is not None:
            return Draft([conversation.text], [_checked(conversation.text)], [])
        chat = self._chats.get(bool(conversation.tools))
        if chat is None:
            raise InputError("the model has no chat template; add chat_template.jinja")
        rendered = self._render(chat, conversation)
        rendered, slots = self._places.expand(rendered, images, videos)
        pieces = self._vocabulary.cut(rendered)
        answers = [turn for turn in conversation.turns if turn.role == "assistant"]
        learned = learned_turns(answers, chat.find_spans(pieces), pieces, self._marks.unmark)
        texts = [self._marks.unmark(p) if n % 2 == 0 else p for n, p in enumerate(pieces)]
        return Draft(pieces, texts, choose(learned, supervise), slots)

    def finish(self, drafts: Sequence[Draft]) -> list[EncodedText]:
        """Tokenize drafts, all pieces of all of them in one call to the tokenizer.

        The caller asks each sample whether it `learns` anything.
        """
        ids = self._vocabulary.encode_pieces(t for d in drafts for t in d.texts[::2])
        return [self._assemble(draft, ids) for draft in drafts]

    def _render(self, chat: _Chat, conversation: Conversation) -> str:
        mark = self._marks.mark_values
        try:
            messages = build_messages(conversation.turns, self._marks, chat.template)
            tools, kwargs = mark(conversation.tools), mark(dict(conversation.template_kwargs))
            rendered = chat.template.render(messages, tools, kwargs)
        except RecursionError:
            raise Rejection("template_error", "tools or calls are nested too deeply") from None
        check_system_turns(conversation.turns, rendered, self._marks)
        return _checked(rendered)

    def _assemble(self, draft: Draft, ids: dict[str, list[int]]) -> EncodedText:
        flat: list[int] = []
        starts = [0]
        pads: list[int] = []
        for place, text in enumerate(draft.texts):
            if place % 2 == 0:
                flat += ids[text]
            else:
                token = self._vocabulary.id_of(text)
                if token in self._places.pads:
                    pads.append(len(flat))
                flat.append(token)
            starts.append(len(flat))
        if len(pads) != len(draft.slots):
            raise ValueError(f"{len(pads)} pads in the text, {len(draft.slots)} runs of slots")
        input_ids = np.array(flat, dtype=np.int32)
        if not draft.learned:
            return EncodedText(input_ids, make_labels(input_ids, [slice(None)], pads))
        tokens = PieceTokens(draft.texts, self._marks.unmark, ids, starts)
        ranges = [
            token_range(span, draft.pieces, tokens, self._vocabulary) for _, span in draft.learned
        ]
        labels = make_labels(input_ids, ranges, pads)
        return _repeat(input_ids, labels, _scale(draft, ranges, len(flat)), pads, draft.slots)


def _scale(draft: Draft, ranges: Sequence[slice], count: int) -> NDArray[np.float32] | None:
    weights = [turn.weight for turn, _ in draft.learned]
    if all(weight in {None, 1} for weight in weights):
        return None
    scale = np.zeros(count, dtype=np.float32)
    for weight, part in zip(weights, ranges, strict=True):
        scale[part] = 1 if weight is None else weight
    return scale


def _repeat(
    input_ids: NDArray[np.int32],
    labels: NDArray[np.int32],
    scale: NDArray[np.float32] | None,
    pads: Sequence[int],
    slots: Sequence[int],
) -> EncodedText:
    """Repeat each pad as often as its medium has slots."""
    if not pads:
        return EncodedText(input_ids, labels, scale)
    counts = np.ones(input_ids.size, dtype=np.int64)
    counts[np.asarray(pads)] = slots
    long_scale = None if scale is None else np.repeat(scale, counts)
    return EncodedText(np.repeat(input_ids, counts), np.repeat(labels, counts), long_scale)


def _checked(text: str) -> str:
    """Refuse what no tokenizer can take: half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "the text holds half of a surrogate pair; write the whole character"
        raise Rejection("bad_unicode", message) from None
    return text
