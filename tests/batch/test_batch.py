"""The one piece of code that lays packs out for models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.batch import compile_boundaries, cross_problems, model_inputs
from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets
from packcli.verify.model_pack import ModelPack

NONE = np.zeros((0, 3), dtype=np.int32)


def pack(lengths, *, mrope=False, images=()):
    samples = Offsets.from_lengths(lengths)
    ids = np.arange(samples.total, dtype=np.int32)
    planes = np.tile(samples.restarting() + 7, (3, 1)) if mrope else None
    grids = np.array(images, dtype=np.int32).reshape(-1, 3)
    return ModelPack(ids, ids - 1, samples, planes, grids, NONE)


def test_one_pack_of_text():
    inputs = model_inputs([pack([2, 3])])
    assert list(inputs) == [
        "input_ids",
        "labels",
        "position_ids",
        "cu_seq_lens_q",
        "cu_seq_lens_k",
        "max_length_q",
        "max_length_k",
        "seq_idx",
    ]
    assert inputs["position_ids"].tolist() == [[0, 1, 0, 1, 2]]
    assert inputs["cu_seq_lens_q"].tolist() == [0, 2, 5]
    assert inputs["seq_idx"].tolist() == [[0, 0, 1, 1, 1]]
    assert (inputs["max_length_q"], type(inputs["max_length_k"])) == (3, int)
    types = {name: str(part.dtype) for name, part in inputs.items() if hasattr(part, "dtype")}
    assert types == {
        "input_ids": "int64",
        "labels": "int64",
        "position_ids": "int64",
        "cu_seq_lens_q": "int32",
        "cu_seq_lens_k": "int32",
        "seq_idx": "int32",
    }


def test_the_text_plane_comes_first_and_packs_follow_each_other():
    inputs = model_inputs([pack([2], mrope=True), pack([1, 2], mrope=True, images=[(1, 2, 2)])])
    assert inputs["position_ids"].shape == (4, 1, 5)
    assert inputs["position_ids"][0, 0].tolist() == [0, 1, 0, 0, 1]
    assert inputs["position_ids"][1, 0].tolist() == [7, 8, 7, 7, 8]
    assert inputs["cu_seq_lens_k"].tolist() == [0, 2, 3, 5]
    assert inputs["seq_idx"].tolist() == [[0, 0, 1, 2, 2]]
    assert inputs["image_grid_thw"].tolist() == [[1, 2, 2]]
    assert "video_grid_thw" not in inputs
    assert not inputs.keys() & {"attention_mask", "cu_seqlens"}


def test_mixed_models_are_refused():
    with pytest.raises(InputError, match="mrope_position_ids"):
        model_inputs([pack([2], mrope=True), pack([2])])


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    by=st.sampled_from(["zero", "minimum"]),
)
def test_compiled_boundaries_are_those_that_are_stored(lengths, by):
    inputs = model_inputs([pack(lengths)])
    compiled = compile_boundaries(inputs["position_ids"], by)
    assert compiled.dtype == np.int32
    assert compiled.tolist() == inputs["cu_seq_lens_q"].tolist()


def test_only_by_minimum_takes_positions_that_do_not_start_at_zero():
    assert compile_boundaries([5, 6, 5, 6, 7], "minimum").tolist() == [0, 2, 5]
    with pytest.raises(ValueError, match="first position is 5"):
        compile_boundaries([5, 6, 5, 6, 7])
    with pytest.raises(ValueError, match="one plane"):
        compile_boundaries(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="no tokens"):
        compile_boundaries([])


def test_a_vision_first_sample_misleads_the_temporal_plane():
    # plane 0 of mRoPE holds many zeros where a sample starts with slots: never compile from it
    assert compile_boundaries([0, 0, 0, 1]).tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("query", "key", "said"),
    [
        ([0, 2, 5], [0, 4, 9], None),
        ([0, 2, 5], [0, 9], "2 query slices but 1 key slices"),
        ([0, 2, 4], [0, 4, 9], "query boundaries end at 4"),
        ([0, 2, 5], [0, 4, 8], "key boundaries end at 8"),
        ([0, 2, 5], [0, 9, 9], "query slice 1 has no keys"),
        ([0, 2, 2, 5], [0, 4, 4, 9], None),
        ([1, 5], [0, 9], "query boundaries: offsets must be"),
        ([0, 5], [0.0, 9.0], "key boundaries: offsets and lengths are integers"),
    ],
)
def test_boundaries_of_cross_attention_are_pairs(query, key, said):
    problems = list(cross_problems(query, key, 5, 9))
    assert (problems == []) if said is None else problems[0].startswith(said), problems
