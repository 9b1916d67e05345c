"""The bridge checker against what tiny models do: tables 3.1 and 3.2 of the isolation facts."""

from __future__ import annotations

import numpy as np
import pytest

from packcli.batch import model_inputs
from packcli.contract.errors import UsageError
from packcli.contract.model import ModelFacts, Rope
from packcli.verify.bridge import VARLEN, Branch, check_bridge
from packcli.verify.cpu_bridge import cpu_kernels
from packcli.verify.model_level import small_and_quiet
from packcli.verify.model_pack import grid_places
from packcli.verify.model_run import TOLERANCE, forward, gradient, random_pixels, run_alone
from packcli.verify.tiny_model import choose_attention
from tests.verify.model_making import joined, sample

FAMILIES = ("text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2")


def without(batch, *names):
    return {name: part for name, part in batch.items() if name not in names}


def ones(batch):
    return np.ones(batch["input_ids"].shape, dtype=np.int64)


def typed(batch):
    """Token types from ids: the model finds grid positions by them."""
    return {"mm_token_type_ids": np.isin(batch["input_ids"], IMAGES).astype(np.int64)}


def padded(batch):
    mask = ones(batch)
    mask[0, -1] = 0
    return mask


def planes(batch, first):
    """The text plane alone, the mRoPE planes alone, or all four."""
    positions = batch["position_ids"]
    if positions.ndim == 2:
        return positions
    return positions[0] if first == "text" else positions[1:]


def counted(batch):
    """A text plane that was not reset."""
    positions = batch["position_ids"].copy()
    positions[(0,) * (positions.ndim - 1)] = np.arange(positions.shape[-1])
    return positions


IMAGES = (1804,)  # of every bundled model directory
MAX = ("max_length_q", "max_length_k")
ROWS = {
    "nothing": lambda b: without(b, "position_ids", "seq_idx", *VARLEN),
    "varlen only": lambda b: without(b, "position_ids", "seq_idx"),
    "token types": lambda b: without(b, "position_ids", "seq_idx", *VARLEN) | typed(b),
    "token types + varlen": lambda b: without(b, "position_ids", "seq_idx") | typed(b),
    "text plane": lambda b: without(b, "seq_idx", *VARLEN) | {"position_ids": planes(b, "text")},
    "text plane + varlen": lambda b: without(b, "seq_idx") | {"position_ids": planes(b, "text")},
    "mRoPE planes": lambda b: without(b, "seq_idx", *VARLEN) | {"position_ids": planes(b, "mrope")},
    "mRoPE planes + varlen": lambda b: b | {"position_ids": planes(b, "mrope")},
    "mRoPE planes + cu": lambda b: without(b, *MAX) | {"position_ids": planes(b, "mrope")},
    "four planes": lambda b: without(b, "seq_idx", *VARLEN),
    "four planes + varlen": lambda b: without(b, "seq_idx"),
    "four planes + cu, three of four": lambda b: without(b, "max_length_k"),
    "four planes + seq_idx": lambda b: without(b, *VARLEN),
    "everything": lambda b: b,
    "text plane not reset": lambda b: without(b, *VARLEN) | {"position_ids": counted(b)},
    "mask of ones": lambda b: b | {"attention_mask": ones(b)},
    "mask with a zero": lambda b: b | {"attention_mask": padded(b)},
    "use_cache": lambda b: b | {"use_cache": True},
}


@pytest.fixture(scope="module")
def runs(tiny_model):
    """Packs of three samples, run alone once for each model, implementation and content."""
    known = {}

    def of(family, implementation, content):
        key = (family, implementation, content)
        if key not in known:
            tiny = tiny_model(family)
            image = (1, 4, 4) if content == "images" else None
            parts = [
                sample(tiny.facts, length=length, image=image, start=start)
                for length, start in ((5, 3), (4, 40), (6, 90))
            ]
            pack = joined(parts)
            pixels = random_pixels(pack, tiny, 0)
            choose_attention(tiny, implementation)
            with small_and_quiet(), cpu_kernels(tiny.module):
                known[key] = pack, pixels, run_alone(tiny, parts, pack.samples, pixels)
        return known[key]

    return of


CASES = [
    (family, implementation, content)
    for family in FAMILIES
    for implementation in IMPLEMENTATIONS
    for content in ("text", "images")
    if (family, content) != ("text", "images")
]


@pytest.mark.parametrize(("family", "implementation", "content"), CASES)
def test_the_checker_says_what_a_model_does(family, implementation, content, tiny_model, runs):
    tiny = tiny_model(family)
    pack, pixels, alone = runs(family, implementation, content)
    for name, change in ROWS.items():
        if family == "qwen3_5" and name == "use_cache":
            continue  # the CPU convolution has no state to copy to: not a matter of packing
        batch = change(model_inputs([pack]))
        report = check_bridge(batch, implementation, tiny.facts)
        refused, leak, deviation = measured(tiny, implementation, batch, pixels, alone)
        assert (report.refusal is not None) == refused, name
        if refused:
            continue
        assert report.apart(pack.samples.values) == (leak == 0.0), (name, leak, report)
        right = report.apart(pack.samples.values) and report.positions_right
        assert right == (deviation <= TOLERANCE), (name, deviation, report)


def measured(tiny, implementation, batch, pixels, alone):
    """Whether the model refuses a batch, what its last sample sees, how far logits are off."""
    choose_attention(tiny, implementation)
    with small_and_quiet(), cpu_kernels(tiny.module):
        try:
            packed = forward(tiny, batch, pixels, gradient=True)
        except ValueError:
            return True, None, None
        last = np.array([False, False, True])
        seen = gradient(packed, alone, last)[:2].max()
        deviation = (packed.logits.detach() - alone.logits).abs().max()
    return False, float(seen), float(deviation)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_linear_attention_without_its_kernels_refuses_boundaries(implementation, tiny_model):
    tiny = tiny_model("qwen3_5")
    pack = joined([sample(tiny.facts), sample(tiny.facts, start=50)])
    batch = model_inputs([pack])
    assert check_bridge(batch, implementation, tiny.facts).refusal is None
    refusal = check_bridge(batch, implementation, tiny.facts, linear_kernels=False).refusal
    assert refusal.startswith("linear attention needs flash-linear-attention")
    choose_attention(tiny, implementation)
    with small_and_quiet(), pytest.raises(ValueError, match="can't keep packed sequences apart"):
        forward(tiny, batch, {})
    silent = without(batch, "seq_idx", *VARLEN)
    report = check_bridge(silent, implementation, tiny.facts, linear_kernels=False)
    assert report.refusal is None
    assert not report.apart(pack.samples.values)
    assert report.branch is Branch.PACKED_MASK


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_a_cu_seqlens_reaches_the_vision_tower(family, tiny_model):
    tiny = tiny_model(family)
    pack = joined([sample(tiny.facts, image=(1, 4, 4)), sample(tiny.facts, image=(1, 4, 8))])
    pixels = random_pixels(pack, tiny, 0)
    batch = model_inputs([pack])
    assert check_bridge(batch, "sdpa", tiny.facts).vision_right
    # boundaries that happen to end at the number of patches: no error, other features
    stray = batch | {"cu_seqlens": np.array([0, 8, 48], dtype=np.int32)}
    report = check_bridge(stray, "sdpa", tiny.facts)
    assert not report.vision_right
    assert any("vision tower" in warning for warning in report.warnings)
    choose_attention(tiny, "sdpa")
    with small_and_quiet():
        right = forward(tiny, batch, pixels).logits
        assert (forward(tiny, stray, pixels).logits - right).abs().max() > 0.01
        with pytest.raises(RuntimeError):
            forward(tiny, batch | {"cu_seqlens": pack.samples.values}, pixels)


def test_grids_are_told_apart_by_slots(tiny_model):
    facts = tiny_model("qwen2_5_vl").facts
    parts = [sample(facts), sample(facts, image=(1, 4, 4)), sample(facts, video=(2, 4, 4))]
    pack = joined(parts)
    places = grid_places(pack, pack.samples, facts)
    assert places["image"].values.tolist() == [0, 0, 1, 1]
    assert places["video"].values.tolist() == [0, 0, 0, 1]


VISION = ModelFacts("qwen3_vl", 100, Rope.FRAMES, 98, 99, 2)
BATCH = {
    "input_ids": np.arange(6)[None],
    "position_ids": np.tile(np.array([0, 1, 2, 0, 1, 2]), (4, 1))[:, None],
    "cu_seq_lens_q": np.array([0, 3, 6], np.int32),
    "cu_seq_lens_k": np.array([0, 3, 6], np.int32),
    "max_length_q": 3,
    "max_length_k": 3,
}


def test_warnings_name_what_is_wrong():
    def said(change, implementation="flash_attention_2", facts=VISION, **named):
        return " | ".join(check_bridge(BATCH | change, implementation, facts, **named).warnings)

    assert said({}) == ""
    assert said({"max_length_k": None}).startswith("max_length_k missing: FlashAttention needs")
    assert "leave it out" in said({"attention_mask": np.ones((1, 6))})
    assert "use_cache=False" in said({}, use_cache=True)
    assert "text plane: put it first" in said({"position_ids": BATCH["position_ids"][1:]})
    assert "the vision tower" in said({"cu_seqlens": [0], "image_grid_thw": [[1, 2, 2]]})
    assert "nothing reads it" in said({"cu_seqlens": [0]})
    assert "ignore cu_seq_lens" in said({}, "sdpa")
    linear = ModelFacts("qwen3_5", 100, Rope.FRAMES, 98, 99, 2, linear_attention=True)
    assert said({}, facts=linear) == "no seq_idx: the convolution reads the sample before"
    merged = {name: np.array([0, 6], np.int32) for name in VARLEN[:2]}
    assert "varlen by kwargs decides" in said(merged)


def test_branches_are_named():
    def branch(change, implementation="flash_attention_2"):
        return check_bridge(BATCH | change, implementation, VISION).branch

    assert branch({}) is Branch.KWARGS
    assert branch({"max_length_q": None}) is Branch.POSITIONS
    assert branch({"attention_mask": np.array([[1, 1, 1, 1, 1, 0]])}) is Branch.PADDED
    assert branch({}, "sdpa") is Branch.PACKED_MASK
    assert branch({"attention_mask": np.ones((1, 6))}, "eager") is Branch.DENSE


def test_a_tensor_is_read_as_an_array():
    import torch

    tensors = {
        name: torch.from_numpy(part) if isinstance(part, np.ndarray) else part
        for name, part in BATCH.items()
    }
    report = check_bridge(tensors, "sdpa", VISION)
    assert report.apart([0, 3, 6])
    assert not report.apart([0, 6])


@pytest.mark.parametrize(
    ("batch", "implementation"),
    [
        (BATCH, "xformers"),
        (without(BATCH, "input_ids"), "sdpa"),
        (BATCH | {"input_ids": np.zeros((2, 6))}, "sdpa"),
    ],
)
def test_what_cannot_be_checked_is_a_wrong_call(batch, implementation):
    with pytest.raises(UsageError):
        check_bridge(batch, implementation, VISION)
