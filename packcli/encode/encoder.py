"""From raw records to samples, for one model directory."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import InputError, PackcliError, Rejection
from packcli.encode.media.images import image_size
from packcli.encode.media.sources import MediaRoot, locate
from packcli.encode.media.videos import video_metadata
from packcli.encode.options import facts_of
from packcli.encode.records.raw import parse
from packcli.encode.records.reading import identity_of, read_record
from packcli.encode.sample import Medium, Sample
from packcli.encode.summary import FAULT
from packcli.encode.text.quick_template import NotAlikeError
from packcli.encode.text.text_encoder import Placeholders, TextEncoder
from packcli.families import open_family
from packcli.families.family import PixelLimits, VideoMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packcli.encode.media.sources import Source
    from packcli.encode.options import EncodeJob
    from packcli.encode.records.conversation import JsonObject, Kind, MediaRef
    from packcli.encode.records.raw import RawRecord
    from packcli.encode.text.text_encoder import Draft, EncodedText
    from packcli.families.family import Expansion, Family
    from packcli.shards.media_store import MediaStore

_LIST_FPS = 2.0
"""Rate of a frame list that names none: the processors' own default."""

_LONGEST = 2**24
"""Tokens of one sample, whatever the options say: absurd sizes must not fill the memory."""


@dataclass(slots=True)
class Outcome:
    """What became of a run of records; every one is in exactly one place.

    Attributes:
        samples: kept, in order.
        rejected: one line of ``rejected.jsonl`` each.
        blank: lines with nothing on them.
        warnings: counts by code.
    """

    samples: list[Sample] = field(default_factory=list[Sample])
    rejected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    blank: int = 0
    warnings: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class _Drafted:
    id: str | None
    source: str
    draft: Draft
    media: tuple[Medium, ...]
    raw: RawRecord


class Encoder:
    """Renders, expands and labels records.

    Args:
        job: model directory and options.
        root: folder of relative media paths.

    Attributes:
        store: where the bytes of media go; None to leave them where they are.
    """

    def __init__(self, job: EncodeJob, root: MediaRoot) -> None:
        self._options = job.options
        self._root = root
        self.family: Family = open_family(job.model, video_wrapper=job.options.video_wrapper)
        self.store: MediaStore | None = None
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

        Args:
            name: the input, for sources and messages.
            records: as the reader yields them.

        Raises:
            InputError: a sample is too long and the options say to stop.
        """
        outcome, drafted = Outcome(), list[_Drafted]()
        for raw in records:
            if raw.blank:
                outcome.blank += 1
            elif (one := self._begin(name, raw, outcome)) is not None:
                drafted.append(one)
        for one, text in self._finish(drafted, name, outcome):
            try:
                self._check(one.source, text)
            except Rejection as rejection:
                outcome.rejected.append(rejected_line(name, one.raw, rejection, one.id))
                continue
            identity = one.source if one.id is None else one.id
            sample = Sample(
                identity, one.source, text.input_ids, text.labels, one.media, text.loss_scale
            )
            outcome.samples.append(sample)
        outcome.rejected.sort(key=lambda line: line["offset"])
        return outcome

    def _begin(self, name: str, raw: RawRecord, outcome: Outcome) -> _Drafted | None:
        """Draft a record, or say why it cannot be."""
        identity = None
        try:
            record = parse(raw)
            identity = identity_of(record)
            return self._draft(f"{name}:{raw.line}", raw, record, outcome.warnings)
        except (PackcliError, NotAlikeError):
            raise
        except Rejection as why:
            rejection = why
        except Exception as error:  # noqa: BLE001 - a fault of packcli costs one record, not the run
            rejection = _fault(error, outcome)
        outcome.rejected.append(rejected_line(name, raw, rejection, identity))
        return None

    def _finish(
        self, drafted: list[_Drafted], name: str, outcome: Outcome
    ) -> Iterator[tuple[_Drafted, EncodedText]]:
        """Tokenize all at once; if that fails, one by one, to find out on which it does."""
        try:
            yield from zip(drafted, self.text.finish([one.draft for one in drafted]), strict=True)
        except (PackcliError, NotAlikeError):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            if len(drafted) > 1:
                for one in drafted:
                    yield from self._finish([one], name, outcome)
                return
            rejection = _fault(error, outcome)
            outcome.rejected.append(rejected_line(name, drafted[0].raw, rejection, drafted[0].id))

    def _draft(
        self, source: str, raw: RawRecord, record: JsonObject, warnings: Counter[str]
    ) -> _Drafted:
        conversation = read_record(record)
        media: list[Medium] = []
        expansions: dict[Kind, list[Expansion]] = {"image": [], "video": []}
        count = sum(ref.kind == "image" for ref in conversation.media)
        for ref in conversation.media:
            medium, expansion = (
                self._image(ref, count, warnings) if ref.kind == "image" else self._video(ref)
            )
            media.append(medium)
            expansions[ref.kind].append(expansion)
        # slots alone may be too many: then the text is not even made
        self._check_length(source, sum(sum(e.slots) for kind in expansions.values() for e in kind))
        images, videos = expansions["image"], expansions["video"]
        draft = self.text.draft(conversation, images, videos, supervise=self._options.supervise)
        return _Drafted(conversation.id, source, draft, tuple(media), raw)

    def _image(
        self, ref: MediaRef, images: int, warnings: Counter[str]
    ) -> tuple[Medium, Expansion]:
        source = locate(ref, self._root)
        size = image_size(source, self._options.images)
        if size.animated:
            warnings["animated_image_first_frame"] += 1
        limits = self._options.pixels
        if ref.options:
            limits = PixelLimits(
                _whole(ref, "min_pixels", limits.min_pixels),
                _whole(ref, "max_pixels", limits.max_pixels),
            )
        plan = self.family.image_plan(size.height, size.width, limits, images=images)
        medium = Medium("image", self._address(ref, [source]), size.height, size.width, plan.grid)
        return medium, self.family.expand_image(plan)

    def _video(self, ref: MediaRef) -> tuple[Medium, Expansion]:
        options = replace(self._options.video, **_video_options(ref))
        sources = [locate(one, self._root) for one in ref.frames or (ref,)]
        metadata = (
            self._frame_list(ref, sources)
            if ref.frames
            else video_metadata(sources[0], decode=self._options.images.decode)
        )
        plan = self.family.video_plan(metadata, options)
        medium = Medium(
            # without a token of its own, a video is told by its slots: frames of an image grid
            "image" if self.family.facts.video_token_id is None else "video",
            self._address(ref, sources),
            metadata.height,
            metadata.width,
            plan.grid,
            plan.second_per_grid,
            tuple(plan.frame_indices.tolist()),
            plan.timestamps,
        )
        return medium, self.family.expand_video(plan)

    def _address(self, ref: MediaRef, sources: list[Source]) -> str:
        """Return what the row names: the record's own address, or that of the stored bytes."""
        if self.store is None:
            return _uri(ref)
        kept: list[str] = []
        for source in sources:
            with source.open() as stream:
                kept.append(self.store.keep(stream))
        return json.dumps(kept) if ref.frames else kept[0]

    def _frame_list(self, ref: MediaRef, sources: list[Source]) -> VideoMetadata:
        sizes = [image_size(source, self._options.images) for source in sources]
        height, width = sizes[0].height, sizes[0].width
        for number, size in enumerate(sizes):
            if (size.height, size.width) != (height, width):
                message = f"frame {number} is {size.width}x{size.height}, frame 0 {width}x{height}"
                raise Rejection("bad_media_ref", f"{message}; frames of a video are of one size")
        fps = float(ref.options.get("fps", self._options.video.fps or _LIST_FPS))
        return VideoMetadata(len(sizes), fps, height, width, listed=True)

    def _check(self, source: str, text: EncodedText) -> None:
        if text.loss_scale is not None and not self._options.loss_scale:
            message = "a turn has a loss weight other than 0 and 1; keep it with --loss-scale"
            raise Rejection("bad_record", message)
        if not text.input_ids.size:
            raise Rejection("zero_length", "the text has no tokens; drop the record")
        if not text.learns:
            raise Rejection("no_supervised_tokens", "every label is masked; add an answer")
        self._check_length(source, text.input_ids.size)

    def _check_length(self, source: str, tokens: int) -> None:
        limit = min(self._options.max_length or _LONGEST, _LONGEST)
        if tokens <= limit:
            return
        message = f"{tokens} tokens, limit {limit}; shorten it or raise --max-length"
        if self._options.over_length == "error":
            raise InputError(f"{source}: {message}")
        raise Rejection("over_length", message)


def _whole(ref: MediaRef, name: str, fallback: int | None) -> int | None:
    value = ref.options.get(name)
    return fallback if value is None else int(value)


def _video_options(ref: MediaRef) -> dict[str, Any]:
    whole = ("num_frames", "min_frames", "max_frames", "min_pixels", "max_pixels")
    whole = (*whole, "timestamp_decimals")
    options: dict[str, Any] = {n: int(ref.options[n]) for n in whole if n in ref.options}
    return options | ({"fps": float(ref.options["fps"])} if "fps" in ref.options else {})


def _uri(ref: MediaRef) -> str:
    if ref.frames:
        return json.dumps([_uri(frame) for frame in ref.frames], ensure_ascii=False)
    if ref.data is not None:
        return f"sha256:{sha256(ref.data).hexdigest()}"
    return ref.uri or ""


def _fault(error: Exception, outcome: Outcome) -> Rejection:
    outcome.warnings[FAULT] += 1
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    message = f"packcli failed on it ({type(error).__name__} at {where}: {error!s:.200})"
    return Rejection("worker_crash", f"{message}; drop it and report it")


def rejected_line(
    name: str, raw: RawRecord, rejection: Rejection, identity: str | None = None
) -> dict[str, Any]:
    """Return a line of ``rejected.jsonl``."""
    return {
        "file": name,
        "line": raw.line,
        "offset": raw.offset,
        "id": identity,
        "code": rejection.code,
        "message": " ".join(f"{name}:{raw.line}: {rejection.message}".split()),
        "sha256": raw.sha256,
    }
