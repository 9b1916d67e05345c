"""Pixels of a pack's media, processed as the model wants them and checked against the slots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from PIL import Image

from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import Rope
from packcli.contract.vit import block_order, patch_positions
from packcli.shards.media_store import MediaStore
from packcli.train.files import MediaFiles
from packcli.train.images import brought_to, open_image
from packcli.train.joining import in_one, joined
from packcli.train.layouts import Known, layout_of
from packcli.train.processors import Processors
from packcli.train.sizing import Resizing
from packcli.train.videos import read_frames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.shards.manifest import Manifest
    from packcli.shards.media_files import Fetch, MediaBytes
    from packcli.train.files import Roots
    from packcli.train.layouts import Pixels
    from packcli.train.row import Medium


class Dataset(Protocol):
    """What is needed of a dataset.

    Attributes:
        path: its folder.
        manifest: how it was made.
    """

    @property
    def path(self) -> Path: ...  # noqa: D102 - told above
    @property
    def manifest(self) -> Manifest: ...  # noqa: D102 - told above


class MediaLoader:
    """Opens images and videos of packs and hands them to the model's own processors.

    Where a record or call may set limits of pixels, the stored grid decides the size: they are
    found again from it. The processors decide all else (patches, tiles, mean, order). They are
    built on first use, in the process that uses them. transformers builds processors of videos
    with torchvision only; images need none.

    Args:
        dataset: whose packs are collated: a PackDataset or PackStream.
        media_root: folder of relative paths, or one for each input name.
        model: directory whose processors to build; None when both needed ones are given.
        processors: ``image`` and ``video`` processors in place of the directory's.
        fetch: bytes of remote media, and of ``sha256:…`` that the dataset does not hold itself.

    Raises:
        InputError: a family whose pixels no layout tells, or the directory of another model.
    """

    def __init__(
        self,
        dataset: Dataset,
        media_root: Roots = ".",
        model: str | Path | None = None,
        *,
        processors: Mapping[str, Any] | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        manifest = dataset.manifest
        settings: Mapping[str, Any] = manifest.settings.get("processor", {})
        if manifest.model.has_media:
            layout_of(manifest.model)
        self._known = Known(manifest.model, settings)
        self._upright = exif_policy(manifest) == "apply"
        self._files = MediaFiles(media_root, MediaStore(dataset.path), fetch)
        self._processors = Processors(self._known, model, processors)

    @property
    def facts(self) -> ModelFacts:
        """The model that the dataset was made for."""
        return self._known.facts

    def batch(self, media: Sequence[Medium]) -> dict[str, torch.Tensor]:
        """Load the media of one flat row, joined as `forward` takes them.

        Raises:
            InputError: as `load`, or the family's `forward` cannot take such media together.
        """
        return joined([(medium, self.load(medium)) for medium in media], layout_of(self.facts))

    def load(self, medium: Medium) -> dict[str, torch.Tensor]:
        """Load one medium.

        Returns:
            Tensors by the names of `forward`: ``pixel_values`` and what else its family wants.

        Raises:
            InputError: it is missing, damaged, changed, or does not fill its slots; naming the
                sample and its source.
        """
        try:
            files = self._files.pixels(medium)
            found = self._clip(medium, files) if medium.frames else self._image(medium, files[0])
            return self._checked(medium, found) | self._positions(medium)
        except (InputError, Rejection) as error:
            raise InputError(
                f"sample {medium.sample!r} ({medium.source}), {medium.kind}: {error}"
            ) from error

    def _image(self, medium: Medium, file: MediaBytes) -> Pixels:
        image = open_image(file, upright=self._upright)
        _unchanged(medium, image.height, image.width)
        return self._processed(medium, image)

    def _processed(self, medium: Medium, image: Image.Image) -> Pixels:
        layout, processor = layout_of(self.facts), self._processors.of("image")
        image = brought_to(image, layout.shortest)
        images: list[Any] = [image]
        if layout.alone and medium.images > 1:
            # a second image, of one pixel, keeps the first from being cut up
            images.append(image.resize((1, 1)))
        options = layout.options(self._known.settings) | self._limits(medium, processor)
        output = processor(
            images=[images] if layout.nested else images, return_tensors="pt", **options
        )
        return layout.image(output, medium, self._known)

    def _clip(self, medium: Medium, files: list[MediaBytes]) -> Pixels:
        frames = self._frames(medium, files)
        _unchanged(medium, frames.shape[1], frames.shape[2])
        layout = layout_of(self.facts)
        if layout.clip is None:
            shown = replace(medium, grid=(1, *medium.grid[1:]))
            return in_one([self._processed(shown, Image.fromarray(frame)) for frame in frames])
        processor = self._processors.of("video")
        options = self._limits(medium, processor)
        if hasattr(processor, "cap_pixels_per_frame"):
            options["cap_pixels_per_frame"] = False
        output = processor(videos=[frames], do_sample_frames=False, return_tensors="pt", **options)
        return layout.clip(output, medium, self._known)

    def _positions(self, medium: Medium) -> dict[str, torch.Tensor]:
        """Where patches stand: as the files beside canvases say, else by frame, row and column."""
        if not layout_of(self.facts).positions:
            return {}
        files = self._files.positions(medium)
        merge = self.facts.merge_size
        if not files:
            found = patch_positions([medium.grid], merge, [medium.frames or None])
        else:
            parts = [read_positions(file) for file in files]
            found = np.concatenate(parts)
            if len(found) != np.prod(medium.grid):
                raise InputError(
                    f"{files[0].name}: {len(found)} patch positions for grid {medium.grid}; the "
                    "files changed since encode"
                )
            found = found[block_order(medium.grid, merge)]
        return {"patch_positions": torch.from_numpy(found)}

    def _frames(self, medium: Medium, files: list[MediaBytes]) -> NDArray[np.uint8]:
        if not medium.uri.startswith("["):
            return read_frames(files[0], medium.frames)
        # frames share canvases, so what is seen of those is not a choice of frames
        shown = range(len(files)) if self._files.positions(medium) else medium.frames
        images = [open_image(files[frame], upright=self._upright) for frame in shown]
        if len({image.size for image in images}) > 1:
            raise InputError("its frames are of several sizes; the files changed since encode")
        return np.stack([np.asarray(image) for image in images])

    def _limits(self, medium: Medium, processor: Any) -> dict[str, Any]:  # noqa: ANN401 - a transformers class
        """Set the size that leads to the stored grid, where a call may have set limits."""
        if not layout_of(self.facts).sized:
            return {}
        patch = int(processor.patch_size)
        by_volume = medium.kind == "video" and self.facts.rope is Rope.FRAMES
        resizing = Resizing(
            medium.height,
            medium.width,
            medium.grid[1] * patch,
            medium.grid[2] * patch,
            patch * int(processor.merge_size),
            frames=len(medium.frames) if by_volume else 0,
            temporal=int(getattr(processor, "temporal_patch_size", 2)),
        )
        size = getattr(processor, "size", None) or {}
        if "shortest_edge" not in size or (limits := resizing.limits()) is None:
            return {}
        return {"size": {"shortest_edge": limits[0], "longest_edge": limits[1]}}

    def _checked(self, medium: Medium, found: Pixels) -> dict[str, torch.Tensor]:
        if found.grid not in (None, medium.grid) or found.slots != medium.slots:
            raise InputError(
                f"{medium.uri[:60]}: the processor makes grid {found.grid} and {found.slots} "
                f"features, the pack holds grid {medium.grid} and {medium.slots} slots; give the "
                "processor of the model that the dataset was encoded for"
            )
        return found.tensors


def exif_policy(manifest: Manifest) -> str:
    """Return how encode read EXIF orientation, from the manifest of any later stage."""
    options: dict[str, Any] = manifest.options
    inputs: list[dict[str, Any]] = manifest.inputs
    while "images" not in options and inputs and "options" in inputs[0]:
        options, inputs = inputs[0]["options"], inputs[0]["inputs"]
    return str(options.get("images", {}).get("exif", "apply"))


def _unchanged(medium: Medium, height: int, width: int) -> None:
    if (height, width) != (medium.height, medium.width):
        raise InputError(
            f"{medium.uri[:60]} is {width}x{height}, at encode it was "
            f"{medium.width}x{medium.height}; restore the file, or encode again"
        )


def read_positions(file: MediaBytes) -> NDArray[np.int64]:
    """Read the positions beside a canvas, row by row.

    Raises:
        InputError: it is no such file.
    """
    try:
        with file.open() as stream:
            return np.load(stream, allow_pickle=False).astype(np.int64).reshape(-1, 3)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{file.name}: cannot be read: {error}; copy it again") from error
