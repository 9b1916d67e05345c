"""References to media: the forms in which records name them, and who takes which."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import Rejection
from packcli.encode.records.agreement import agreed
from packcli.encode.records.conversation import JsonObject, Kind, MediaRef

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTION_NAMES = {
    "fps": "fps",
    "nframes": "num_frames",
    "num_frames": "num_frames",
    "min_frames": "min_frames",
    "max_frames": "max_frames",
    "min_pixels": "min_pixels",
    "max_pixels": "max_pixels",
    "timestamp_decimal": "timestamp_decimals",
}
"""Per-record options of sampling and size, by every name they come under."""

_OPTION_KEYS = {
    name: tuple(key for key, meant in OPTION_NAMES.items() if meant == name)
    for name in OPTION_NAMES.values()
}

_SMALLEST, _LARGEST, MOST_FRAMES = 1e-6, 2**53, 1_000_000
"""Bounds of every option, and of `num_frames`: beyond them arithmetic or memory gives out."""

_REFUSED = {
    "resized_height": "min_pixels and max_pixels",
    "resized_width": "min_pixels and max_pixels",
    "total_pixels": "max_pixels",
    "video_start": "a file that is cut",
    "video_end": "a file that is cut",
    "sample_fps": "fps",
    "raw_fps": "fps",
}
"""Options of qwen_vl_utils that are not read, and what to give instead; ignored, they would change
what a model sees."""

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})

_PLACES = {
    "image": ("image", "image_url", "url", "path", "base64"),
    "video": ("video", "video_url", "url", "path"),
}
_FIELDS: dict[Kind, tuple[str, str]] = {"image": ("images", "image"), "video": ("videos", "video")}


def read_options(source: Mapping[str, Any], *, of_record: bool = False) -> dict[str, Any]:
    """Collect sampling and size options.

    Args:
        source: a record, a part of it, or a medium.
        of_record: `fps` may be a list with a number for each video.

    Raises:
        Rejection: `bad_record`, an option is not a positive number of a sane size.
    """
    found: dict[str, Any] = {}
    for name, keys in _OPTION_KEYS.items():
        given = {key: source[key] for key in keys if source.get(key) is not None}
        value = agreed(given)
        if value is None:
            continue
        many = of_record and name == "fps" and isinstance(value, list) and value
        for number in cast("list[Any]", value) if many else [value]:
            _check_number(" and ".join(given), name, number)
        found[name] = value
    return found


def _check_number(key: str, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
    most = MOST_FRAMES if name == "num_frames" else _LARGEST
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not _SMALLEST <= value <= most:
        message = f"{key} is {value!r:.40}; give a positive number up to {most}"
        raise Rejection("bad_record", message)


def read_media(record: JsonObject, kind: Kind) -> list[MediaRef]:
    """Read `images` / `image` or `videos` / `video`: one entry, or a list of them.

    Raises:
        Rejection: `bad_media_ref`, an entry names nothing; `bad_record`, both keys name media,
            and not the same.
    """
    given = {name: _entries(record[name]) for name in _FIELDS[kind] if record.get(name) is not None}
    named = {name: entries for name, entries in given.items() if any(entries)}
    several, first = (named.get(name) for name in _FIELDS[kind])
    if several and first and several != first:
        message = f"{' and '.join(named)} name different {kind}s; keep one, or put all into {kind}s"
        raise Rejection("bad_record", message)
    name, entries = next(iter((named or given).items()), ("", []))
    return [read_ref(entry, kind, name) for entry in entries]


def _entries(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def read_ref(entry: object, kind: Kind, where: str) -> MediaRef:
    """Read one reference.

    Args:
        entry: an address, bytes, an object that holds one of them, or a video's list of frames.
        kind: what it is.
        where: how a message calls the place.

    Raises:
        Rejection: `bad_media_ref`, the entry names nothing.
    """
    if isinstance(entry, str) and entry:
        return MediaRef(kind, uri=entry)
    if isinstance(entry, bytes) and entry:
        return MediaRef(kind, data=entry)
    if isinstance(entry, dict):
        return _from_object(cast("JsonObject", entry), kind, where)
    if isinstance(entry, list) and kind == "video" and entry:
        frames = cast("list[object]", entry)
        return MediaRef(kind, frames=tuple(read_ref(f, "image", f"{where} frame") for f in frames))
    raise _names_nothing(entry, kind, where)


def find_ref(part: JsonObject, kind: Kind) -> MediaRef | None:
    """Read the reference inside a content part; None when the part only marks a place."""
    where = f"{kind} part"
    if _any_of(part, ("bytes", *_PLACES[kind])):
        return read_ref(part, kind, where)
    _refuse(part, where)
    return None


def _any_of(source: JsonObject, names: tuple[str, ...]) -> bool:
    return any(source.get(name) is not None for name in names)


def _from_object(entry: JsonObject, kind: Kind, where: str) -> MediaRef:
    options = read_options(entry)
    _refuse(entry, where)
    path = entry.get("path")
    if entry.get("bytes") is not None:
        data = _bytes(entry["bytes"], where)
        return MediaRef(
            kind, uri=path if isinstance(path, str) else None, data=data, options=options
        )
    if entry.get("base64") is not None:
        return MediaRef(kind, data=_bytes(entry["base64"], where), options=options)
    for name in _PLACES[kind]:
        if entry.get(name) is not None:
            found = read_ref(entry[name], kind, where)
            return replace(found, options={**found.options, **options})
    raise _names_nothing(entry, kind, where)


def _refuse(entry: JsonObject, where: str) -> None:
    if entry.keys().isdisjoint(_REFUSED):
        return
    for name, instead in _REFUSED.items():
        if entry.get(name) is not None:
            raise Rejection("bad_record", f"{where}: {name} is not supported; give {instead}")


def _bytes(value: object, where: str) -> bytes:
    """Take bytes as they are, or from base64 text (JSON has no bytes)."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and value:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            message = f"{where}: bytes are not base64: {error}; encode them again"
            raise Rejection("bad_media_ref", message) from None
    raise Rejection("bad_media_ref", f"{where}: bytes are {value!r:.40}; give base64 text")


def _names_nothing(entry: object, kind: Kind, where: str) -> Rejection:
    message = f"{where}: {entry!r:.60} names no {kind}; give a path, an address or bytes"
    return Rejection("bad_media_ref", message)


def _remedy(kind: Kind, tags: int, entries: list[MediaRef]) -> str:
    """Say how placeholders and media come to agree."""
    if tags > len(entries):
        return f"add {_a(kind)} or drop a placeholder"
    remedy = f"add a placeholder or drop {_a(kind)}"
    if kind == "video" and tags and all(map(_is_still, entries)):
        remedy += '; the frames of one video are a list of their own: [["a.jpg", "b.jpg"]]'
    return remedy


def _is_still(ref: MediaRef) -> bool:
    """Whether a medium is called like an image."""
    kind, _ = mimetypes.guess_type(ref.uri or "", strict=False)
    return kind is not None and kind.startswith("image/")


@dataclass(slots=True)
class MediaSupply:
    """The media of a record, handed to placeholders in order.

    Attributes:
        waiting: entries of `images` and `videos`, by kind.
        options: options of the whole record; a medium's own win.
        tags: placeholders seen so far that take the next entry, by kind.
        placed: the media in placeholder order.
    """

    waiting: dict[Kind, list[MediaRef]]
    options: Mapping[str, Any]
    tags: dict[Kind, int] = field(default_factory=lambda: {"image": 0, "video": 0})
    placed: list[MediaRef] = field(default_factory=list[MediaRef])

    def take(self, kind: Kind, options: Mapping[str, Any] = _NO_OPTIONS) -> None:
        """Give the next entry to a placeholder, whose own options win."""
        place = self.tags[kind]
        self.tags[kind] += 1
        if place < len(self.waiting[kind]):
            ref = self.waiting[kind][place]
            self.place(replace(ref, options={**ref.options, **options}) if options else ref)

    def place(self, ref: MediaRef) -> None:
        """Put a medium that a content part names itself."""
        self.placed.append(replace(ref, options={**self.options, **ref.options}))

    def check(self) -> None:
        """Compare placeholders with media, and give every video its rate of a list.

        Raises:
            Rejection: `tag_count_mismatch`, with both counts; `bad_record`, a list of rates is
                longer or shorter than that of the videos.
        """
        for kind, entries in self.waiting.items():
            tags, media = self.tags[kind], len(entries)
            if tags != media:
                counts = f"{counted(media, kind)}, {counted(tags, f'<{kind}> placeholder')}"
                raise Rejection("tag_count_mismatch", f"{counts}; {_remedy(kind, tags, entries)}")
        if isinstance(rates := self.options.get("fps"), list):
            self._share(cast("list[float]", rates))

    def _share(self, rates: list[float]) -> None:
        # fps is of no use to images, and canvases of LLaVA-OneVision-2 come with a list too
        videos = [n for n, ref in enumerate(self.placed) if ref.kind == "video"]
        if videos and len(videos) != len(rates):
            counts = (
                f"fps holds {counted(len(rates), 'number')} for {counted(len(videos), 'video')}"
            )
            raise Rejection("bad_record", f"{counts}; give one number, or one for each video")
        for place, rate in zip(videos, rates, strict=False):
            ref = self.placed[place]
            if ref.options["fps"] is rates:
                self.placed[place] = replace(ref, options={**ref.options, "fps": rate})


def counted(number: int, noun: str) -> str:
    """Say how many, of one without the plural's s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _a(kind: Kind) -> str:
    return "an image" if kind == "image" else "a video"
