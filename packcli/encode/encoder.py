"""From raw records to samples, for one model directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packcli.contract.errors import InputError, PackcliError, Rejection
from packcli.encode.expander import Expander
from packcli.encode.options import facts_of, family_of
from packcli.encode.outcome import Outcome, rejected_line, warned_line
from packcli.encode.records.raw import parse
from packcli.encode.records.reading import identity_of, read_record
from packcli.encode.records.shapes import second_shape
from packcli.encode.sample import Sample
from packcli.encode.text.quick_template import NotAlikeError
from packcli.encode.text.text_encoder import Placeholders, TextEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packcli.encode.media.sources import MediaRoot
    from packcli.encode.options import EncodeJob
    from packcli.encode.records.conversation import Conversation, Kind
    from packcli.encode.records.raw import RawRecord
    from packcli.encode.sample import Medium
    from packcli.encode.text.text_encoder import Draft, EncodedText
    from packcli.families.family import Expansion, Family

_LONGEST = 2**24
"""Tokens of one sample, whatever the options say: absurd sizes must not fill the memory."""


@dataclass(slots=True)
class _Underway:
    """A record on its way to a sample; each step of `Encoder` fills in what it found."""

    name: str
    raw: RawRecord
    source: str
    id: str | None = None
    conversation: Conversation = field(init=False)
    media: tuple[Medium, ...] = ()
    expansions: tuple[Sequence[Expansion], Sequence[Expansion]] = ((), ())
    rendered: str = field(init=False)
    draft: Draft | None = None
    text: EncodedText = field(init=False)
    warned: tuple[str, ...] = ()

    def warn(self, code: str) -> None:
        """Note what is to be known of the record."""
        self.warned += (code,)


class Encoder:
    """Renders, expands and labels records.

    Args:
        job: model directory and options.
        root: folder of relative media paths.

    Attributes:
        media: plans what the records name.
    """

    def __init__(self, job: EncodeJob, root: MediaRoot) -> None:
        self._options = job.options
        self.family: Family = family_of(job)
        self.media = Expander(self.family, job.options, root)
        self.facts = facts_of(self.family, job.options)
        self.text = TextEncoder.open(
            job.model, Placeholders.of(self.family), tokenizer=job.tokenizer
        )

    @property
    def embeds(self) -> bool:
        """Whether the bytes of media are to be stored."""
        return self._options.embed_media

    def encode(self, name: str, records: Iterable[RawRecord]) -> Outcome:
        """Encode records of one input.

        Every step is taken with all of them before the next: what a step runs on stays in the
        processor's caches, which takes a quarter off the time.

        Args:
            name: the input, for sources and messages.
            records: as the reader yields them.

        Raises:
            InputError: a sample is too long and the options say to stop.
        """
        every = list(records)
        underway = [_Underway(name, raw, f"{name}:{raw.line}") for raw in every if not raw.blank]
        outcome = Outcome(blank=len(every) - len(underway))
        begun = underway
        for step in (self._read, self._render, self._cut):
            underway = _each(step, underway, outcome)
        underway = _each(self._check, self._tokenized(underway, outcome), outcome)
        outcome.samples += map(_sample, underway)
        outcome.warned += [
            warned_line(name, one.raw.line, code, one.id) for one in begun for code in one.warned
        ]
        outcome.rejected.sort(key=lambda line: line["offset"])
        return outcome

    def _read(self, one: _Underway) -> None:
        """Understand the record, and size its media."""
        record = parse(one.raw)
        one.id = identity_of(record)
        one.conversation = conversation = self.media.canvases(read_record(record))
        if second_shape(record):
            one.warn("second_shape_ignored")
        if not conversation.media:
            return
        media: list[Medium] = []
        expansions: dict[Kind, list[Expansion]] = {"image": [], "video": []}
        count = sum(ref.kind == "image" for ref in conversation.media)
        for ref in conversation.media:
            if ref.kind == "image":
                medium, expansion = self.media.image(ref, count, one.warn)
            else:
                medium, expansion = self.media.video(ref)
            media.append(medium)
            expansions[ref.kind].append(expansion)
        # slots alone may be too many: then the text is not even made
        slots = sum(sum(e.slots) for kind in expansions.values() for e in kind)
        self._check_length(one.source, slots)
        if not self.embeds and any(ref.embedded for ref in conversation.media):
            one.warn("media_bytes_not_kept")
        # embedded files must not be held until the whole batch is done
        conversation.media = ()
        one.media, one.expansions = tuple(media), (expansions["image"], expansions["video"])

    def _render(self, one: _Underway) -> None:
        if not one.media:
            one.draft = self.text.framed(one.conversation, supervise=self._options.supervise)
        if one.draft is None:
            one.rendered = self.text.render(one.conversation)

    def _cut(self, one: _Underway) -> None:
        if one.draft is not None:
            return
        supervise = self._options.supervise
        one.draft = self.text.cut(
            one.conversation, one.rendered, one.expansions, supervise=supervise
        )
        for code in self.text.omitted(one.conversation, one.rendered):
            one.warn(code)
        one.rendered = ""

    def _tokenized(self, underway: list[_Underway], outcome: Outcome) -> list[_Underway]:
        """Tokenize all at once; if that fails, one by one, to find out on which it does."""
        try:
            texts = self.text.finish([one.draft for one in underway if one.draft is not None])
        except (PackcliError, NotAlikeError):
            raise
        except Exception:  # noqa: BLE001 - the record on which it fails is found below
            return _each(self._tokenize, underway, outcome)
        for one, text in zip(underway, texts, strict=True):
            one.text = text
        return underway

    def _tokenize(self, one: _Underway) -> None:
        assert one.draft is not None  # noqa: S101 - the step before has made it
        one.text = self.text.finish([one.draft])[0]

    def _check(self, one: _Underway) -> None:
        text = one.text
        if text.loss_scale is not None and not self._options.loss_scale:
            message = "a turn has a loss weight other than 0 and 1; keep it with --loss-scale"
            raise Rejection("bad_record", message)
        if not text.input_ids.size:
            raise Rejection("zero_length", "the text has no tokens; drop the record")
        if not text.learns:
            raise Rejection("no_supervised_tokens", "every label is masked; add an answer")
        self._check_length(one.source, text.input_ids.size)

    def _check_length(self, source: str, tokens: int) -> None:
        limit = min(self._options.max_length or _LONGEST, _LONGEST)
        if tokens <= limit:
            return
        message = f"{tokens} tokens, limit {limit}; shorten it or raise --max-length"
        if self._options.over_length == "error":
            raise InputError(f"{source}: {message}")
        raise Rejection("over_length", message)


def _each(
    step: Callable[[_Underway], None], underway: list[_Underway], outcome: Outcome
) -> list[_Underway]:
    """Take a step with every record; return those that got through, and report the others."""
    through: list[_Underway] = []
    for one in underway:
        try:
            step(one)
        except (PackcliError, NotAlikeError):
            raise
        except Rejection as why:
            # its traceback holds this call, and with it every record
            rejection = why.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - a fault of packcli costs one record, not the run
            rejection = outcome.fault(error)
        else:
            through.append(one)
            continue
        outcome.rejected.append(rejected_line(one.name, one.raw, rejection, one.id))
    return through


def _sample(one: _Underway) -> Sample:
    identity, text = one.source if one.id is None else one.id, one.text
    return Sample(identity, one.source, text.input_ids, text.labels, one.media, text.loss_scale)
