"""Canvases: images that hold patches of a video's frames, as LLaVA-OneVision-2 trains on them.

A record names them as `images`, with a `.npy` of patch positions for each, and `fps` where the
frames have times. Its trainer takes all canvases of a record for one grid, and with times it
writes one block a frame in place of one block a canvas.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from packcli.contract.errors import Rejection
from packcli.encode.records.conversation import Conversation, JsonObject, MediaRef, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

POSITIONS = "patch_positions"
_TAG = {"image": "<image>", "video": "<video>"}


def with_positions(images: list[MediaRef], positions: object) -> list[MediaRef]:
    """Give every image the file that tells where its patches stand.

    Args:
        images: of one record.
        positions: the record's `patch_positions`: paths, one an image; None where it has none.

    Raises:
        Rejection: `bad_media_ref`, they are not as many as the images, or only some are given.
    """
    files = cast("list[object]", positions if isinstance(positions, list) else [positions])
    given = [file for file in files if file is not None and file != ""]
    if not given:
        return images
    named = all(isinstance(file, str) for file in given)
    if not named or len(given) != len(images) or len(files) != len(images):
        message = f"{POSITIONS} names {len(given)} files for {len(images)} images"
        raise Rejection("bad_media_ref", f"{message}; give a .npy for each image, or none")
    pairs = zip(images, cast("list[str]", given), strict=True)
    return [replace(image, positions=MediaRef("image", uri=file)) for image, file in pairs]


def tags_of_canvases(messages: list[object], images: list[MediaRef]) -> list[object]:
    """Write a `<video>` that images stand for as that many `<image>`, one a line."""
    block = "\n".join([_TAG["image"]] * len(images))
    return [_retagged(message, block) for message in messages]


def _retagged(message: object, block: str) -> object:
    if not isinstance(message, dict):
        return message
    told = cast("JsonObject", message)
    texts = {key: text for key in ("content", "value") if isinstance(text := told.get(key), str)}
    return {**told, **{key: text.replace(_TAG["video"], block) for key, text in texts.items()}}


def as_clip(conversation: Conversation, fps: float | None) -> Conversation:
    """Let one place stand for all canvases.

    Args:
        conversation: all of its media are canvases.
        fps: frames a second; None where frames have no times, and canvases stay apart.

    Returns:
        The conversation with one video of frames, the canvases; its option `between` is the
        text from one canvas to the next.

    Raises:
        Rejection: `bad_record`, canvases stand in several turns, or with words between them.
    """
    turns = list(conversation.turns)
    held = [n for n, turn in enumerate(turns) if _places(turn.content)]
    if len(held) != 1:
        message = f"canvases stand in {len(held)} turns; put them all into one"
        raise Rejection("bad_record", message)
    turn = turns[held[0]]
    parts, between = _joined(cast("Sequence[Part]", turn.content), timed=fps is not None)
    turns[held[0]] = replace(turn, content=parts)
    options = {**conversation.media[0].options, "between": between, "fps": fps}
    clip = MediaRef("video", frames=conversation.media, options=options)
    return replace(conversation, turns=tuple(turns), media=(clip,))


def _places(content: str | tuple[Part, ...]) -> list[int]:
    if isinstance(content, str):
        return []
    return [place for place, part in enumerate(content) if part.kind != "text"]


def _joined(parts: Sequence[Part], *, timed: bool) -> tuple[tuple[Part, ...], str]:
    """Put one place where the canvases stand, and tell what stands between them."""
    places = _places(tuple(parts))
    first, last = places[0], places[-1]
    apart = ["".join(p.text for p in parts[a + 1 : b]) for a, b in pairwise(places)]
    if any(text.strip() for text in apart) or (len({*apart}) > 1 and not timed):
        message = "there are words between canvases"
        raise Rejection("bad_record", f"{message}; put canvases on lines of their own")
    rest = list(parts[last + 1 :])
    if timed and rest and rest[0].kind == "text":
        # a block of a frame ends with a newline of its own
        rest[0] = Part("text", rest[0].text.removeprefix("\n"))
    return (*parts[:first], Part("video"), *rest), apart[0] if apart else ""
