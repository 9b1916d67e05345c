"""Run a tiny model on a pack and on each of its samples, and compare logits and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.batch import model_inputs
from packcli.contract.offsets import Offsets
from packcli.verify.launch import as_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from packcli.verify.model_pack import ModelPack
    from packcli.verify.tiny_model import TinyModel

TOLERANCE = 1e-4
"""Largest difference of logits that counts as float32 rounding; leaks are 1e-2 and more."""


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """The samples of a pack, each run by itself.

    Attributes:
        packs: B packs of one.
        expected: B segments over T tokens of the pack.
        patches: for each kind of media, B segments over the patches of the pack.
        logits: (T, vocabulary) of all samples, a torch tensor.
    """

    packs: Sequence[ModelPack]
    expected: Offsets
    patches: Mapping[str, Offsets]
    logits: Any


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A packed run against the same samples run alone.

    Attributes:
        deviation: (T,) float32, largest difference of logits at each token.
        seen: (B, B) float32: how much the logits of sample i change with the inputs of j;
            exactly 0 off the diagonal where samples are apart. NaN where it was not asked.
    """

    deviation: NDArray[np.float32]
    seen: NDArray[np.float32]

    @property
    def leak(self) -> float:
        """The largest gradient of one sample's logits by another's inputs."""
        off = ~np.eye(len(self.seen), dtype=bool)
        return float(np.nan_to_num(self.seen, nan=0.0, posinf=np.inf)[off].max(initial=0.0))

    @property
    def largest(self) -> float:
        """The largest difference of logits."""
        return float(self.deviation.max(initial=0.0))

    @property
    def apart(self) -> bool:
        """Whether every sample came out as if it stood alone."""
        return self.largest <= TOLERANCE and self.leak == 0.0


@dataclass(slots=True, eq=False)
class Forward:
    """One forward pass with leaves to differentiate by.

    Attributes:
        logits: (T, vocabulary).
        leaves: embeddings of the tokens and pixels of each kind of media, as leaves.

    Both are where the model is, in its dtype.
    """

    logits: Any
    leaves: dict[str, Any]


def forward(
    tiny: TinyModel,
    inputs: Mapping[str, Any],
    pixels: Mapping[str, Any],
    *,
    gradient: bool = False,
    **named: Any,  # noqa: ANN401 - arguments of the model
) -> Forward:
    """Run the model's own forward.

    Args:
        tiny: the model.
        inputs: what `model_inputs` made, ids of the directory's vocabulary.
        pixels: by argument name, (patches, patch_width) tensors.
        gradient: keep what is needed to differentiate.
        named: more arguments; `use_cache` is False unless it is among them.
    """
    import torch  # noqa: PLC0415 - heavy

    weight = next(tiny.module.parameters())
    leaves: dict[str, Any] = {
        name: part.detach().to(weight, copy=True).requires_grad_(gradient)
        for name, part in pixels.items()
    }

    def as_leaf(_module: Any, _args: Any, output: Any) -> Any:  # noqa: ANN401 - a forward hook of torch
        leaves["tokens"] = output.detach().clone().requires_grad_(gradient)
        return leaves["tokens"]

    ids = torch.from_numpy(tiny.ids(inputs["input_ids"])).to(weight.device)
    rest = {
        name: torch.tensor(part, device=weight.device) if isinstance(part, np.ndarray) else part
        for name, part in inputs.items()
        if name not in {"input_ids", "labels"}
    }
    hook = tiny.module.get_input_embeddings().register_forward_hook(as_leaf)
    arguments = {"use_cache": False} | rest | named
    media = {name: leaves[name] for name in pixels}
    try:
        with torch.set_grad_enabled(gradient):
            output = tiny.module(input_ids=ids, **arguments, **media)
    finally:
        hook.remove()
    return Forward(output.logits[0], leaves)


def random_pixels(pack: ModelPack, tiny: TinyModel, seed: int) -> dict[str, Any]:
    """Draw pixels for every patch of a pack, under the names of the model's arguments."""
    import torch  # noqa: PLC0415 - heavy

    draw = torch.Generator().manual_seed(seed)
    names = {"pixel_values": pack.image_grid_thw, "pixel_values_videos": pack.video_grid_thw}
    return {
        name: torch.randn(int(grids.prod(axis=1).sum()), tiny.patch_width, generator=draw)
        for name, grids in names.items()
        if grids.size
    }


def run_alone(
    tiny: TinyModel, packs: Sequence[ModelPack], expected: Offsets, pixels: Mapping[str, Any]
) -> Alone:
    """Run each sample by itself.

    Args:
        tiny: the model.
        packs: B packs of one.
        expected: B segments over T tokens.
        pixels: of the pack, the samples' one behind the other.
    """
    import torch  # noqa: PLC0415 - heavy

    patches = _patches(packs)
    parts: list[Any] = []
    for place, pack in enumerate(packs):
        own = {
            name: part[patches[name].values[place] : patches[name].values[place + 1]]
            for name, part in pixels.items()
        }
        own = {name: part for name, part in own.items() if len(part)}
        parts.append(forward(tiny, model_inputs([pack]), own).logits)
    return Alone(packs, expected, patches, torch.cat(parts))


def _patches(packs: Sequence[ModelPack]) -> dict[str, Offsets]:
    kinds = {"pixel_values": "image_grid_thw", "pixel_values_videos": "video_grid_thw"}
    return {
        name: Offsets.from_lengths([int(getattr(p, grids).prod(axis=1).sum()) for p in packs])
        for name, grids in kinds.items()
    }


def compare(packed: Forward, alone: Alone, *, pairs: bool = False) -> Compared:
    """Compare a packed run with the samples run alone.

    Any two samples differ in a bit of their numbers, so two backward passes a bit find every
    pair that is not apart; `pairs` takes one pass a sample and says which.

    Args:
        packed: a run with gradient.
        alone: B samples.
        pairs: fill `seen` for each pair.
    """
    difference = as_array((packed.logits.detach() - alone.logits).abs().amax(dim=-1))
    count = len(alone.expected)
    seen = np.full((count, count), np.nan, dtype=np.float32)
    numbers = np.arange(count)
    groups: list[NDArray[np.bool_]] = [numbers == one for one in numbers]
    if not pairs:
        bits = range(max(1, (count - 1).bit_length()) if count > 1 else 0)
        groups = [(numbers >> bit & 1) == side for bit in bits for side in (0, 1)]
    for group in groups:
        by_sample = gradient(packed, alone, group)
        outside = np.where(group & ~(group.sum() == 1), np.nan, by_sample)
        for member in np.flatnonzero(group):
            seen[member] = np.fmax(seen[member], outside)
    return Compared(difference, seen)


def gradient(packed: Forward, alone: Alone, group: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(B,) largest gradient of a group's logits by the inputs of each sample."""
    import torch  # noqa: PLC0415 - heavy

    rows = torch.from_numpy(np.repeat(group, alone.expected.lengths))
    drawn = torch.randn(packed.logits.shape, generator=torch.Generator().manual_seed(0))
    weights = (drawn * rows[:, None]).to(packed.logits)
    leaves = list(packed.leaves)
    gradients: tuple[Any, ...] = torch.autograd.grad(
        packed.logits,
        [packed.leaves[name] for name in leaves],
        weights,
        retain_graph=True,
        allow_unused=True,
    )
    largest = np.zeros(len(group), dtype=np.float32)
    for name, slope in zip(leaves, gradients, strict=True):
        if slope is None:
            continue
        place = alone.expected if name == "tokens" else alone.patches[name]
        each = as_array(slope.abs().reshape(-1, slope.shape[-1]).amax(dim=-1))
        for sample, rows_of in enumerate(place.slices()):
            largest[sample] = max(largest[sample], each[rows_of].max(initial=0.0))
    return largest
