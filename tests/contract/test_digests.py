from __future__ import annotations

import json
import struct
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

from packcli.contract.columns import Axis
from packcli.contract.digests import SIZE, digest_total, sample_digests, spell_total
from packcli.contract.offsets import Offsets
from packcli.contract.packs import boxed
from tests.contract.making import MODELS, make_packs, make_samples


def digest_of(ids, labels, *grids, name="", media=()):
    """The digest as its documentation says, from plain lists."""
    state = blake2b(digest_size=16)
    for values in (ids, labels, *grids):
        state.update(len(values).to_bytes(8, "little"))
        flat = [n for v in values for n in (v if isinstance(v, list) else [v])]
        state.update(b"".join(struct.pack("<f" if type(n) is float else "<i", n) for n in flat))
    state.update(len(name.encode()).to_bytes(8, "little") + name.encode())
    if media and media[0]:
        state.update(json.dumps(media).encode())
    return state.digest()


@pytest.mark.parametrize("family", MODELS)
def test_digest_is_what_is_documented(family):
    packs = make_packs(np.random.default_rng(4), MODELS[family])
    digests = sample_digests(packs)
    assert digests.shape == (packs.members.total, SIZE)
    assert digests.dtype == np.uint8
    for sample in range(packs.members.total):

        def part(name, axis, sample=sample):
            bounds = packs.axes[axis].values
            return packs.columns[name][bounds[sample] : bounds[sample + 1]].tolist()

        told = [part("input_ids", Axis.TOKEN), part("labels", Axis.TOKEN)]
        if packs.facts.has_media:
            told += [part("image_grid_thw", Axis.IMAGE), part("video_grid_thw", Axis.VIDEO)]
        seconds = "second_per_grid_ts" in packs.columns
        told += [part("second_per_grid_ts", Axis.VIDEO)] if seconds else []
        told += [part("loss_scale", Axis.TOKEN)] if packs.facts.loss_scale else []
        names = ("kind", "uri", "height", "width", "frame_indices", "timestamps")
        held = names if packs.facts.has_media else ()
        media = [part(f"media.{name}", Axis.MEDIUM) for name in held]
        name = packs.columns["sample_ids"][sample]
        assert digests[sample].tobytes() == digest_of(*told, name=name, media=media)


def test_a_name_counts_unless_it_is_the_place():
    packs = make_samples(np.random.default_rng(0), MODELS["text"], 3)
    told = []
    for names in (["a", "b", "é"], ["a", "c", "é"], ["f:1", "f:2", "f:3"], ["", "", ""]):
        named = {**packs.columns, "sample_ids": boxed(names)}
        named["sample_sources"] = boxed(["f:1", "f:2", "f:3"])
        told.append([one.tobytes() for one in sample_digests(replace(packs, columns=named))])
    assert [a == b for a, b in zip(told[0], told[1], strict=True)] == [True, False, True]
    assert not set(told[0]) & set(told[2])
    assert told[2] == told[3]


def test_digest_of_one_text_sample_stays_the_same():
    packs = make_samples(np.random.default_rng(0), MODELS["text"], 1)
    columns = {
        **packs.columns,
        "input_ids": np.array([1, 2, 3], np.int32),
        "labels": np.array([-100, 2, 3], np.int32),
        "sample_ids": boxed(["one"]),
    }
    known = replace(packs, axes={Axis.TOKEN: Offsets.from_lengths([3])}, columns=columns)
    expected = digest_of([1, 2, 3], [-100, 2, 3], name="one").hex()
    assert sample_digests(known)[0].tobytes().hex() == expected
    assert sample_digests(known)[0].tobytes().hex() == "f934b82afd57e28d9646b1377bae5e0b"


@pytest.mark.parametrize("family", MODELS)
def test_digest_does_not_depend_on_packing_or_order(family):
    packs = make_packs(np.random.default_rng(7), MODELS[family])
    order = np.random.default_rng(1).permutation(packs.members.total)
    np.testing.assert_array_equal(sample_digests(packs.joined()), sample_digests(packs))
    np.testing.assert_array_equal(sample_digests(packs.take(order)), sample_digests(packs)[order])


@pytest.mark.parametrize("name", ["input_ids", "labels", "image_grid_thw", "video_grid_thw"])
def test_every_number_counts(name):
    packs = make_packs(np.random.default_rng(3), MODELS["qwen2_vl"], packs=8)
    before, column = sample_digests(packs), packs.columns[name]
    axis = {"image_grid_thw": Axis.IMAGE, "video_grid_thw": Axis.VIDEO}.get(name, Axis.TOKEN)
    for place in range(0, len(column), max(1, len(column) // 20)):
        values = column.copy()
        values[place] += 1
        after = sample_digests(replace(packs, columns={**packs.columns, name: values}))
        sample = packs.axes[axis].segment_ids()[place]
        assert np.flatnonzero((before != after).any(axis=1)).tolist() == [sample]


@pytest.mark.parametrize("name", ["uri", "height", "width", "frame_indices", "timestamps"])
def test_what_the_collator_opens_counts(name):
    packs = make_packs(np.random.default_rng(3), MODELS["qwen2_vl"], packs=8)
    before, column = sample_digests(packs), packs.columns[f"media.{name}"]
    values = column.copy()
    values[0] = {"uri": "other.png", "frame_indices": [7], "timestamps": [9.5]}.get(name, 1234)
    after = sample_digests(replace(packs, columns={**packs.columns, f"media.{name}": values}))
    sample = packs.axes[Axis.MEDIUM].segment_ids()[0]
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [sample]


def test_wider_integers_give_the_same_digest():
    packs = make_packs(np.random.default_rng(3), MODELS["text"])
    wide = {**packs.columns, "input_ids": packs.columns["input_ids"].astype(np.int64)}
    np.testing.assert_array_equal(
        sample_digests(replace(packs, columns=wide)), sample_digests(packs)
    )


def test_no_samples_have_no_digests():
    packs = make_packs(np.random.default_rng(3), MODELS["text"])
    assert sample_digests(packs.rows(np.zeros(0, np.int64))).shape == (0, SIZE)


def test_total_is_the_sum_of_digests():
    digests = np.random.default_rng(1).integers(0, 256, (300, SIZE)).astype(np.uint8)
    expected = sum(int.from_bytes(digest.tobytes(), "little") for digest in digests) % (1 << 128)
    assert digest_total(digests) == expected
    assert digest_total(digests[::-1]) == expected
    assert (digest_total(digests[:99]) + digest_total(digests[99:])) % (1 << 128) == expected
    assert digest_total(digests[:0]) == 0


def test_total_tells_a_lost_and_a_doubled_sample():
    digests = sample_digests(make_packs(np.random.default_rng(3), MODELS["text"], packs=9))
    whole = digest_total(digests)
    assert digest_total(digests[1:]) != whole
    assert digest_total(np.concatenate([digests[1:], digests[1:2]])) != whole


def test_totals_are_spelled_with_32_digits():
    assert spell_total(255) == "0" * 30 + "ff"
    assert spell_total((1 << 128) + 1) == "0" * 31 + "1"
