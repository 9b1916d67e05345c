"""Plain dialogues: what trainers that read records understand, and nothing that they would drop.

Reads the two shapes that those trainers share, `messages` and `conversations`. Whatever else a
record says is refused, because the trainer would pass it over in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.columns import Axis
from packcli.export.refusals import UnfitError
from packcli.shards.media_store import is_stored

if TYPE_CHECKING:
    from packcli.contract.packs import Packs

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
}
_MARKS = {"image": "<image>", "video": "<video>"}
_RECORD = {"id", "messages", "conversations", "system", "image", "images", "video", "videos"}
_TURN = {"role", "content", "from", "value"}
_OWN_WORDS = "train it with packcli.train, which needs no records"
_FRAMES = "name a video file, or train it with packcli.train"


@dataclass(slots=True)
class Dialogue:
    """A record of text turns, images and videos.

    Attributes:
        turns: role (``system``, ``user`` or ``assistant``) and text; a medium stands in user
            turns as ``<image>`` or ``<video>``.
        images: paths, in the order of their places.
        videos: paths, in the order of their places.
    """

    turns: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    images: list[str] = field(default_factory=list[str])
    videos: list[str] = field(default_factory=list[str])

    @property
    def system(self) -> bool:
        """Whether there is a system turn."""
        return any(role == "system" for role, _ in self.turns)

    def rounds(self) -> tuple[list[str], list[str]]:
        """Return questions and answers, one for one.

        Raises:
            UnfitError: they do not alternate.
        """
        roles = [role for role, _ in self.turns]
        if len(roles) % 2 or roles != ["user", "assistant"] * (len(roles) // 2):
            raise UnfitError(
                "user and assistant do not take turns, or the last word is not the assistant's",
                "merge neighbouring turns of one role, end with an answer, and encode again",
            )
        texts = [text for _, text in self.turns]
        return texts[::2], texts[1::2]


def read_dialogue(record: dict[str, Any]) -> Dialogue:
    """Read a record.

    Raises:
        UnfitError: it says something that a plain dialogue cannot.
    """
    if extra := [key for key in record if key not in _RECORD and _says(record[key])]:
        raise UnfitError(f"its record has {', '.join(extra)}, which the target drops", _OWN_WORDS)
    messages = record.get("messages") or record.get("conversations")
    if not isinstance(messages, list):
        raise UnfitError("its record has neither messages nor conversations", _OWN_WORDS)
    dialogue = Dialogue()
    beside = {"image": _paths(record, "image"), "video": _paths(record, "video")}
    if isinstance(record.get("system"), str):
        dialogue.turns.append(("system", _words(record["system"], "system")))
    for message in cast("list[Any]", messages):
        _read_turn(message, dialogue, beside)
    if beside["image"] or beside["video"]:
        raise UnfitError(
            "its record names more media than it has places for", "write a tag for each"
        )
    return dialogue


def dialogue_of(packs: Packs, sample: int, record: dict[str, Any]) -> Dialogue:
    """Read the record of a sample, and make sure that it is the sample's.

    Raises:
        UnfitError: it says more than a plain dialogue can, or names other media.
    """
    dialogue = read_dialogue(record)
    take_media(packs, sample, dialogue)
    return dialogue


def media_of(packs: Packs, sample: int) -> list[tuple[str, str]]:
    """Return kind and uri of a sample's media."""
    if Axis.MEDIUM not in packs.axes:
        return []
    span = slice(*packs.axes[Axis.MEDIUM].values[sample : sample + 2].tolist())
    kinds, uris = (packs.columns[f"media.{name}"][span].tolist() for name in ("kind", "uri"))
    return list(zip(kinds, uris, strict=True))


def take_media(packs: Packs, sample: int, dialogue: Dialogue) -> None:
    """Compare the media of a record with those of the sample; embedded ones take their place.

    Raises:
        UnfitError: they differ.
    """
    told = {"image": dialogue.images, "video": dialogue.videos}
    for kind, named in told.items():
        uris = [uri for other, uri in media_of(packs, sample) if other == kind]
        same = len(uris) == len(named) and all(
            uri == name or is_stored(uri) for uri, name in zip(uris, named, strict=True)
        )
        if not same:
            raise UnfitError(
                "its record names other media than the sample was made from, or holds their bytes",
                "give the records that were encoded, with media as files",
            )
        named[:] = uris


def _says(value: object) -> bool:
    return value not in (None, [], {}, "")


def _paths(record: dict[str, Any], kind: str) -> list[str]:
    for key in (kind, f"{kind}s"):
        value = record.get(key)
        if _says(value):
            paths = cast("list[Any]", value if isinstance(value, list) else [value])
            if any(isinstance(path, list) for path in paths):
                raise UnfitError("its record has a video that is a list of frames", _FRAMES)
            if not all(isinstance(path, str) for path in paths):
                raise UnfitError(f"its record has {key} that are no paths", _OWN_WORDS)
            return paths
    return []


def _read_turn(message: object, dialogue: Dialogue, beside: dict[str, list[str]]) -> None:
    turn = cast("dict[str, Any]", message if isinstance(message, dict) else {})
    if extra := [key for key in turn if key not in _TURN and _says(turn[key])]:
        raise UnfitError(f"a turn has {', '.join(extra)}, which the target drops", _OWN_WORDS)
    role = _ROLES.get(str(turn.get("role", turn.get("from"))))
    if role is None:
        raise UnfitError("a turn is neither of user, assistant nor system", _OWN_WORDS)
    content: Any = turn.get("content", turn.get("value"))
    if isinstance(content, str):
        text = content if role == "user" else _words(content, role)
        for kind, mark in _MARKS.items():
            for _ in range(text.count(mark)):
                _take(kind, None, dialogue, beside)
    else:
        text = "".join(_part(part, role, dialogue, beside) for part in _listed(content))
    dialogue.turns.append((role, text))


def _listed(content: object) -> list[Any]:
    if not isinstance(content, list):
        raise UnfitError("a turn has no text", _OWN_WORDS)
    return cast("list[Any]", content)


def _part(part: object, role: str, dialogue: Dialogue, beside: dict[str, list[str]]) -> str:
    if isinstance(part, str):
        return _words(part, role)
    told = cast("dict[str, Any]", part if isinstance(part, dict) else {})
    kind = str(told.get("type", "")).removesuffix("_url")
    if kind == "text" and isinstance(told.get("text"), str):
        return _words(told["text"], role)
    if kind not in _MARKS or role != "user" or set(told) - {"type", kind, f"{kind}_url", "url"}:
        raise UnfitError("a part of a turn is neither text, image nor video", _OWN_WORDS)
    uri: Any = told.get(kind, told.get(f"{kind}_url", told.get("url")))
    uri = cast("dict[str, Any]", uri).get("url") if isinstance(uri, dict) else uri
    _take(kind, uri, dialogue, beside)
    return _MARKS[kind]


def _take(kind: str, uri: object, dialogue: Dialogue, beside: dict[str, list[str]]) -> None:
    if uri is None and beside[kind]:
        uri = beside[kind].pop(0)
    if isinstance(uri, list):
        raise UnfitError("its record has a video that is a list of frames", _FRAMES)
    if not isinstance(uri, str):
        raise UnfitError("its record has a place for a medium and no path for it", _OWN_WORDS)
    (dialogue.images if kind == "image" else dialogue.videos).append(uri)


def _words(text: str, where: str) -> str:
    """Return text in which a tag would be taken for a medium by the trainer."""
    if found := [mark for mark in _MARKS.values() if mark in text]:
        raise UnfitError(
            f"its {where} turn has {found[0]} as words, which the target takes for a medium",
            _OWN_WORDS,
        )
    return text
