from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.offsets import Offsets

LENGTHS = st.lists(st.integers(0, 9), max_size=12)
QUICK = settings(max_examples=60, deadline=None)


@QUICK
@given(LENGTHS)
def test_lengths_come_back(lengths):
    offsets = Offsets.from_lengths(lengths)
    assert offsets.values.dtype == np.int32
    assert offsets.lengths.tolist() == lengths
    assert len(offsets) == len(lengths)
    assert offsets.total == sum(lengths)
    assert offsets.strict == all(length > 0 for length in lengths)
    assert Offsets.from_values(offsets.values) == offsets


@QUICK
@given(LENGTHS)
def test_slices_starts_ends_and_segment_ids_tell_the_same(lengths):
    offsets = Offsets.from_lengths(lengths)
    slices = list(offsets.slices())
    assert [(s.start, s.stop) for s in slices] == list(
        zip(offsets.starts.tolist(), offsets.ends.tolist(), strict=True)
    )
    segment = [n for n, length in enumerate(lengths) for _ in range(length)]
    assert offsets.segment_ids().tolist() == segment
    assert offsets.restarting().tolist() == [i for n in lengths for i in range(n)]


@QUICK
@given(st.lists(LENGTHS, max_size=6))
def test_through_counts_elements_of_groups(groups):
    outer = Offsets.from_lengths([len(group) for group in groups])
    inner = Offsets.from_lengths([length for group in groups for length in group])
    assert outer.through(inner).lengths.tolist() == [sum(group) for group in groups]


@QUICK
@given(LENGTHS.filter(bool), st.data())
def test_gather_and_take_move_whole_segments(lengths, data):
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8))
    offsets, flat = Offsets.from_lengths(lengths), np.arange(sum(lengths))
    parts = [flat[part] for part in offsets.slices()]
    expected = np.concatenate([flat[:0], *[parts[n] for n in order]])
    places = np.array(order, dtype=np.int64)
    assert offsets.gather(places).tolist() == expected.tolist()
    assert offsets.take(places).lengths.tolist() == [lengths[n] for n in order]


@QUICK
@given(LENGTHS.filter(bool), st.randoms())
def test_permutation_and_its_inverse_give_it_back(lengths, random):
    order = list(range(len(lengths)))
    random.shuffle(order)
    offsets = Offsets.from_lengths(lengths)
    moved = offsets.take(np.array(order))
    assert moved.take(np.argsort(order)) == offsets
    flat = offsets.gather(np.array(order))
    assert flat[moved.gather(np.argsort(order))].tolist() == list(range(sum(lengths)))


def test_three_samples_by_hand():
    offsets = Offsets.from_lengths([5, 3, 4])
    assert offsets.values.tolist() == [0, 5, 8, 12]
    assert offsets.restarting().tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3]
    assert offsets.gather(np.array([2, 0])).tolist() == [8, 9, 10, 11, 0, 1, 2, 3, 4]


def test_no_segments():
    offsets = Offsets.from_lengths([])
    assert (len(offsets), offsets.total, offsets.strict) == (0, 0, True)
    assert offsets.restarting().tolist() == []
    assert offsets.gather(np.zeros(0, np.int64)).tolist() == []


def test_unit_is_one_element_a_segment():
    assert Offsets.unit(3) == Offsets.from_lengths([1, 1, 1])
    assert Offsets.unit(0).values.tolist() == [0]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [1, 2],
        [0, 5, 3],
        [[0, 1]],
        np.array([0, 5, 3], np.uint32),
        [0, 1.5, 3],
        [0, 2**31],
        ["0", "1"],
    ],
)
def test_values_that_break_the_law_are_refused(values):
    with pytest.raises(ValueError):
        Offsets.from_values(values)


@pytest.mark.parametrize("lengths", [[3, -1], [1.5, 2.0], [2**31 - 1, 1], [2**40], ["3"]])
def test_lengths_that_break_the_law_are_refused(lengths):
    with pytest.raises(ValueError):
        Offsets.from_lengths(lengths)


def test_the_largest_total_fits():
    assert Offsets.from_lengths([2**31 - 2, 1]).total == 2**31 - 1


def test_repeated_values_are_offsets_but_not_strict():
    offsets = Offsets.from_values([0, 2, 2])
    assert not offsets.strict
    assert offsets.lengths.tolist() == [2, 0]


def test_through_refuses_another_number_of_segments():
    with pytest.raises(ValueError, match="2 grouped segments, 3 inner ones"):
        Offsets.from_lengths([1, 1]).through(Offsets.from_lengths([4, 4, 4]))


def test_offsets_are_equal_by_value_and_not_hashable():
    assert Offsets.from_lengths([1, 2]) == Offsets.from_values([0, 1, 3])
    assert Offsets.from_lengths([1, 2]) != Offsets.from_lengths([2, 1])
    assert Offsets.from_lengths([1]) != [0, 1]
    with pytest.raises(TypeError):
        hash(Offsets.unit(1))
