"""Conversations become token ids and labels: one rendering, one cut, one look at the answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError, Rejection
from packcli.encode.placeholders import Placeholders
from packcli.encode.text.drafts import Draft, EncodedText, Tokens, encode_drafts
from packcli.encode.text.frames import Frames
from packcli.encode.text.labels import Supervise, choose, learned_turns
from packcli.encode.text.marks import Marks
from packcli.encode.text.messages import build_messages, check_shown
from packcli.encode.text.omitted import omissions
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

    from packcli.encode.records.conversation import Conversation
    from packcli.encode.text.backends import Choice
    from packcli.encode.text.spans import SpanFinder
    from packcli.encode.text.tokens import Vocabulary
    from packcli.families.family import Expansion


@dataclass(frozen=True, slots=True)
class _Chat:
    template: ChatTemplate
    find_spans: SpanFinder
    frames: Frames


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
        self._chats = {tools: self._opened(template) for tools, template in templates.items()}

    def _opened(self, template: ChatTemplate) -> _Chat:
        find_spans = choose_finder(template, self._vocabulary.ids)
        frames = Frames(template, self._vocabulary, self._marks, self._places, find_spans)
        return _Chat(template, find_spans, frames)

    @classmethod
    def open(
        cls,
        directory: Path,
        placeholders: Placeholders | None = None,
        *,
        tokenizer: Choice = "hf",
    ) -> TextEncoder:
        """Read the tokenizer and the chat template of a model directory.

        Args:
            directory: the model directory.
            placeholders: what stands for media.
            tokenizer: which backend to use; the ids do not depend on it.

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
        if tokenizer != "hf":
            for template in compiled.values():
                template.prepare_quick()
        vocabulary = read_vocabulary(directory, tokenizer)
        return cls(vocabulary, templates, placeholders or Placeholders())

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
        if not (images or videos):
            framed = self.framed(conversation, supervise=supervise)
            if framed is not None:
                return framed
        rendered = self.render(conversation)
        return self.cut(conversation, rendered, (images, videos), supervise=supervise)

    def framed(self, conversation: Conversation, *, supervise: Supervise = "all") -> Draft | None:
        """Draft a conversation without media in one go, where it is as plain as most are.

        Returns:
            What `render` and `cut` give; None where they have to be asked.

        Raises:
            InputError: as `encode`.
        """
        if conversation.text is not None or conversation.tools or conversation.template_kwargs:
            return None
        chat = self._chat(conversation)
        return chat.frames.draft(conversation.turns, supervise) if chat.template.frames else None

    def render(self, conversation: Conversation) -> str:
        """Write the conversation out as the model reads it, typed text marked.

        Raises:
            Rejection: `template_error` or `bad_unicode`.
            InputError: as `encode`.
        """
        if conversation.text is not None:
            return _checked(conversation.text)
        return self._render(self._chat(conversation), conversation)

    def cut(
        self,
        conversation: Conversation,
        rendered: str,
        media: tuple[Sequence[Expansion], Sequence[Expansion]] = ((), ()),
        *,
        supervise: Supervise = "all",
    ) -> Draft:
        """Cut what `render` gave, and find in it what is learned.

        Args:
            conversation: what was rendered.
            rendered: how.
            media: what replaces each image and each video placeholder, in order.
            supervise: learn every assistant turn, or the last.

        Raises:
            Rejection: `template_error`, `tag_count_mismatch` or `no_supervised_tokens`.
        """
        if conversation.text is not None:
            return Draft([rendered], [rendered], [])
        chat = self._chat(conversation)
        rendered, slots = self._places.expand(rendered, *media)
        pieces = self._vocabulary.cut(rendered)
        answers = [turn for turn in conversation.turns if turn.role == "assistant"]
        learned = learned_turns(answers, chat.find_spans(pieces), pieces, self._marks.unmark)
        texts = pieces
        if not rendered.isascii():
            texts = [self._marks.unmark(p) if n % 2 == 0 else p for n, p in enumerate(pieces)]
        return Draft(pieces, texts, choose(learned, supervise), slots)

    def omitted(self, conversation: Conversation, rendered: str) -> list[str]:
        """Name by warning what of the record does not show in what `render` gave of it.

        Raises:
            InputError: as `encode`.
        """
        if conversation.text is not None:
            return ["tools_not_shown"] if conversation.tools else []
        render = partial(self._render, self._chat(conversation))
        return omissions(conversation, rendered, render)

    def finish(self, drafts: Sequence[Draft]) -> list[EncodedText]:
        """Tokenize drafts, all pieces of all of them in one call to the tokenizer.

        The caller asks each sample whether it `learns` anything.
        """
        if not drafts:
            return []
        tokens = Tokens(drafts, self._vocabulary, self._marks.unmark)
        return encode_drafts(tokens, drafts, self._places.pads)

    def trust(self, *, quick: bool) -> None:
        """Render and tokenize with the fast libraries, or with the references alone."""
        self._vocabulary.trust(quick=quick)
        for chat in self._chats.values():
            chat.template.trust(quick=quick)

    def _chat(self, conversation: Conversation) -> _Chat:
        chat = self._chats.get(bool(conversation.tools))
        if chat is None:
            raise InputError("the model has no chat template; add chat_template.jinja")
        return chat

    def _render(self, chat: _Chat, conversation: Conversation) -> str:
        mark = self._marks.mark_values
        tools, kwargs = conversation.tools, conversation.template_kwargs
        try:
            messages = build_messages(conversation.turns, self._marks, chat.template)
            if tools or kwargs:
                tools, kwargs = mark(tools), mark(dict(kwargs))
            rendered = chat.template.render(messages, tools, kwargs)
        except RecursionError:
            raise Rejection("template_error", "tools or calls are nested too deeply") from None
        check_shown(conversation.turns, rendered, self._marks)
        return _checked(rendered)


def _checked(text: str) -> str:
    """Refuse what no tokenizer can take: half a surrogate pair."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "the text holds half of a surrogate pair; write the whole character"
        raise Rejection("bad_unicode", message) from None
    return text
