from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.offsets import Offsets
from packcli.verify import kernels
from packcli.verify.oracle import ATTENTION, CONV, STATE, WINDOWS, Stored, codes, measure

KERNELS = {
    "attention": kernels.load("sdpa"),
    "state": kernels.load("gated_delta"),
    "conv": kernels.load("causal_conv"),
}
ORACLES = [ATTENTION, WINDOWS, STATE, CONV]
BY_KIND = pytest.mark.parametrize("oracle", ORACLES, ids=lambda o: o.kind)


def run(oracle, expected, values, dtype="float32"):
    stored = Stored(np.asarray(values, dtype=np.int32), int(np.diff(values).max(initial=0)))
    return measure(oracle, KERNELS[oracle.kernel_kind], expected, stored, dtype)


def wrong_boundaries(values):
    """Every merge, shift and split of a pack, by name."""
    values = list(values)
    for i in range(1, len(values) - 1):
        yield f"merge {i}", values[:i] + values[i + 1 :]
        for step in (1, -1):
            moved = [*values[:i], values[i] + step, *values[i + 1 :]]
            if moved[i - 1] < moved[i] < moved[i + 1]:
                yield f"shift {i} {step:+d}", moved
    for i, (start, end) in enumerate(pairwise(values)):
        for cut in {start + 1, (start + end) // 2, end - 1} - {start, end}:
            yield f"split {i} at {cut}", [*values[: i + 1], cut, *values[i + 1 :]]
    lengths = np.diff(values)
    for i in range(len(lengths) - 1):
        if lengths[i] != lengths[i + 1]:
            swapped = lengths.copy()
            swapped[[i, i + 1]] = lengths[[i + 1, i]]
            yield f"swap {i}", [0, *np.cumsum(swapped).tolist()]
    if len(values) > 2:
        yield "all merged", [0, values[-1]]
        yield "missing last", values[:-1]


packs = st.lists(st.integers(1, 12), min_size=1, max_size=6)


@BY_KIND
@settings(max_examples=60, deadline=None)
@given(lengths=packs)
def test_right_boundaries_pass_and_every_wrong_one_is_caught(oracle, lengths):
    expected = Offsets.from_lengths(lengths)
    assert run(oracle, expected, expected.values).largest <= 0.002
    for name, values in wrong_boundaries(expected.values.tolist()):
        assert run(oracle, expected, values).largest >= 0.499, name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("oracle", [ATTENTION, WINDOWS], ids=lambda o: o.kind)
def test_half_precision_keeps_the_margin(oracle, dtype):
    expected = Offsets.from_lengths([200, 1, 3, 600, 1, 2, 133])
    assert run(oracle, expected, expected.values, dtype).largest <= 0.002
    for name, values in wrong_boundaries(expected.values.tolist()):
        assert run(oracle, expected, values, dtype).largest >= 0.49, name


@BY_KIND
def test_clean_cpu_output_in_float32_is_exact_for_linear_attention(oracle):
    expected = Offsets.from_lengths([5, 1, 1, 300, 2])
    largest = run(oracle, expected, expected.values).largest
    assert largest == 0 if oracle in {STATE, CONV} else largest < 1e-5


@BY_KIND
def test_samples_of_one_token(oracle):
    expected = Offsets.unit(7)
    assert run(oracle, expected, expected.values).largest <= 0.002
    assert run(oracle, expected, [0, 1, 2, 4, 5, 6, 7]).wrong.tolist() == (
        [False, False, oracle is WINDOWS, True, False, False, False]
    )


def test_attention_answer():
    answer = ATTENTION.answer(Offsets.from_lengths([3, 1]))
    assert answer[:, 0].tolist() == [1, 1, 0.5, 1]
    assert np.array_equal(answer[:, 1:], codes(2, 31)[[0, 0, 0, 1]])


def test_window_answer_weighs_both_ends_in_every_row():
    assert WINDOWS.answer(Offsets.from_lengths([3, 1]))[:, 0].tolist() == [0.5, 0.5, 0.5, 1]


def test_linear_answers():
    expected = Offsets.from_lengths([6, 1])
    assert (STATE.answer(expected)[:, 0]).tolist() == [1, 1, 1, 1, 1, 2, -1]
    assert (CONV.answer(expected)[:, 0]).tolist() == [1, 2, 3, 4, 4, 4, -1]


def test_codes_of_neighbours_differ_in_the_first_channel_and_are_unique():
    many = codes(500, 31)
    assert many[:4, 0].tolist() == [1, -1, 1, -1]
    assert len(np.unique(many, axis=0)) == 500


def test_a_lone_conv_leak_shows_in_the_first_three_tokens_only():
    expected = Offsets.from_lengths([8, 8])
    wrong = run(CONV, expected, [0, 16]).wrong
    assert np.flatnonzero(wrong).tolist() == [8, 9, 10]


def test_an_output_that_is_not_a_number_deviates_without_limit():
    from dataclasses import replace

    broken = replace(KERNELS["conv"], run=lambda probe: probe.inputs * np.nan)
    expected = Offsets.from_lengths([2, 2])
    measured = measure(CONV, broken, expected, Stored(expected.values, 2), "float32")
    assert measured.largest == np.inf
    assert measured.wrong.all()


def dense(mask):
    """Softmax attention with any (T, T) visibility, to leak single rows or columns."""

    def attend(probe):
        scores = probe.query[:, 0] @ probe.key[:, 0].T / np.sqrt(probe.query.shape[2])
        weight = np.where(mask, np.exp(scores - 24), 0)
        out = weight / weight.sum(axis=1, keepdims=True) @ probe.value[:, 0]
        return np.stack([out, out], axis=1).astype(np.float32)

    return attend


@pytest.mark.parametrize(
    ("rows", "columns", "caught"),
    [
        (slice(0, 0), slice(0, 0), False),
        (slice(4, 5), slice(0, 4), True),
        (slice(4, 9), slice(0, 1), True),
        (slice(4, 5), slice(0, 1), True),
        (slice(8, 9), slice(3, 4), True),
    ],
    ids=["none", "into B's first", "from A's first", "first to first", "last to last"],
)
def test_a_leak_of_one_row_or_one_column_is_caught(rows, columns, caught):
    from dataclasses import replace

    expected = Offsets.from_lengths([4, 5])
    segment = expected.segment_ids()
    mask = (segment[:, None] == segment) & np.tri(9, dtype=bool)
    mask[rows, columns] = True
    kernel = replace(KERNELS["attention"], run=dense(mask))
    measured = measure(ATTENTION, kernel, expected, Stored(expected.values, 5), "float32")
    assert measured.wrong.any() == caught
