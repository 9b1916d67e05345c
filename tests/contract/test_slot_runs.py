"""Slot runs tell the same as the list of all slots."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from packcli.contract.slot_runs import SlotRuns

SLOT = 7


@given(st.lists(st.sampled_from([1, SLOT]), max_size=40))
def test_runs_tell_what_the_slots_tell(ids):
    runs, slots = SlotRuns.of(np.array(ids, np.int32), SLOT), np.flatnonzero(np.array(ids) == SLOT)
    tokens = np.arange(len(ids) + 1)
    assert runs.total == len(slots)
    assert runs.places(np.arange(len(slots))).tolist() == slots.tolist()
    assert runs.before(tokens).tolist() == np.searchsorted(slots, tokens).tolist()
    apart = np.diff(slots, prepend=-2) > 1
    assert runs.starts.tolist() == slots[apart].tolist()
    assert runs.counts.tolist() == [*np.flatnonzero(apart).tolist(), len(slots)]


def test_a_model_without_slots_has_none():
    runs = SlotRuns.of(np.array([1, 2], np.int32), None)
    assert (runs.total, runs.starts.size) == (0, 0)
    assert runs.before(np.array([0, 2])).tolist() == [0, 0]
