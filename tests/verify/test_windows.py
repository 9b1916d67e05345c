"""Windows of a vision tower under a kernel, and that they do not reach the language model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.cu_lengths import cu_lengths, read_cu_lengths
from packcli.contract.model import VitWindows
from packcli.contract.offsets import Offsets
from packcli.shards.arrow import to_batch, to_rows
from packcli.verify import kernels
from packcli.verify.bounds import PackBounds
from packcli.verify.isolation import check_isolation
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.oracle import ATTENTION, WINDOWS
from packcli.verify.probe import AttentionProbe
from packcli.verify.row_bounds import pack_bounds, window_bounds, window_sample
from packcli.verify.run import verify
from tests.contract.making import IMAGE, MODELS, make_packs

SDPA = kernels.load("sdpa")
FACTS = MODELS["windows"]
EVERY = pytest.mark.parametrize("reading", VitWindows)


def table_of(reading=VitWindows.FRAMES, seed=3, packs=4):
    facts = replace(FACTS, vit_windows=reading)
    return pa.table(to_batch(make_packs(np.random.default_rng(seed), facts, packs=packs))), facts


def with_windows(table, change):
    """Another `vit_cu_seqlens`, made by `change` of each row's."""
    values = [change(row) for row in table["vit_cu_seqlens"].to_pylist()]
    place = table.schema.get_field_index("vit_cu_seqlens")
    return table.set_column(place, "vit_cu_seqlens", pa.array(values, pa.list_(pa.int32())))


def verified(table, facts, tmp_path, **options):
    pq.write_table(table, tmp_path / "packs.parquet")
    return verify([tmp_path / "packs.parquet"], facts=facts, kernel=KernelOptions(**options))


def one_image(t, h, w, stored):
    """One row of one sample that holds one image."""
    ids = [1, *[IMAGE] * (t * h * w // 4), 2]
    lists = pa.list_(pa.int32())
    columns = {
        "input_ids": ids,
        "position_ids": [*range(len(ids))],
        "cu_seqlens": [0, len(ids)],
        "vit_cu_seqlens": stored,
    }
    table = {name: pa.array([values], lists) for name, values in columns.items()}
    table["image_grid_thw"] = pa.array([[[t, h, w]]], pa.list_(lists))
    return pa.table(table)


@EVERY
def test_windows_of_good_packs_are_isolated(reading, tmp_path):
    table, facts = table_of(reading)
    verdict = verified(table, facts, tmp_path)
    assert not verdict.counts
    attention, windows = verdict.proofs
    assert (attention["kind"], windows["kind"], windows["kernel"]) == (
        "attention",
        "windows",
        "sdpa",
    )
    assert windows["packs"] == sum(map(bool, table["image_grid_thw"].to_pylist()))
    assert windows["tokens"] == sum(table["num_patches"].to_pylist())
    assert len(windows["controls"]) == 6
    assert all(control["caught"] for control in windows["controls"])


@pytest.mark.parametrize(
    ("reading", "stored", "messages"),
    [
        (VitWindows.FRAMES, [0, 32, 48], []),
        (VitWindows.TEMPORAL, [0, 8, 16, 24, 32, 40, 48], []),
        (VitWindows.FRAMES, [0, 8, 16, 24, 32, 48], ["window 0 is split at patch 8"]),
        (
            VitWindows.FRAMES,
            [0, 48],
            ["window 0 sees window 1 from patch 0", "window 1 sees window 0 from patch 32"],
        ),
        (
            VitWindows.FRAMES,
            [0, 31, 48],
            [
                "window 0 is split at patch 31",
                "window 0 sees window 1 from patch 31",
                "window 1 sees window 0 from patch 32",
            ],
        ),
        (
            VitWindows.FRAMES,
            [0, 32, 44],
            ["vit_cu_seqlens ends at 44: no segment holds patches 44 to 47 (window 1, patch 44)"],
        ),
        (
            VitWindows.FRAMES,
            [0],
            ["vit_cu_seqlens of shape (1,) holds no segment (window 0, patch 0)"],
        ),
    ],
)
def test_a_wrong_window_is_named(reading, stored, messages, tmp_path):
    facts = replace(FACTS, vit_windows=reading)
    verdict = verified(one_image(6, 2, 4, stored), facts, tmp_path)
    found = [f for f in verdict.findings if f.code == "isolation.windows"]
    assert [finding.message for finding in found] == messages
    assert all((finding.row, finding.sample, finding.token) == (0, 0, None) for finding in found)
    assert ("vit.windows" in verdict.counts) == bool(messages)
    assert "isolation.attention" not in verdict.counts


@EVERY
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_any_moved_boundary_is_seen(reading, seed):
    table, facts = table_of(reading, seed, packs=1)
    bounds = window_bounds(to_rows(table, facts), 0)
    if bounds is None or len(bounds.expected) < 2:
        return
    assert not check_isolation(WINDOWS, bounds, SDPA).faults
    rng = np.random.default_rng(seed)
    wrong = bounds.cu_seqlens.copy()
    wrong[rng.integers(1, len(wrong) - 1)] += rng.choice([-1, 1])
    broken = replace(bounds, cu_seqlens=wrong, max_seqlen=int(np.diff(wrong).max()))
    assert check_isolation(WINDOWS, broken, SDPA).faults


@EVERY
def test_a_window_is_told_by_the_sample_of_its_image(reading):
    table, facts = table_of(reading, seed=5)
    rows = to_rows(table, facts)
    for row, cells in enumerate(table.to_pylist()):
        bounds, samples = window_bounds(rows, row), pack_bounds(rows, row).expected
        if bounds is None:
            continue
        patches = np.flatnonzero(np.array(cells["input_ids"]) == IMAGE).repeat(4)
        for window, first in enumerate(bounds.expected.starts):
            assert (
                window_sample(rows, row, window, samples) == samples.segment_ids()[patches[first]]
            )


@pytest.mark.parametrize(
    "grouped",
    [
        lambda row: [row[0], row[-1]] if row[-1] else row,
        lambda row: [0],
        lambda row: [*range(row[-1] + 1)],
        lambda row: [value + 7 for value in row],
        lambda row: [],
    ],
    ids=["all images in one window", "none", "every patch alone", "beyond the end", "empty"],
)
def test_grouping_in_the_vision_tower_does_not_reach_the_language_model(grouped, tmp_path):
    table, facts = table_of()
    changed = with_windows(table, grouped)
    good, other = (verified(one, facts, tmp_path) for one in (table, changed))
    assert "isolation.windows" in other.counts
    assert "isolation.attention" not in other.counts
    (first,), (second,) = (
        [proof for proof in verdict.proofs if proof["kind"] == "attention"]
        for verdict in (good, other)
    )
    assert first == second
    before, after = to_rows(table, facts), to_rows(changed, facts)
    for row in range(table.num_rows):
        one, two = pack_bounds(before, row), pack_bounds(after, row)
        np.testing.assert_array_equal(one.cu_seqlens, two.cu_seqlens)
        assert (one.expected, one.max_seqlen) == (two.expected, two.max_seqlen)


def test_a_model_whose_tower_cuts_its_windows_itself_has_no_such_proof(packed):
    verdict = verify([packed], kernel=KernelOptions(sample=1))
    assert [proof["kind"] for proof in verdict.proofs] == ["attention"]
    assert "isolation.windows" not in verdict.skipped


def test_windows_without_a_kernel_or_without_images_are_listed(tmp_path):
    table, facts = table_of()
    named = verified(table, facts, tmp_path, names=("causal_conv",))
    assert named.skipped["isolation.windows"] == "no kernel of this kind was named"
    bare = table.drop_columns(["vit_cu_seqlens"])
    verdict = verified(bare, facts, tmp_path)
    assert verdict.skipped["isolation.windows"] == "no pack tells windows and grids"
    assert "vit.windows" in verdict.skipped


def test_grids_that_the_slots_do_not_bear_out_launch_nothing():
    table = one_image(6, 2, 4, [0, 32, 48])
    huge = pa.array([[[1 << 20, 1 << 20, 1 << 20]]], pa.list_(pa.list_(pa.int32())))
    place = table.schema.get_field_index("image_grid_thw")
    rows = to_rows(table.set_column(place, "image_grid_thw", huge), FACTS)
    assert window_bounds(rows, 0) is None
    assert window_sample(rows, 0, 0, Offsets.from_lengths([14])) is None


# ---- cu_lengths: the form in which the trainer of these models takes the boundaries ----


def told(view, tokens, expected):
    """Let a kernel judge what a `cu_lengths` view says against the lengths meant."""
    samples = read_cu_lengths(view, tokens)
    bounds = PackBounds(samples.values, int(samples.lengths.max()), Offsets.from_lengths(expected))
    return check_isolation(ATTENTION, bounds, SDPA)


def test_the_placeholder_is_one_full_causal_sequence():
    assert not told([[0]], 12, [12]).faults
    leaking = told([[0]], 12, [5, 3, 4])
    assert [(f.sample, f.other_sample, f.token) for f in leaking.faults] == [(1, 0, 5), (2, 1, 8)]


def test_the_view_of_a_pack_is_block_diagonal_and_causal():
    assert not told([[0, 5, 8, 12]], 12, [5, 3, 4]).faults
    split = told([[0, 5, 8, 12]], 12, [12])
    assert [fault.what for fault in split.faults] == ["split"]
    full = replace(SDPA, run=lambda probe: SDPA.run(replace(probe, causal=False)))
    samples = read_cu_lengths([[0, 5, 8, 12]], 12)
    bounds = PackBounds(samples.values, 5, samples)
    assert check_isolation(ATTENTION, bounds, full).faults


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_attention_by_a_view_equals_a_dense_mask(lengths):
    rng, samples = np.random.default_rng(len(lengths)), Offsets.from_lengths(lengths)
    total, again = samples.total, read_cu_lengths(cu_lengths(samples), samples.total)
    query, key, value = rng.standard_normal((3, total, 1, 4)).astype(np.float32)
    longest = int(again.lengths.max())
    probe = AttentionProbe(query, key, value, again.values, longest, causal=True, dtype="float32")
    mask = np.zeros((total, total), bool)
    for start, end in pairwise(again.values.tolist()):
        mask[start:end, start:end] = np.tri(end - start, dtype=bool)
    scores = np.where(mask, query[:, 0] @ key[:, 0].T / 2, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    dense = weights @ value[:, 0] / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(SDPA.run(probe)[:, 0], dense, atol=1e-5)
