from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.offsets import Offsets
from packcli.verify import kernels
from packcli.verify.bounds import PackBounds
from packcli.verify.isolation import check_isolation
from packcli.verify.oracle import ATTENTION, CONV, STATE, WINDOWS
from packcli.verify.teeth import controls, sabotages

KERNEL = {"attention": "sdpa", "windows": "sdpa", "state": "gated_delta", "conv": "causal_conv"}


@pytest.mark.parametrize("oracle", [ATTENTION, WINDOWS, STATE, CONV], ids=lambda o: o.kind)
@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=15))
def test_every_control_applies_to_every_pack_and_is_caught(oracle, lengths):
    found = controls(
        oracle, kernels.load(KERNEL[oracle.kind]), Offsets.from_lengths(lengths), "float32"
    )
    assert len(found) == 6
    assert all(c.caught for c in found), found
    assert min(c.deviation for c in found) >= 0.499


def test_state_and_conv_have_their_own_controls():
    pack = Offsets.from_lengths([4])
    first = [
        controls(o, kernels.load(KERNEL[o.kind]), pack, "float32")[0].name for o in (STATE, CONV)
    ]
    assert first == ["state not reset", "conv not reset"]


@given(lengths=st.lists(st.integers(1, 9), max_size=9))
def test_sabotage_is_legal_and_wrong(lengths):
    pack = Offsets.from_lengths([*lengths, 5, 3, 1, 4])
    found = dict(sabotages(pack))
    assert len(found) == 6
    for values in found.values():
        assert values.dtype == np.int32
        assert (values[0], values[-1]) == (0, pack.total)
        assert (np.diff(values) > 0).all()
        assert not np.array_equal(values, pack.values)


def test_a_check_without_teeth_says_so():
    # A "kernel" that returns the right answer whatever it is told cannot be caught.
    kernel = kernels.load("causal_conv")
    expected = Offsets.from_lengths([3, 4])
    pack = Offsets.from_lengths([3, 4, 5, 3, 1, 4])

    def pretend(probe):
        right = pack if probe.inputs.shape[0] == pack.total else expected
        return CONV.answer(right)

    bounds = PackBounds(expected.values, 4, expected)
    result = check_isolation(CONV, bounds, replace(kernel, run=pretend))
    assert not result.faults
    assert not all(control.caught for control in result.controls)
    assert not any(c.caught for c in result.controls)


def test_controls_are_shortened_on_the_cpu_only():
    seen = []
    kernel = kernels.load("causal_conv")
    spy = replace(kernel, run=lambda p: seen.append(p.inputs.shape[0]) or kernel.run(p))
    controls(CONV, spy, Offsets.from_lengths([500] * 20), "float32")
    assert set(seen) == {12 * 64 + 13}
    seen.clear()
    controls(CONV, replace(spy, device="cuda"), Offsets.from_lengths([500] * 20), "float32")
    assert set(seen) == {20 * 500 + 13}
