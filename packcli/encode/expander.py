"""From the media that a record names to their grids, and to the text that stands for them."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection
from packcli.encode.media.canvases import beside, read_positions
from packcli.encode.media.images import image_size
from packcli.encode.media.limits import image_limits, video_options
from packcli.encode.media.sources import locate
from packcli.encode.media.videos import video_metadata
from packcli.encode.records.canvases import as_clip
from packcli.encode.sample import Medium
from packcli.families.family import VideoMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from packcli.encode.media.sources import MediaRoot, Source
    from packcli.encode.options import EncodeOptions
    from packcli.encode.records.conversation import Conversation, MediaRef
    from packcli.families.family import CanvasRule, Expansion, Family, VideoPlan
    from packcli.shards.media_store import MediaStore

_LIST_FPS = 2.0
"""Rate of a frame list that names none: the processors' own default."""


class Expander:
    """Sizes media from their headers, and plans them as the model's processor does.

    Args:
        family: the model.
        options: what the user asked for.
        root: folder of relative paths.

    Attributes:
        store: where the bytes of media go; None to leave them where they are.
    """

    def __init__(self, family: Family, options: EncodeOptions, root: MediaRoot) -> None:
        self._family = family
        self._options = options
        self._root = root
        self.store: MediaStore | None = None

    def canvases(self, conversation: Conversation) -> Conversation:
        """Take images with patch positions for the canvases of one clip, where the model does.

        Raises:
            Rejection: `bad_media_ref` or `bad_record`, the positions are not those of one clip.
        """
        images = conversation.media
        if not images or self._family.canvases is None:
            return conversation
        if any(ref.kind != "image" for ref in images):
            return conversation
        fps = images[0].options.get("fps")
        files = beside(images, self._root)
        if not any(files):
            if fps is None:
                return conversation
            message = "the record has fps and its images no .npy of patch positions"
            raise Rejection("bad_record", f"{message}; write them, or drop fps")
        canvases = zip(images, files, strict=True)
        held = tuple(replace(image, positions=file) for image, file in canvases)
        rates = fps if isinstance(fps, list) else [fps]
        if len({*rates}) != 1:
            raise Rejection("bad_record", f"fps is {fps!r:.40} for one clip of canvases; give one")
        return as_clip(replace(conversation, media=held), rates[0])

    def image(
        self, ref: MediaRef, images: int, warn: Callable[[str], None]
    ) -> tuple[Medium, Expansion]:
        """Plan an image.

        Args:
            ref: the image.
            images: how many the record holds.
            warn: is told the code of what is to be known of it.

        Raises:
            Rejection: it cannot be read, or the model cannot take it.
        """
        source = locate(ref, self._root)
        size = image_size(source, self._options.images)
        if size.animated:
            warn("animated_image_first_frame")
        limits = image_limits(ref, self._options.pixels)
        plan = self._family.image_plan(size.height, size.width, limits, images=images)
        medium = Medium("image", self._address(ref, [source]), size.height, size.width, plan.grid)
        return medium, self._family.expand_image(plan)

    def video(self, ref: MediaRef) -> tuple[Medium, Expansion]:
        """Plan a video, a list of frames, or canvases.

        Raises:
            Rejection: as `image`.
        """
        rule = self._family.canvases
        sources = [locate(one, self._root) for one in ref.frames or (ref,)]
        if rule is not None and ref.frames and ref.frames[0].positions is not None:
            return self._clip(rule, ref, sources)
        metadata = (
            self._frame_list(ref, sources)
            if ref.frames
            else video_metadata(sources[0], decode=self._options.images.decode)
        )
        plan = self._family.video_plan(metadata, video_options(ref, self._options.video))
        size = (metadata.height, metadata.width)
        medium = self._medium(plan, self._address(ref, sources), size)
        return medium, self._family.expand_video(plan)

    def _clip(
        self, rule: CanvasRule, ref: MediaRef, sources: list[Source]
    ) -> tuple[Medium, Expansion]:
        shown = self._frame_list(ref, sources)
        grid = rule.grid(shown.height, shown.width, len(sources))
        files = [frame.positions for frame in ref.frames]
        told = [locate(file, self._root) for file in files if file is not None]
        positions = read_positions(told, grid, rule.merge_size)
        # times are the record's own matter: a rate that samples videos says nothing of canvases
        options = replace(video_options(ref, self._options.video), fps=ref.options["fps"])
        plan = rule.plan(grid, positions, options)
        pairs = zip(sources, told, strict=True)
        address = self._address(ref, [source for pair in pairs for source in pair])
        medium = self._medium(plan, address, (shown.height, shown.width))
        return medium, rule.write(plan, ref.options["between"])

    def _medium(self, plan: VideoPlan, address: str, size: tuple[int, int]) -> Medium:
        return Medium(
            # without a token of its own, a video is told by its slots: frames of an image grid
            "image" if self._family.facts.video_token_id is None else "video",
            address,
            *size,
            plan.grid,
            plan.second_per_grid,
            tuple(plan.frame_indices.tolist()),
            plan.timestamps,
        )

    def _address(self, ref: MediaRef, sources: list[Source]) -> str:
        """Return what the row names: the record's own address, or that of the stored bytes."""
        if self.store is None:
            return _uri(ref)
        kept: list[str] = []
        for source in sources:
            with source.open() as stream:
                kept.append(self.store.keep(stream))
        if ref.frames and len(kept) > len(ref.frames):
            return json.dumps([kept[n : n + 2] for n in range(0, len(kept), 2)])
        return json.dumps(kept) if ref.frames else kept[0]

    def _frame_list(self, ref: MediaRef, sources: list[Source]) -> VideoMetadata:
        sizes = [image_size(source, self._options.images) for source in sources]
        height, width = sizes[0].height, sizes[0].width
        for number, size in enumerate(sizes):
            if (size.height, size.width) != (height, width):
                message = f"frame {number} is {size.width}x{size.height}, frame 0 {width}x{height}"
                raise Rejection("bad_media_ref", f"{message}; frames of a video are of one size")
        fps = float(ref.options.get("fps") or self._options.video.fps or _LIST_FPS)
        return VideoMetadata(len(sizes), fps, height, width, listed=True)


def _uri(ref: MediaRef) -> str:
    if ref.frames:
        return json.dumps([_frame_uri(frame) for frame in ref.frames], ensure_ascii=False)
    if ref.data is not None:
        return f"sha256:{sha256(ref.data).hexdigest()}"
    return ref.uri or ""


def _frame_uri(frame: MediaRef) -> str | list[str]:
    """Name a frame, or a canvas and the file of its positions."""
    return _uri(frame) if frame.positions is None else [_uri(frame), _uri(frame.positions)]
