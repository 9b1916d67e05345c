"""What a record says, whatever its shape: turns, and the media that stand in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject = dict[str, Any]


Kind = Literal["image", "video"]
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class MediaRef:
    """One image or video, as the record names it; nothing is opened here.

    Attributes:
        kind: what it is.
        uri: a path, a `data:` or an `http(s):` address; None for embedded bytes and frame lists.
        data: the embedded file.
        frames: the images of a video that is given as a list of files.
        options: what the record says about sampling and size (`fps`, `max_pixels`, …).
        positions: the file that tells where the patches of a canvas stand.
    """

    kind: Kind
    uri: str | None = None
    data: bytes | None = None
    frames: tuple[MediaRef, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    positions: MediaRef | None = None

    @property
    def embedded(self) -> bool:
        """Whether the record holds the file itself, or that of a frame, and no address has it."""
        return self.data is not None or any(frame.embedded for frame in self.frames)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a turn: text, or the place of one medium."""

    kind: Literal["text", "image", "video"]
    text: str = ""


# not frozen, like all that is made for every record: that costs five times as much to make
@dataclass(slots=True)
class Turn:
    """One message.

    Attributes:
        role: one of four, aliases resolved.
        content: text, or parts in order.
        tool_calls: as the record gives them (OpenAI form), assistant turns only.
        reasoning_content: the thinking that is kept apart from the answer.
        name: speaker or tool.
        tool_call_id: which call a tool turn answers.
        loss: False leaves the turn out of the labels.
        weight: factor of the loss of this turn, None for 1.
    """

    role: Role
    content: str | tuple[Part, ...]
    tool_calls: list[JsonObject] | None = None
    reasoning_content: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    loss: bool | None = None
    weight: float | None = None

    @property
    def plain(self) -> bool:
        """Whether there is nothing but the role and the content."""
        return (
            self.tool_calls is None
            and self.reasoning_content is None
            and self.name is None
            and self.tool_call_id is None
            and self.loss is None
            and self.weight is None
        )

    @property
    def text(self) -> str:
        """All text of the turn, media left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)

    @property
    def empty(self) -> bool:
        """Whether the turn says nothing: there is no answer to learn."""
        text = self.text
        if text and not text.isspace():
            return False
        return not (self.tool_calls or (self.reasoning_content or "").strip())


@dataclass(slots=True)
class Conversation:
    """A record in the one shape that the rest of encode knows.

    Attributes:
        id: the record's own name, None where it has none.
        turns: in order; empty only for plain text.
        media: in the order of their placeholders.
        tools: tool descriptions for the chat template.
        template_kwargs: extra variables for the chat template.
        text: a document without turns (pretraining), else None.
    """

    id: str | None
    turns: tuple[Turn, ...]
    media: tuple[MediaRef, ...] = ()
    tools: list[JsonObject] | None = None
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    text: str | None = None
