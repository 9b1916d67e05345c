"""Inputs that are known to leak: the model level must see every one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.batch import model_inputs
from packcli.contract.offsets import Offsets
from packcli.verify.cpu_bridge import FLASH
from packcli.verify.model_pack import ModelPack
from packcli.verify.model_run import compare, forward, run_alone
from packcli.verify.teeth import Control

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packcli.verify.tiny_model import TinyModel

_LENGTHS = (5, 4, 6)
_VARLEN = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


@dataclass(frozen=True, slots=True, eq=False)
class Sabotage:
    """Inputs of a packed run that do not keep samples apart.

    Attributes:
        name: what is wrong with them.
        inputs: arguments of the model, arrays.
        named: further arguments of the forward pass.
    """

    name: str
    inputs: Mapping[str, Any]
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])


def text_pack(tiny: TinyModel) -> ModelPack:
    """Make a pack of three short texts."""
    samples = Offsets.from_lengths(_LENGTHS)
    ids = np.arange(3, 3 + samples.total, dtype=np.int32)
    planes = np.tile(samples.restarting(), (3, 1)) if tiny.facts.has_mrope else None
    none = np.zeros((0, 3), dtype=np.int32)
    return ModelPack(ids, np.full(ids.size, -100, np.int32), samples, planes, none, none)


def sabotages(pack: ModelPack, tiny: TinyModel, implementation: str) -> Iterator[Sabotage]:
    """Yield the combinations of arguments that leak under an attention implementation.

    Args:
        pack: samples whose arguments are spoilt.
        tiny: the model.
        implementation: ``eager``, ``sdpa`` or `FLASH`.
    """
    good = model_inputs([pack])
    bare = {name: part for name, part in good.items() if name not in _VARLEN}
    cut = np.delete(pack.samples.values, len(pack.samples) // 2)
    for name, values in (
        ("one boundary removed", cut),
        ("all boundaries removed", pack.samples.values[[0, -1]]),
    ):
        merged = ModelPack(
            pack.input_ids,
            pack.labels,
            Offsets(values),
            pack.mrope_position_ids,
            pack.image_grid_thw,
            pack.video_grid_thw,
        )
        yield Sabotage(name, model_inputs([merged]))
    lost = {name: part for name, part in bare.items() if name != "position_ids"}
    yield Sabotage("no position_ids and no varlen arguments", lost)
    if good["position_ids"].ndim == 3:  # noqa: PLR2004 - planes, rows, tokens
        planes = bare | {"position_ids": good["position_ids"][1:]}
        yield Sabotage("mRoPE planes without the text plane", planes)
    yield from _masks(good, implementation)
    if tiny.linear:
        no_index = {name: part for name, part in good.items() if name != "seq_idx"}
        yield Sabotage("no seq_idx for the convolution", no_index)
        yield Sabotage("no cu_seq_lens for the recurrent state", bare)
    elif implementation != FLASH:
        yield Sabotage("use_cache", good, {"use_cache": True})


def _masks(good: Mapping[str, Any], implementation: str) -> Iterator[Sabotage]:
    ones = np.ones(good["input_ids"].shape, dtype=np.int64)
    if implementation != FLASH:
        yield Sabotage("attention_mask of ones", {**good, "attention_mask": ones})
        return
    # FlashAttention's bridge drops a mask of ones, and believes any other
    padded = ones.copy()
    padded[0, -1] = 0
    yield Sabotage("attention_mask with a padded token", {**good, "attention_mask": padded})


def model_controls(tiny: TinyModel, implementation: str) -> tuple[Control, ...]:
    """Run every sabotage of an implementation, each of which the comparison must see."""
    pack = text_pack(tiny)
    none = {kind: slice(0, 0) for kind in ("image", "video")}
    alone = run_alone(
        tiny, [pack.cut(cut, none) for cut in pack.samples.slices()], pack.samples, {}
    )
    found: list[Control] = []
    for broken in sabotages(pack, tiny, implementation):
        packed = forward(tiny, broken.inputs, {}, gradient=True, **broken.named)
        compared = compare(packed, alone)
        found.append(Control(broken.name, not compared.apart, compared.largest))
    return tuple(found)
