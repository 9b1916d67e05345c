from __future__ import annotations

import numpy as np
import pytest

from packcli.contract.columns import BY_NAME, COLUMNS, FORBIDDEN, Axis, Need, columns_for
from packcli.contract.derived import DERIVED, sample_starts, sum_per_pack
from packcli.contract.mrope import mrope
from packcli.contract.packs import carried_columns, held_axes
from tests.contract.making import IMAGE, MODELS, VIDEO, make_packs

SLOTS = {IMAGE: 1, VIDEO: 2}

SEEDS = range(8)
CASES = [(family, seed) for family in MODELS for seed in SEEDS]


def by_sample(packs):
    """Samples of each pack as plain dicts of lists."""
    tokens, found = packs.tokens.values, []
    for start, stop in zip(packs.members.starts, packs.members.ends, strict=True):
        pack = []
        for sample in range(start, stop):
            part = slice(tokens[sample], tokens[sample + 1])
            one = {name: packs.columns[name][part].tolist() for name in ("input_ids", "labels")}
            one["grids"], one["media"] = [], 0
            for axis in ("image", "video") if packs.facts.has_media else ():
                bounds = packs.axes[Axis(axis)].values
                grids = packs.columns[f"{axis}_grid_thw"][bounds[sample] : bounds[sample + 1]]
                one["grids"] += grids.tolist()
                one["media"] += len(grids)
            pack.append(one)
        found.append(pack)
    return found


def naive(pack):
    """Derived columns of one pack, by loops over its samples."""
    told = {name: [] for name in ("position_ids", "seq_lengths", "seq_start_id", "loss_mask")}
    told |= {"cu_seqlens": [0], "media.sample_index": [], "vit_cu_seqlens": [0]}
    told["mm_token_type_ids"] = []
    patches = supervised = squares = 0
    for number, sample in enumerate(pack):
        size = len(sample["input_ids"])
        told["position_ids"] += range(size)
        told["seq_start_id"].append(told["cu_seqlens"][-1])
        told["cu_seqlens"].append(told["cu_seqlens"][-1] + size)
        told["seq_lengths"].append(size)
        told["loss_mask"] += [int(label != -100) for label in sample["labels"][1:]] + [0]
        told["mm_token_type_ids"] += [SLOTS.get(token, 0) for token in sample["input_ids"]]
        told["media.sample_index"] += [number] * sample["media"]
        supervised += sum(label != -100 for label in sample["labels"])
        squares += size**2
        for frames, height, width in sample["grids"]:
            patches += frames * height * width
            for first in range(0, frames, 4):
                window = min(4, frames - first) * height * width
                told["vit_cu_seqlens"].append(told["vit_cu_seqlens"][-1] + window)
    return told | {
        "length": [told["cu_seqlens"][-1]],
        "max_seqlen": [max(told["seq_lengths"])],
        "num_samples": [len(pack)],
        "num_supervised": [supervised],
        "sum_sq_len": [squares],
        "num_patches": [patches],
    }


@pytest.mark.parametrize(("family", "seed"), CASES)
def test_derived_columns_equal_loops_over_samples(family, seed):
    packs = make_packs(np.random.default_rng(seed), MODELS[family])
    expected = [naive(pack) for pack in by_sample(packs)]
    for column in columns_for(packs.facts):
        if column.derived and column.planes == 1:
            values = DERIVED[column.name](packs)
            assert values.tolist() == [v for pack in expected for v in pack[column.name]]
            assert values.dtype == column.dtype, column.name


@pytest.mark.parametrize(("family", "seed"), [case for case in CASES if MODELS[case[0]].has_mrope])
def test_planes_are_those_of_each_sample_alone(family, seed):
    packs = make_packs(np.random.default_rng(seed), MODELS[family])
    images, videos = (packs.axes[axis].slices() for axis in (Axis.IMAGE, Axis.VIDEO))
    seconds = packs.columns.get("second_per_grid_ts")
    planes = [
        mrope(
            packs.columns["input_ids"][tokens],
            packs.columns["image_grid_thw"][image],
            packs.columns["video_grid_thw"][video],
            packs.facts,
            None if seconds is None else seconds[video],
        )
        for tokens, image, video in zip(packs.tokens.slices(), images, videos, strict=True)
    ]
    derived = DERIVED["mrope_position_ids"](packs)
    assert derived.dtype == np.int32
    np.testing.assert_array_equal(derived, np.concatenate(planes, axis=1))


def test_loss_mask_never_looks_across_a_boundary():
    packs = make_packs(np.random.default_rng(2), MODELS["text"])
    packs.columns["labels"][:] = packs.columns["input_ids"]
    mask = DERIVED["loss_mask"](packs)
    assert np.flatnonzero(mask == 0).tolist() == (packs.tokens.ends - 1).tolist()


def test_derived_functions_are_those_of_the_table():
    assert DERIVED.keys() == {column.name for column in COLUMNS if column.derived}


def test_forbidden_names_are_no_columns():
    assert not FORBIDDEN.keys() & {column.name for column in COLUMNS}
    assert not FORBIDDEN.keys() & {column.name.split(".")[0] for column in COLUMNS}
    assert {"attention_mask", "image", "images", "prompt", "completion", "messages", "text"} <= (
        FORBIDDEN.keys()
    )


def test_names_are_unique():
    assert len(BY_NAME) == len(COLUMNS)


def test_columns_of_a_text_model():
    held = [column.name for column in columns_for(MODELS["text"])]
    assert held[:3] == ["input_ids", "labels", "position_ids"]
    assert not [n for n in held if "grid" in n or "mrope" in n or "media" in n or "mm_" in n]
    assert held_axes(MODELS["text"]) == (Axis.TOKEN,)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_columns_of_a_media_model_without_seconds(family):
    held = {column.name for column in columns_for(MODELS[family])}
    wanted = {Need.ALWAYS, Need.MEDIA, Need.MROPE}
    assert held == {column.name for column in COLUMNS if column.need in wanted}
    assert held_axes(MODELS[family]) == (Axis.TOKEN, Axis.IMAGE, Axis.VIDEO, Axis.MEDIUM)


def test_timed_videos_carry_seconds():
    untimed = {column.name for column in columns_for(MODELS["qwen2_vl"])}
    timed = {column.name for column in columns_for(MODELS["qwen2_5_vl"])}
    assert timed - untimed == {"second_per_grid_ts"}
    assert untimed <= timed


def test_carried_and_derived_columns_make_the_row():
    for facts in MODELS.values():
        carried = set(carried_columns(facts))
        assert carried | {c for c in columns_for(facts) if c.derived} == set(columns_for(facts))


def test_sums_over_packs_by_hand():
    packs = make_packs(np.random.default_rng(2), MODELS["text"], packs=3)
    lengths = packs.tokens.lengths
    split = np.split(lengths, packs.members.values[1:-1])
    assert sum_per_pack(packs, lengths, Axis.SAMPLE).tolist() == [int(s.sum()) for s in split]
    assert sample_starts(packs)[packs.members.starts].tolist() == [0, 0, 0]
