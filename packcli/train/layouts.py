"""How each family's `forward` takes the pixels of one flat row, and how many slots they fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from packcli.contract.model import ModelFacts
    from packcli.train.row import Medium, Pack

Output = Mapping[str, Any]
"""What a processor of transformers returns for one medium."""


class Pixels(NamedTuple):
    """One medium, processed.

    Attributes:
        tensors: by the names of `forward`.
        grid: patches or tiles that they hold; None where only the slots tell.
        slots: features that the vision tower makes of them.
    """

    tensors: dict[str, torch.Tensor]
    grid: tuple[int, ...] | None
    slots: int


class Known(NamedTuple):
    """What the dataset says of its model.

    Attributes:
        facts: of the model.
        settings: of its processor.
    """

    facts: ModelFacts
    settings: Mapping[str, Any]


Read = Callable[[Output, "Medium", Known], Pixels]
Beside = Callable[[Sequence["Pack"], "ModelFacts"], dict[str, torch.Tensor]]


def _nothing(_packs: Sequence[Pack], _facts: ModelFacts) -> dict[str, torch.Tensor]:
    return {}


@dataclass(frozen=True, slots=True)
class Layout:
    """One family's way.

    Attributes:
        image: reads what the image processor made of one image.
        clip: reads what the video processor made of one video; None where every frame is an
            image of its own.
        beside: what `forward` wants besides pixels, of whole packs.
        options: what the family's whole processor tells its image processor, by the dataset's
            settings.
        sized: whether one call or record may have set limits of pixels (Qwen's processors).
        nested: images are given in a list of lists, one a sample.
        alone: an image of several in its sample is processed in another way than a lone one.
        shortest: pixels to which a short side is brought first.
        axis: along which the media of a row are joined.
        padded: sides of images are filled up to the largest in the row.
        grids: `forward` takes grids.
        types: name under which `forward` takes what each token is; empty where it does not ask.
        positions: `forward` takes where every patch stands.
        blocks: the slots of an image attend to each other in both directions.
    """

    image: Read
    clip: Read | None = None
    beside: Beside = _nothing
    options: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _settings: {}
    sized: bool = False
    nested: bool = False
    alone: bool = False
    shortest: int = 1
    axis: int = 0
    padded: bool = False
    grids: bool = False
    types: str = ""
    positions: bool = False
    blocks: bool = False


def _patches(name: str, kind: str) -> Read:
    """Read pixels that are laid out as patches, beside their grid."""

    def read(output: Output, _medium: Medium, known: Known) -> Pixels:
        pixels = output[name]
        grid = tuple(output[f"{kind}_grid_thw"][0].tolist())
        slots = int(known.facts.slots([grid])[0]) if pixels.shape[0] == np.prod(grid) else 0
        return Pixels({name: pixels}, grid, slots)

    return read


def _tiled(pixels: torch.Tensor, medium: Medium, known: Known) -> Pixels:
    """Count the slots of (n, channels, height, width) tiles, frames or whole images."""
    grid = (pixels.shape[0], *medium.grid[1:])
    return Pixels({"pixel_values": pixels}, grid, int(known.facts.slots([grid])[0]))


def _tiles(output: Output, medium: Medium, known: Known) -> Pixels:
    return _tiled(output["pixel_values"], medium, known)


def _frames_as_tiles(output: Output, medium: Medium, known: Known) -> Pixels:
    return _tiled(output["pixel_values_videos"][0], medium, known)


def _tiles_of_a_row(output: Output, medium: Medium, known: Known) -> Pixels:
    """Idefics3: a row's tiles lie behind one another, each with its mask of pixels."""
    pixels, mask = output["pixel_values"], output["pixel_attention_mask"]
    found = _tiled(pixels[0], medium, known)
    return found._replace(tensors={"pixel_values": pixels, "pixel_attention_mask": mask})


def _views(output: Output, medium: Medium, _known: Known) -> Pixels:
    """LLaVA-NeXT: overview and tiles; the tower cuts the padding off by the image's size."""
    pixels = output["pixel_values"][0]
    sizes = torch.as_tensor(output["image_sizes"])[:1]
    return Pixels({"pixel_values": pixels, "image_sizes": sizes}, None, medium.slots)


def _own_shape(output: Output, _medium: Medium, known: Known) -> Pixels:
    """Pixtral: every image at its own shape."""
    pixels, sizes = output["pixel_values"], torch.as_tensor(output["image_sizes"])
    patch = int(known.settings["patch_size"])
    grid = (1, *(side // patch for side in sizes[0].tolist()))
    slots = int(known.facts.slots([grid])[0])
    return Pixels({"pixel_values": pixels, "image_sizes": sizes}, grid, slots)


def _stacked_clip(output: Output, medium: Medium, _known: Known) -> Pixels:
    """LLaVA-OneVision: the frames of a video, each pooled, and one line end."""
    pixels = output["pixel_values_videos"]
    frames = len(medium.frames)
    each = (medium.slots - 1) // frames
    return Pixels({"pixel_values_videos": pixels}, None, pixels.shape[1] * each + 1)


def _counted(output: Output, name: str, positions: str, known: Known) -> Pixels:
    places = output[positions]
    slots = int((places != -1).all(dim=-1).sum()) // known.facts.merge_size**2
    return Pixels({name: output[name], positions: places}, None, slots)


def _filled_patches(output: Output, _medium: Medium, known: Known) -> Pixels:
    """Gemma 4: patches filled up to a budget, and where each stands."""
    return _counted(output, "pixel_values", "image_position_ids", known)


def _filled_frames(output: Output, _medium: Medium, known: Known) -> Pixels:
    found = _counted(output, "pixel_values_videos", "video_position_ids", known)
    frames = torch.tensor([found.tensors["pixel_values_videos"].shape[0]])
    return found._replace(tensors=found.tensors | {"num_frames_per_video": frames})


def _seconds(packs: Sequence[Pack], _facts: ModelFacts) -> dict[str, torch.Tensor]:
    told = [pack.second_per_grid_ts for pack in packs if pack.second_per_grid_ts is not None]
    seconds = np.concatenate([np.zeros(0, np.float32), *told])
    return {"second_per_grid_ts": torch.from_numpy(seconds)} if seconds.size else {}


def _images_a_sample(packs: Sequence[Pack], _facts: ModelFacts) -> dict[str, torch.Tensor]:
    """LLaVA-OneVision cuts up only the lone image of a sample."""
    images = Counter(
        (number, medium.place)
        for number, pack in enumerate(packs)
        for medium in pack.media
        if medium.kind == "image"
    )
    return {"batch_num_images": torch.tensor([*images.values()])} if images else {}


def _cut_up(_settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"crop_to_patches": True}


_QWEN = Layout(
    _patches("pixel_values", "image"),
    _patches("pixel_values_videos", "video"),
    sized=True,
    grids=True,
)
_WHOLE_PATCHES = Layout(_patches("pixel_values", "image"), grids=True)

LAYOUTS: dict[str, Layout] = {
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": Layout(_QWEN.image, _QWEN.clip, _seconds, sized=True, grids=True),
    "qwen3_vl": _QWEN,
    "qwen3_5": _QWEN,
    "glm4v": _WHOLE_PATCHES,
    "kimi_k25": _WHOLE_PATCHES,
    "llava_onevision2": Layout(_WHOLE_PATCHES.image, positions=True, shortest=28, grids=True),
    "internvl": Layout(_tiles, _frames_as_tiles, options=_cut_up),
    "aya_vision": Layout(_tiles, options=_cut_up),
    "cohere2_vision": Layout(_tiles),
    "ovis2": Layout(_tiles),
    "llava": Layout(_tiles),
    "gemma3": Layout(
        _tiles,
        options=lambda _settings: {"do_pan_and_scan": False},
        types="token_type_ids",
        blocks=True,
    ),
    "gemma4": Layout(_filled_patches, _filled_frames, types="mm_token_type_ids", blocks=True),
    "idefics3": Layout(_tiles_of_a_row, nested=True, axis=1),
    "pixtral": Layout(
        _own_shape,
        options=lambda told: {"patch_size": int(told["patch_size"]) * int(told["merge_size"])},
        padded=True,
    ),
    "llava_next": Layout(_views),
    "llava_onevision": Layout(_views, _stacked_clip, _images_a_sample, nested=True, alone=True),
}
"""By family."""


def layout_of(facts: ModelFacts) -> Layout:
    """Return the layout of a family.

    Raises:
        InputError: none is known.
    """
    if facts.family not in LAYOUTS:
        raise InputError(
            f"packcli does not know how family {facts.family} takes pixels, of these it does: "
            f"{', '.join(sorted(LAYOUTS))}; collate without media and add the pixels"
        )
    return LAYOUTS[facts.family]
