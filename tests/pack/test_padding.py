"""Padding for context parallelism: segments of their own, whatever the family."""

import json
from dataclasses import replace
from functools import partial
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.batch import compile_boundaries, packed_seq_params
from packcli.contract.errors import UsageError
from packcli.contract.model import Padding
from packcli.contract.padding import NAME, padding_of, without_padding
from packcli.pack.options import PlanOptions
from packcli.pack.padding import padded
from packcli.pack.plan import make_plan
from packcli.pack.run import Writing, pack
from packcli.pack.stored import read_stored
from packcli.shards.manifest import read_manifest
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.run import verify, verify_against
from tests.contract.making import MODELS, TEXT_MODEL, make_packs, make_samples
from tests.pack.test_run import FAMILIES, SMALL, read, samples_of

PADDED = PlanOptions(2048, pad_sample_multiple=8, pad_pack_multiple=64)


@pytest.fixture
def packed(tmp_path):
    """Pack into a fresh folder and return it."""
    count = iter(range(100))

    def run(inputs, options=PADDED, **writing):
        output = tmp_path / f"packed{next(count)}"
        return output, pack(inputs, options, Writing(output, **writing))

    return run


def segments(packs, row):
    """(is padding, tokens) of each segment of a pack."""
    inside = slice(*packs.members.values[row : row + 2])
    return list(
        zip(padding_of(packs)[inside].tolist(), packs.tokens.lengths[inside].tolist(), strict=True)
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_packs_pass_the_kernel_level_and_hold_the_same_samples(encoded, packed, family):
    output, summary = packed([encoded(family)], **SMALL)
    verdict = verify([output], kernel=KernelOptions(sample=3))
    assert verdict.passed, verdict.findings
    before, after = read(encoded(family)), read(output)
    assert samples_of(without_padding(after)) == samples_of(before)
    assert verdict.checked["samples"] == summary.samples == before.members.total
    assert summary.tokens == before.tokens.total
    assert summary.padding == after.tokens.total - before.tokens.total > 0
    assert np.all(after.pack_tokens.lengths % 64 == 0)
    assert after.pack_tokens.lengths.max() <= 2048
    manifest = read_manifest(output)
    assert manifest.digest == read_manifest(encoded(family)).digest
    assert manifest.model.padding == Padding(1792, 8, 64)
    assert sum(shard.samples for shard in manifest.shards) == summary.samples
    assert manifest.counts["padding"] == summary.padding


def test_padded_packs_hold_what_the_input_gives(encoded, packed):
    output, _ = packed([encoded()])
    verdict = verify([output])
    verify_against([output], [encoded()], verdict)
    assert verdict.passed, verdict.findings
    assert verdict.checked["compared"] == verdict.checked["samples"]


def test_padding_is_left_out_when_packs_are_packed_again(encoded, packed):
    once, _ = packed([encoded()], **SMALL)
    again, summary = packed([once], PlanOptions(4096))
    assert samples_of(read(again)) == samples_of(read(encoded()))
    assert summary.padding == 0
    assert read_manifest(again).model.padding is None
    assert verify([again]).passed
    half, _ = packed([once], replace(PADDED, seed=1), **SMALL)
    assert samples_of(without_padding(read(half))) == samples_of(read(encoded()))


def test_every_kind_of_pack_is_padded_to_the_multiple():
    for facts in MODELS.values():
        told = replace(facts, padding=Padding(7, 4, 6))
        packs = make_packs(np.random.default_rng(3), facts, 3)
        filled = padded(packs, told)
        pads = padding_of(filled)
        unit = lcm(4, 6)
        assert np.all(filled.pack_tokens.lengths % unit == 0)
        assert np.all(filled.pack_tokens.lengths - packs.pack_tokens.lengths < 5 * 4 + unit)
        ids = filled.columns["input_ids"][filled.tokens.gather(np.flatnonzero(pads))]
        assert set(ids.tolist()) == {7}
        slots = np.add.reduceat(filled.tokens.lengths, np.flatnonzero(~pads))
        assert np.all(slots % 4 == 0)
        back = replace(without_padding(filled), facts=facts)
        assert back.members == packs.members
        assert back.columns["input_ids"].tolist() == packs.columns["input_ids"].tolist()


def test_one_segment_behind_a_sample_and_the_tail_behind_the_last():
    packs = make_samples(np.random.default_rng(0), TEXT_MODEL, 2).joined()
    lengths = packs.tokens.lengths.tolist()
    filled = padded(packs, replace(TEXT_MODEL, padding=Padding(5, 8, 40)))
    gap = -lengths[0] % 8
    tail = -(lengths[0] + gap + lengths[1]) % 40
    expected = [(False, lengths[0]), (True, gap), (False, lengths[1]), (True, tail)]
    assert segments(filled, 0) == [one for one in expected if one[1]]
    assert filled.columns["sample_ids"][1] == NAME
    assert filled.columns["sample_sources"][1] == ""


@given(
    lengths=st.lists(st.integers(0, 40), max_size=40),
    capacity=st.integers(24, 90),
    sample=st.integers(1, 6),
    whole=st.sampled_from([1, 2, 4]),
    strategy=st.sampled_from(["binpack", "sequential"]),
)
@settings(max_examples=200, deadline=None)
def test_no_plan_exceeds_the_capacity_when_it_is_padded(lengths, capacity, sample, whole, strategy):
    options = PlanOptions(
        capacity, strategy, pad_sample_multiple=sample, pad_pack_multiple=whole, max_samples=5
    )
    plan = make_plan(lengths, options)
    unit = lcm(sample, whole)
    for members in plan.members.slices():
        slots = [-(-lengths[one] // sample) * sample for one in plan.order[members].tolist()]
        assert -(-sum(slots) // unit) * unit <= capacity
    room = capacity // unit * unit
    for one in plan.rejected.tolist():
        assert -(-lengths[one] // sample) * sample > room
    assert plan.tokens == sum(lengths[one] for one in plan.order.tolist())


def test_a_capacity_without_a_multiple_is_refused():
    with pytest.raises(UsageError, match="a pack of 100 tokens holds no multiple of 128"):
        PlanOptions(100, pad_pack_multiple=128)
    assert make_plan([100, 90], PlanOptions(200, pad_pack_multiple=128)).packs == 2


def test_too_long_with_its_padding_is_said(encoded, packed):
    longest = int(read(encoded()).tokens.lengths.max())
    output, summary = packed([encoded()], PlanOptions(longest + 1, pad_pack_multiple=longest + 1))
    assert summary.rejected == 0
    output, summary = packed([encoded()], PlanOptions(longest, pad_sample_multiple=longest - 1))
    assert summary.reasons == {"over_pack_length": 1}
    line = json.loads((output / "rejected.jsonl").read_text())
    assert f"tokens with padding, a pack holds {longest - 1}" in line["message"]


def test_a_stored_plan_is_padded_as_it_was_planned(encoded, packed, tmp_path):
    from packcli.pack.material import gathered
    from packcli.pack.sources import open_sources
    from packcli.pack.stored import plan_material, write_stored

    once, _ = packed([encoded()], **SMALL)
    for source in (encoded(), once):
        material = gathered([source], open_sources([source]), PADDED)
        _, stored = plan_material(material, PADDED, ["encoded"])
        path = tmp_path / "plan.parquet"
        write_stored(path, stored, material.index.samples, material)
        back = read_stored(path)
        output = tmp_path / f"filled-{source.name}"
        summary = pack([source], back.options, Writing(output), stored=back)
        assert verify([output]).passed
        assert summary.padding > 0
        assert samples_of(without_padding(read(output))) == samples_of(read(encoded()))


def test_megatron_takes_the_samples_with_the_padding_behind_them(encoded, packed):
    from packcli.train import PackDataset

    output, _ = packed([encoded()], **SMALL)
    packs, row = read(output), 0
    one = PackDataset(output)[row]
    params = packed_seq_params([one])
    real = [tokens for pad, tokens in segments(packs, row) if not pad]
    assert np.diff(params["cu_seqlens_q"]).tolist() == real
    slots = np.diff(params["cu_seqlens_q_padded"])
    assert np.all(slots % 8 == 0)
    assert np.all(slots >= real)
    assert params["cu_seqlens_q_padded"][-1] == len(one)
    assert params["max_seqlen_q"] == slots.max()
    assert params["cu_seqlens_q"].dtype == params["cu_seqlens_kv_padded"].dtype == np.int32
    two = packed_seq_params([one, PackDataset(output)[1]])
    assert two["cu_seqlens_q_padded"][-1] == len(one) + len(PackDataset(output)[1])


def test_position_restarts_give_the_stored_slices(encoded, packed):
    import torch
    from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

    output, _ = packed([encoded()], **SMALL)
    packs = read(output)
    for row in range(len(packs)):
        members = packs.rows(np.array([row]))
        positions = members.tokens.restarting()
        (query, _), (longest, _) = prepare_fa_kwargs_from_position_ids(
            torch.from_numpy(positions.astype(np.int64))[None]
        )
        assert query.tolist() == members.tokens.values.tolist()
        assert longest == members.tokens.lengths.max()
        assert compile_boundaries(positions).tolist() == query.tolist()


def test_windows_and_workers_change_no_byte(encoded, packed):
    files = partial(lambda path: [p.read_bytes() for p in sorted((path / "data").iterdir())])
    one, _ = packed([encoded()], **SMALL)
    two, _ = packed([encoded()], workers=2, **SMALL)
    assert files(one) == files(two)
