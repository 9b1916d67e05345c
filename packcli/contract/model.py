"""What the contract has to know about a model: a few numbers, carried in the manifest."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from math import lcm
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Grid: TypeAlias = tuple[int, int, int]
"""Patches of one image or video: temporal, height, width (before merging)."""


class Rope(StrEnum):
    """How position ids grow over a sample."""

    TEXT = "text"
    """One plane, 0, 1, 2, …: plain text models and vision models with 1-D RoPE."""
    GRID = "grid"
    """mRoPE of Qwen2-VL: three planes, one grid per medium, temporal step 1."""
    TIMED = "timed"
    """mRoPE of Qwen2.5-VL: as GRID; a video steps second_per_grid x tokens_per_second in time."""
    FRAMES = "frames"
    """mRoPE of Qwen3-VL and Qwen3.5: a video is one grid [1, h, w] for every temporal patch."""


class Runs(StrEnum):
    """Which part of a grid has its slots side by side; between two parts stands text."""

    GRID = "grid"
    """The whole grid."""
    TILE = "tile"
    """Each [1, h, w] of it: a tile or a frame."""
    ROW = "row"
    """Each row of slots."""
    SLOT = "slot"
    """Each slot: frames may share a canvas, and each stands behind its time."""


class VitWindows(StrEnum):
    """Which patches attend to each other in the vision tower of LLaVA-OneVision-2."""

    FRAMES = "frames"
    """Four frames of one grid: what its code does."""
    TEMPORAL = "temporal"
    """Equal temporal index in `patch_positions`, inside one grid: what its documents say."""


@dataclass(frozen=True, slots=True)
class Padding:
    """What packs are padded to, by segments that hold nothing but one token.

    Attributes:
        token: id of the token that fills them.
        sample_multiple: tokens; each sample and the padding behind it are a multiple of it.
        pack_multiple: tokens; each pack is a multiple of it.
    """

    token: int
    sample_multiple: int = 1
    pack_multiple: int = 1

    @property
    def unit(self) -> int:
        """Tokens that the length of every pack is a multiple of."""
        return lcm(self.sample_multiple, self.pack_multiple)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts that decide slots and positions.

    Attributes:
        family: the family file that made the sample, e.g. ``qwen3_vl``.
        vocab_size: exclusive upper bound of token ids.
        rope: how positions grow.
        image_token_id: id of an image slot, None in a text-only model.
        video_token_id: id of a video slot, None where the family has none.
        merge_size: patches per side that the vision merger turns into one slot.
        tokens_per_second: temporal positions per second (`Rope.TIMED` only).
        linear_attention: some layers carry a recurrent state and a causal convolution.
        runs: which part of a grid has its slots side by side.
        vit_windows: how `vit_cu_seqlens` is read; None where the family has no such column.
        token_type_ids: the processor calls its token types that, and the model asks for them.
        loss_scale: each label has a weight of its own; told by `--loss-scale`, not by the model.
        padding: what packs are padded to; told by `packcli pack`, None where it was not asked to.
    """

    family: str
    vocab_size: int
    rope: Rope = Rope.TEXT
    image_token_id: int | None = None
    video_token_id: int | None = None
    merge_size: int = 1
    tokens_per_second: float = 1.0
    linear_attention: bool = False
    runs: Runs = Runs.GRID
    vit_windows: VitWindows | None = None
    token_type_ids: bool = False
    loss_scale: bool = False
    padding: Padding | None = None

    def slots(self, grids: ArrayLike) -> NDArray[np.int64]:
        """Token slots of each grid: ``prod(grid) // merge_size ** 2``.

        Args:
            grids: (n, 3) integers, patches.

        Returns:
            (n,) int64, token slots.
        """
        patches = np.asarray(grids, dtype=np.int64).reshape(-1, 3).prod(axis=1)
        return patches // self.merge_size**2

    def unbroken(self, grids: ArrayLike) -> NDArray[np.int64]:
        """Split grids into parts whose slots stand side by side; `slots` holds of parts too.

        Args:
            grids: (n, 3) integers, patches.

        Returns:
            (m, 3) int64, patches, in the order of their slots.
        """
        whole = np.asarray(grids, dtype=np.int64).reshape(-1, 3)
        if self.runs is Runs.GRID:
            return whole
        if self.runs is Runs.SLOT:
            slot = (1, self.merge_size, self.merge_size)
            return np.tile(np.array(slot, np.int64), (int(self.slots(whole).sum()), 1))
        parts = np.repeat(whole, whole[:, 0], axis=0)
        parts[:, 0] = 1
        if self.runs is Runs.ROW:
            parts = np.repeat(parts, parts[:, 1] // self.merge_size, axis=0)
            parts[:, 1] = self.merge_size
        return parts

    @property
    def slot_tokens(self) -> dict[str, int]:
        """Ids of slots by kind, ``image`` or ``video``: those that the family has."""
        tokens = {"image": self.image_token_id, "video": self.video_token_id}
        return {kind: token for kind, token in tokens.items() if token is not None}

    @property
    def pads_samples(self) -> bool:
        """Whether padding may stand behind any sample, not at the tail of packs alone."""
        return self.padding is not None and self.padding.sample_multiple > 1

    @property
    def has_mrope(self) -> bool:
        """Whether the family stores three-plane position ids."""
        return self.rope is not Rope.TEXT

    @property
    def has_media(self) -> bool:
        """Whether the family has image or video slots."""
        return self.image_token_id is not None or self.video_token_id is not None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the manifest; those that are as usual are left out.

        So a fact that a later version adds does not change the manifests, and the fingerprints,
        of datasets to which it does not apply.
        """
        always = {"family", "vocab_size", "rope"}
        usual = {f.name: f.default for f in fields(self) if f.name not in always}
        return {
            name: value
            for name, value in asdict(self).items()
            if name in always or value != usual[name]
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ModelFacts:
        """Read the facts back from a manifest.

        Raises:
            TypeError: a field is missing or unknown.
            ValueError: `rope`, `runs` or `vit_windows` names nothing that there is.
        """
        told = dict(data)
        rope = Rope(told.pop("rope"))
        runs = Runs(told.pop("runs", Runs.GRID))
        windows = told.pop("vit_windows", None)
        read = None if windows is None else VitWindows(windows)
        padding = told.pop("padding", None)
        padded = None if padding is None else Padding(**padding)
        return cls(rope=rope, runs=runs, vit_windows=read, padding=padded, **told)
