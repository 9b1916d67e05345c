"""The pixels of several media, as one flat row has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

from packcli.contract.errors import InputError
from packcli.train.layouts import Pixels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packcli.train.layouts import Layout
    from packcli.train.row import Medium


def in_one(frames: Sequence[Pixels]) -> Pixels:
    """Join the frames of a video that are images of their own."""
    names = frames[0].tensors
    grids = [frame.grid for frame in frames if frame.grid is not None]
    return Pixels(
        {name: torch.cat([frame.tensors[name] for frame in frames]) for name in names},
        (len(frames), *grids[0][1:]),
        sum(frame.slots for frame in frames),
    )


def joined(
    media: Sequence[tuple[Medium, dict[str, torch.Tensor]]], layout: Layout
) -> dict[str, torch.Tensor]:
    """Join media in their order.

    Raises:
        InputError: they differ in a side along which they cannot be joined, naming the sample.
    """
    parts: dict[str, list[tuple[Medium, torch.Tensor]]] = {}
    for medium, tensors in media:
        for name, tensor in tensors.items():
            parts.setdefault(name, []).append((medium, tensor))
    batch: dict[str, torch.Tensor] = {}
    for name, each in parts.items():
        tensors = [tensor for _, tensor in each]
        if layout.padded and name == "pixel_values":
            tensors = _filled_up(tensors)
        else:
            _check_alike(each, layout.axis)
        batch[name] = torch.cat(tensors, dim=layout.axis)
    return batch


def _filled_up(images: list[torch.Tensor]) -> list[torch.Tensor]:
    height, width = (max(image.shape[side] for image in images) for side in (-2, -1))
    return [
        pad(image, (0, width - image.shape[-1], 0, height - image.shape[-2])) for image in images
    ]


def _check_alike(each: Sequence[tuple[Medium, torch.Tensor]], axis: int) -> None:
    first = _sides(each[0][1], axis)
    for medium, tensor in each:
        if _sides(tensor, axis) != first:
            raise InputError(
                f"sample {medium.sample!r} ({medium.source}): its {medium.kind} is {tuple(first)} "
                f"in other samples of the row and {tuple(_sides(tensor, axis))} here, and this "
                "model stacks them: encode videos with one num_frames, or put them in rows apart"
            )


def _sides(tensor: torch.Tensor, axis: int) -> list[int]:
    return [side for place, side in enumerate(tensor.shape) if place != axis]
