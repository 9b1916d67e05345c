"""Run with `pytest -m gpu -s` on a machine with a CUDA device: every kernel found, with teeth."""

import time

import numpy as np
import pytest

from packcli.contract.offsets import Offsets
from packcli.verify import kernels
from packcli.verify.bounds import PackBounds
from packcli.verify.isolation import check_attention, check_conv, check_state, check_windows
from packcli.verify.oracle import ATTENTION, CONV, STATE, WINDOWS, Stored, measure

pytestmark = pytest.mark.gpu

CHECKS = {
    "attention": [(check_attention, ATTENTION), (check_windows, WINDOWS)],
    "state": [(check_state, STATE)],
    "conv": [(check_conv, CONV)],
}
CASES = [
    (name, check, oracle)
    for name in kernels.names()
    if kernels.load(name).device == "cuda"
    for check, oracle in CHECKS[kernels.load(name).kind]
]
PACKS = {
    "short": [1, 1, 2, 3, 64, 65, 1, 127, 128, 129, 5],
    "one": [32_768],
    "mixed": np.random.default_rng(0).integers(1, 3000, 90).tolist(),
}


@pytest.fixture
def ready():
    def get(name):
        kernel = kernels.load(name)
        lack = kernel.lacks()
        if lack is not None:
            pytest.skip(f"{name}: {lack}")
        return kernel

    return get


def bounds_of(values, expected):
    values = np.asarray(values, dtype=np.int32)
    return PackBounds(values, int(np.diff(values).max()), expected)


@pytest.mark.parametrize("lengths", PACKS.values(), ids=PACKS)
@pytest.mark.parametrize(("name", "check", "oracle"), CASES, ids=lambda v: getattr(v, "kind", None))
def test_right_packs_pass_with_teeth(ready, name, check, oracle, lengths):
    kernel = ready(name)
    expected = Offsets.from_lengths(lengths)
    for dtype in kernel.dtypes:
        check(bounds_of(expected.values, expected), kernel, dtype=dtype)
        start = time.perf_counter()
        result = check(bounds_of(expected.values, expected), kernel, dtype=dtype)
        took = time.perf_counter() - start
        print(
            f"{result.kind} {name} {dtype} T={expected.total} B={len(expected)} {took:.3f} s "
            f"deviation {result.max_deviation:.2g} "
            f"controls >= {min(c.deviation for c in result.controls):.2f} "
            f"on {result.device}, {result.version}"
        )
        assert result.faults == ()
        assert result.max_deviation <= 0.01
        assert result.has_teeth, result.controls


@pytest.mark.parametrize(("name", "check", "oracle"), CASES, ids=lambda v: getattr(v, "kind", None))
def test_a_merge_is_named(ready, name, check, oracle):
    result = check(bounds_of([0, 300, 400], Offsets.from_lengths([100, 200, 100])), ready(name))
    assert (1, 0, "sees") in [(f.sample, f.other_sample, f.what) for f in result.faults]


@pytest.mark.parametrize(("name", "check", "oracle"), CASES, ids=lambda v: getattr(v, "kind", None))
def test_the_gpu_agrees_with_the_cpu_on_right_and_wrong_packs(ready, name, check, oracle):
    kernel = ready(name)
    reference = kernels.select(kernel.kind, "cpu")
    expected = Offsets.from_lengths([70, 1, 130, 33, 2, 64])
    for values in (expected.values, expected.values[[0, 2, 3, 6]], np.array([0, 300])):
        stored = Stored(values.astype(np.int32), int(np.diff(values).max()))
        here = measure(oracle, kernel, expected, stored, kernel.dtypes[0]).output
        there = measure(oracle, reference, expected, stored, reference.dtypes[0]).output
        assert np.abs(here - there).max() <= 0.05
