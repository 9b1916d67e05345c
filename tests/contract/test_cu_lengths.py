from __future__ import annotations

import numpy as np
import pytest

from packcli.contract.cu_lengths import cu_lengths, read_cu_lengths
from packcli.contract.offsets import Offsets

ABC = Offsets.from_lengths([5, 3, 4])


def test_packed_view_is_the_running_sum():
    view = cu_lengths(ABC)
    assert view.tolist() == [[0, 5, 8, 12]]
    assert view.dtype == np.int32
    assert read_cu_lengths(view, 12) == ABC


def test_pack_of_one_is_not_the_placeholder():
    alone = Offsets.from_lengths([7])
    assert cu_lengths(alone).tolist() == [[0, 7]]
    assert cu_lengths(alone, packed=False).tolist() == [[0]]
    assert read_cu_lengths([[0, 7]], 7) == alone
    assert read_cu_lengths([[0]], 7) == alone


def test_placeholder_stands_for_one_sample_only():
    with pytest.raises(ValueError, match="found 3"):
        cu_lengths(ABC, packed=False)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ([0, 5, 12], "shape"),
        ([[0, 5], [0, 7]], "shape"),
        ([[0, 5, 8]], "grow from 0 to 12"),
        ([[0, 5, 5, 12]], "grow from 0 to 12"),
        ([[1, 5, 12]], "0 = v0"),
        ([[0.0, 12.0]], "integers"),
    ],
)
def test_broken_views_are_refused(view, message):
    with pytest.raises(ValueError, match=message):
        read_cu_lengths(view, 12)
