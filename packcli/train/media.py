"""Pixels of a pack's media, processed as the model wants them and checked against the slots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import Rope
from packcli.train.files import Fetch, MediaFiles, Roots
from packcli.train.images import open_image
from packcli.train.sizing import Resizing
from packcli.train.videos import read_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts
    from packcli.shards.manifest import Manifest
    from packcli.train.files import MediaBytes
    from packcli.train.row import Medium

_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
"""Families whose processors lay all pixels out as patches, in the grids that packs store."""


class MediaLoader:
    """Opens images and videos of packs and hands them to the model's own processors.

    The stored grid decides the size: pixel limits of a call or record at encode are found again
    from it. The processors decide all else (patches, mean, order). They are built on first use,
    in the process that uses them.

    Args:
        manifest: of the dataset, ``dataset.manifest``.
        media_root: folder of relative paths, or one for each input name.
        model: directory whose processors to build; None when both needed ones are given.
        processors: ``image`` and ``video`` processors in place of the directory's.
        fetch: bytes of embedded (``sha256:…``) or remote media.

    Raises:
        InputError: a family whose pixels are laid out in another way.
    """

    def __init__(
        self,
        manifest: Manifest,
        media_root: Roots = ".",
        model: str | Path | None = None,
        *,
        processors: Mapping[str, Any] | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        self._facts: ModelFacts = manifest.model
        if self._facts.has_media and self._facts.family not in _FAMILIES:
            raise InputError(
                f"pixels of family {self._facts.family} are not prepared here, those of "
                f"{', '.join(_FAMILIES)} are; give the collator an object with load(medium)"
            )
        self._settings: Mapping[str, Any] = manifest.settings.get("processor", {})
        self._upright = exif_policy(manifest) == "apply"
        self._files = MediaFiles(media_root, fetch)
        self._model = model
        self._processors: dict[str, Any] = dict(processors or {})

    def load(self, medium: Medium) -> torch.Tensor:
        """Load one medium.

        Returns:
            (patches, pixels of a patch) floats, as `pixel_values` hold them.

        Raises:
            InputError: it is missing, damaged, changed, or does not fill its slots; naming the
                sample and its source.
        """
        try:
            files = self._files.find(medium)
            if medium.kind == "image":
                return self._image(medium, files[0])
            return self._video(medium, files)
        except (InputError, Rejection) as error:
            raise InputError(
                f"sample {medium.sample!r} ({medium.source}), {medium.kind}: {error}"
            ) from error

    def _image(self, medium: Medium, file: MediaBytes) -> torch.Tensor:
        image = open_image(file, upright=self._upright)
        _unchanged(medium, image.height, image.width)
        processor = self._processor("image")
        options = _options(processor, self._resizing(medium, processor))
        output = processor(images=[image], return_tensors="pt", **options)
        return self._checked(medium, output, "pixel_values")

    def _video(self, medium: Medium, files: list[MediaBytes]) -> torch.Tensor:
        frames = self._frames(medium, files)
        _unchanged(medium, frames.shape[1], frames.shape[2])
        processor = self._processor("video")
        options = _options(processor, self._resizing(medium, processor))
        if hasattr(processor, "cap_pixels_per_frame"):
            options["cap_pixels_per_frame"] = False
        output = processor(videos=[frames], do_sample_frames=False, return_tensors="pt", **options)
        return self._checked(medium, output, "pixel_values_videos")

    def _frames(self, medium: Medium, files: list[MediaBytes]) -> NDArray[np.uint8]:
        if not medium.uri.startswith("["):
            return read_frames(files[0], medium.frames)
        images = [open_image(files[frame], upright=self._upright) for frame in medium.frames]
        if len({image.size for image in images}) > 1:
            raise InputError("its frames are of several sizes; the files changed since encode")
        return np.stack([np.asarray(image) for image in images])

    def _resizing(self, medium: Medium, processor: Any) -> Resizing:  # noqa: ANN401 - a transformers class
        patch = int(processor.patch_size)
        by_volume = medium.kind == "video" and self._facts.rope is Rope.FRAMES
        return Resizing(
            medium.height,
            medium.width,
            medium.grid[1] * patch,
            medium.grid[2] * patch,
            patch * int(processor.merge_size),
            frames=len(medium.frames) if by_volume else 0,
            temporal=int(getattr(processor, "temporal_patch_size", 2)),
        )

    def _checked(self, medium: Medium, output: Mapping[str, Any], name: str) -> torch.Tensor:
        pixels, grid = output[name], tuple(output[f"{medium.kind}_grid_thw"][0].tolist())
        slots = int(self._facts.slots(np.array([medium.grid]))[0])
        if grid != medium.grid or pixels.shape[0] != np.prod(medium.grid) or slots != medium.slots:
            raise InputError(
                f"{medium.uri[:60]}: the processor makes grid {grid} ({pixels.shape[0]} patches), "
                f"the pack holds grid {medium.grid} and {medium.slots} slots; give the processor "
                "of the model that the dataset was encoded for"
            )
        return pixels

    def _processor(self, kind: str) -> Any:  # noqa: ANN401 - a transformers class
        if kind not in self._processors:
            if self._model is None:
                raise InputError(f"no {kind} processor; give model= or processors={{'{kind}': …}}")
            self._processors[kind] = _built(kind, Path(self._model))
        processor = self._processors[kind]
        for name in ("patch_size", "merge_size", "temporal_patch_size"):
            wanted, found = self._settings.get(name), getattr(processor, name, None)
            # the grid is met by resizing, so another patch size would show in the model only
            if wanted is not None and found != wanted:
                raise InputError(
                    f"{kind} processor with {name} {found}, the dataset was encoded with {wanted}; "
                    "give the processor of the model that it was encoded for"
                )
        return processor


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


def _options(processor: Any, resizing: Resizing) -> dict[str, Any]:  # noqa: ANN401 - a transformers class
    """Set the size that leads to the stored grid, where the processor is of the Qwen rule."""
    size = getattr(processor, "size", None) or {}
    if "shortest_edge" not in size or (limits := resizing.limits()) is None:
        return {}
    return {"size": {"shortest_edge": limits[0], "longest_edge": limits[1]}}


def _built(kind: str, model: Path) -> Any:  # noqa: ANN401 - a transformers class
    import transformers  # noqa: PLC0415 - heavy, and text models never need it

    auto: Any = getattr(transformers, f"Auto{kind.title()}Processor")
    return auto.from_pretrained(model, local_files_only=True)
