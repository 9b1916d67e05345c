from __future__ import annotations

from functools import cache
from importlib import import_module
from types import MethodType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.model import ModelFacts, Rope
from packcli.contract.mrope import mrope, mrope_planes
from packcli.contract.offsets import Offsets
from packcli.contract.slot_runs import slot_runs

IMAGE, VIDEO, MERGE, TEMPO = 1001, 1002, 2, 2
FAMILIES = {
    "qwen2_vl": ("Qwen2VLModel", Rope.GRID),
    "qwen2_5_vl": ("Qwen2_5_VLModel", Rope.TIMED),
    "qwen3_vl": ("Qwen3VLModel", Rope.FRAMES),
    "qwen3_5": ("Qwen3_5Model", Rope.FRAMES),
}


def facts_of(name):
    return ModelFacts(
        family=name,
        vocab_size=2000,
        rope=FAMILIES[name][1],
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        merge_size=MERGE,
        tokens_per_second=TEMPO,
    )


@cache
def upstream(name):
    """get_rope_index without weights: it reads nothing but the configuration."""
    module = import_module(f"transformers.models.{name}.modeling_{name}")
    model = getattr(module, FAMILIES[name][0])
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=TEMPO)
    host = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    host.get_vision_position_ids = MethodType(model.get_vision_position_ids, host)
    return MethodType(model.get_rope_index, host)


def upstream_positions(name, ids, images, videos, seconds):
    import torch

    kinds = torch.tensor([[1 if i == IMAGE else 2 if i == VIDEO else 0 for i in ids]])
    more = {}
    if seconds is not None and name == "qwen2_5_vl":
        more["second_per_grid_ts"] = torch.tensor(seconds, dtype=torch.float32)
    positions, _ = upstream(name)(
        torch.tensor([ids]),
        kinds.int(),
        torch.tensor(images) if images else None,
        torch.tensor(videos) if videos else None,
        **more,
    )
    return positions[:, 0].numpy()


def build(name, parts):
    """Ids of text lengths, images ("i", grid) and videos ("v", grid), media apart by text."""
    ids, images, videos = [], [], []
    for part in parts:
        if isinstance(part, int):
            ids += [5] * part
            continue
        kind, (t, h, w) = part
        size = h * w // MERGE**2
        if kind == "i":
            images.append([1, h, w])
            ids += [IMAGE] * size
        else:
            videos.append([t, h, w])
            split = FAMILIES[name][1] is Rope.FRAMES
            ids += ([7, 8] + [VIDEO] * size) * t if split else [VIDEO] * (size * t)
        ids.append(6)
    return ids, images, videos


SIDE = st.integers(1, 6).map(lambda n: n * MERGE)
MEDIUM = st.tuples(st.sampled_from("iv"), st.tuples(st.integers(1, 5), SIDE, SIDE))


@pytest.mark.parametrize("name", FAMILIES)
def test_equals_get_rope_index(name):
    @settings(max_examples=60, deadline=None)
    @given(
        parts=st.lists(st.one_of(st.integers(1, 9), MEDIUM), min_size=1, max_size=6),
        second=st.sampled_from([None, 1.0, 0.5, 2 / 24, 0.3, 2 / 23.976, 1.7]),
    )
    def check(parts, second):
        ids, images, videos = build(name, parts)
        seconds = None if second is None else [second * (n + 1) for n in range(len(videos))]
        ours = mrope(np.array(ids, np.int32), images, videos, facts_of(name), seconds)
        assert ours.dtype == np.int32
        expected = upstream_positions(name, ids, images, videos, seconds)
        np.testing.assert_array_equal(ours, expected)

    check()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "parts",
    [
        [7],
        [3, ("i", (1, 4, 6)), 2],
        [("i", (1, 4, 6)), 2, ("i", (1, 2, 2)), ("i", (1, 8, 4)), 3],
        [1, ("v", (4, 4, 6)), 2],
        [1, ("v", (3, 4, 6)), ("i", (1, 6, 4)), ("v", (1, 2, 8)), 2],
    ],
    ids=["text", "image", "three images", "video", "video, image, video"],
)
def test_equals_get_rope_index_on_every_shape(name, parts):
    ids, images, videos = build(name, parts)
    seconds = [0.75] * len(videos)
    ours = mrope(np.array(ids, np.int32), images, videos, facts_of(name), seconds)
    np.testing.assert_array_equal(ours, upstream_positions(name, ids, images, videos, seconds))


def test_image_positions_by_hand():
    ids = np.array([5, IMAGE, IMAGE, 5], np.int32)
    expected = [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    assert mrope(ids, [[1, 2, 4]], [], facts_of("qwen2_vl")).tolist() == expected


def test_touching_images_need_no_separator():
    ids = np.array([5, IMAGE, IMAGE, IMAGE, 5], np.int32)
    expected = [[0, 1, 1, 3, 4], [0, 1, 1, 3, 4], [0, 1, 2, 3, 4]]
    assert mrope(ids, [[1, 2, 4], [1, 2, 2]], [], facts_of("qwen3_vl")).tolist() == expected


def test_seconds_move_the_temporal_plane_only_when_timed():
    ids = np.array([VIDEO] * 3 + [5], np.int32)
    timed = mrope(ids, [], [[3, 2, 2]], facts_of("qwen2_5_vl"), [1.5])
    assert timed.tolist() == [[0, 3, 6, 1], [0, 0, 0, 1], [0, 0, 0, 1]]
    plain = mrope(ids, [], [[3, 2, 2]], facts_of("qwen2_vl"), [1.5])
    assert plain.tolist() == [[0, 1, 2, 1], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_seconds_are_multiplied_in_float32_as_upstream():
    just_below = [1 / 6 - 1e-9]
    ids = [VIDEO] * 4
    ours = mrope(np.array(ids, np.int32), [], [[4, 2, 2]], facts_of("qwen2_5_vl"), just_below)
    assert ours[0].tolist() == [0, 0, 0, 1]
    expected = upstream_positions("qwen2_5_vl", ids, [], [[4, 2, 2]], just_below)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_many_samples_at_once_equal_one_by_one(name):
    samples = [
        build(name, parts)
        for parts in (
            [3, ("v", (2, 4, 6)), ("i", (1, 2, 8))],
            [5],
            [("i", (1, 4, 4))],
            [("v", (3, 2, 2)), 4, ("v", (1, 6, 2))],
        )
    ]
    # the first sample ends with its last slot: the next one still starts from 0
    samples[2] = (samples[2][0][:-1], *samples[2][1:])
    facts = facts_of(name)
    one_by_one = [mrope(np.array(i, np.int32), g, v, facts) for i, g, v in samples]
    ids = np.concatenate([np.array(i, np.int32) for i, _, _ in samples])
    grids = tuple([grid for sample in samples for grid in sample[kind]] for kind in (1, 2))
    tokens = Offsets.from_lengths([len(s[0]) for s in samples])
    at_once = mrope_planes(slot_runs(ids, facts), tokens, grids, facts)
    np.testing.assert_array_equal(at_once, np.concatenate(one_by_one, axis=1))


def test_grid_that_reaches_into_the_next_sample_is_refused():
    facts = facts_of("qwen2_vl")
    slots = slot_runs(np.array([5, IMAGE, IMAGE, 5], np.int32), facts)
    with pytest.raises(ValueError, match="reach into the next sample"):
        mrope_planes(slots, Offsets.from_lengths([2, 2]), ([[1, 2, 4]], []), facts)


def test_empty_sample():
    assert mrope(np.array([], np.int32), [], [], facts_of("qwen3_vl")).shape == (3, 0)


@pytest.mark.parametrize(
    ("ids", "images", "videos", "message"),
    [
        ([IMAGE, 5], [], [], "1 image slots, but the 0 image grids need 0"),
        ([5, 5], [[1, 2, 2]], [], "0 image slots, but the 1 image grids need 1"),
        ([IMAGE, 5, IMAGE], [[1, 2, 4]], [], "image grid 0 do not stand side by side"),
        ([VIDEO, 5], [], [[1, 3, 2]], "positive multiples of merge_size 2"),
        ([VIDEO, 5], [], [[0, 2, 2]], "positive multiples of merge_size 2"),
    ],
)
def test_slots_and_grids_that_do_not_match_are_refused(ids, images, videos, message):
    with pytest.raises(ValueError, match=message):
        mrope(np.array(ids, np.int32), images, videos, facts_of("qwen3_vl"))


def test_every_video_needs_its_seconds():
    with pytest.raises(ValueError, match="1 video grids need as many seconds, found 2"):
        mrope(np.array([VIDEO], np.int32), [], [[1, 2, 2]], facts_of("qwen2_5_vl"), [1.0, 2.0])


def test_text_family_has_no_planes():
    with pytest.raises(ValueError, match="one plane"):
        mrope(np.array([1, 2], np.int32), [], [], ModelFacts("text", 10))
