"""Samples dealt to pools of packs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.pack.pools import pooled


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=80),
    st.integers(1, 60),
)
@settings(max_examples=150, deadline=None)
def test_no_budget_is_exceeded_and_what_fits_is_placed(rows, packs):
    needs = np.array(rows).T
    order = np.arange(len(rows))[::-1]
    chosen = pooled([(needs[0], 12), (needs[1], 9)], order, packs)
    placed, rooms = chosen >= 0, []
    assert chosen.max() < packs
    for need, most in zip(needs, (12, 9), strict=True):
        held = np.bincount(chosen[placed], weights=need[placed], minlength=packs)
        assert held.max(initial=0) <= most
        rooms.append(most - held)
    for row in needs.T[~placed]:  # so few packs are one pool: none is out of reach
        assert not (np.array(rooms) >= row[:, None]).all(axis=0).any()


def test_what_takes_one_budget_joins_what_takes_the_other():
    tokens, images = np.array([8, 8, 8, 1, 1, 1]), np.array([0, 0, 0, 3, 3, 3])
    chosen = pooled([(tokens, 10), (images, 3)], np.arange(6), 3)
    assert sorted(chosen[:3].tolist()) == sorted(chosen[3:].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("packs", [95, 96, 97, 192, 1000])
def test_every_pack_can_be_reached(packs):
    ones = np.ones(packs, dtype=np.int64)
    chosen = pooled([(ones, 1)], np.arange(packs), packs)
    assert sorted(chosen.tolist()) == list(range(packs))
