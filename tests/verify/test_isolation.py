import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from packcli.contract.errors import UsageError
from packcli.contract.offsets import Offsets
from packcli.verify import kernels
from packcli.verify.blame import seen_sample
from packcli.verify.bounds import PackBounds
from packcli.verify.isolation import check_isolation
from packcli.verify.oracle import ATTENTION, CONV, STATE, WINDOWS, codes

SDPA = kernels.load("sdpa")
DELTA = kernels.load("gated_delta")
TAPS = kernels.load("causal_conv")
CHECKS = [
    (partial(check_isolation, design), kernel)
    for design, kernel in ((ATTENTION, SDPA), (STATE, DELTA), (CONV, TAPS))
]
EVERY = pytest.mark.parametrize(("check", "kernel"), CHECKS, ids=["attention", "state", "conv"])


def pack(values, lengths=(5, 6, 4), ids=("a", "b", "c"), longest=None, dtype=np.int32):
    values = np.asarray(values, dtype=dtype)
    longest = int(np.diff(values).max(initial=0)) if longest is None else longest
    return PackBounds(values, longest, Offsets.from_lengths(lengths), ids)


def told(result):
    return [(f.what, f.token, f.sample, f.other_sample) for f in result.faults]


@EVERY
def test_a_right_pack_is_isolated(check, kernel):
    result = check(pack([0, 5, 11, 15]), kernel)
    assert not result.faults
    assert all(control.caught for control in result.controls)
    assert result.faults == ()
    assert result.max_deviation <= 0.002
    assert (result.kernel, result.device, result.dtype) == (kernel.name, "cpu", "float32")
    assert result.version


@EVERY
def test_a_merge_names_both_samples_and_the_token(check, kernel):
    result = check(pack([0, 11, 15]), kernel)
    assert result.faults
    assert result.max_deviation >= 0.5
    assert [f.message for f in result.faults] == ["sample 1 ('b') sees sample 0 ('a') from token 5"]
    assert told(result) == [("sees", 5, 1, 0)]


@EVERY
def test_a_split_names_the_sample(check, kernel):
    result = check(pack([0, 5, 8, 11, 15]), kernel)
    assert [f.message for f in result.faults] == ["sample 1 ('b') is split at token 8"]


def test_a_late_boundary_leaks_one_token_and_cuts_the_rest_off():
    result = check_isolation(ATTENTION, pack([0, 6, 11, 15]), SDPA)
    assert told(result) == [("sees", 5, 1, 0), ("split", 6, 1, None)]


def test_an_early_boundary_cuts_the_previous_sample():
    result = check_isolation(ATTENTION, pack([0, 4, 11, 15]), SDPA)
    assert told(result) == [("split", 4, 0, None), ("sees", 5, 1, 0)]


def test_swapped_lengths():
    result = check_isolation(ATTENTION, pack([0, 6, 11, 15]), SDPA)
    assert result.faults


def test_all_merged_names_each_leaking_sample_once():
    assert told(check_isolation(ATTENTION, pack([0, 15]), SDPA)) == [
        ("sees", 5, 1, 0),
        ("sees", 11, 2, 1),
    ]


def test_samples_without_ids():
    result = check_isolation(ATTENTION, pack([0, 11, 15], ids=None), SDPA)
    assert [f.message for f in result.faults] == ["sample 1 sees sample 0 from token 5"]


def test_a_thousand_leaks_are_named_up_to_a_limit():
    result = check_isolation(CONV, pack([0, 1000], lengths=[1] * 1000, ids=None), TAPS)
    assert len(result.faults) == 50


@pytest.mark.parametrize(
    ("bounds", "fault"),
    [
        (pack([0, 5, 11]), ("missing", 11, 2, None)),
        (pack([5, 11, 15]), ("missing", 0, 0, None)),
        (pack([0, 5, 11, 16]), ("value", 15, 2, None)),
        (pack([0, 5, 5, 15]), ("value", 5, 1, None)),
        (pack([0, 11, 5, 15]), ("value", 11, 2, None)),
        (pack([0, 5, 11, 15], longest=5), ("missing", 10, 1, None)),
        (pack([0, 5, 11, 15], dtype=np.int64), ("value", 0, 0, None)),
        (pack([0]), ("missing", 0, 0, None)),
    ],
    ids=["last", "first", "past end", "repeated", "back", "max_seqlen", "int64", "empty"],
)
def test_values_no_kernel_may_be_given_stop_the_launch(bounds, fault):
    launched = []
    kernel = replace(SDPA, run=lambda p: launched.append(p.cu_seqlens) or SDPA.run(p))
    result = check_isolation(ATTENTION, bounds, kernel)
    assert fault in told(result)
    assert result.max_deviation is None
    assert result.faults
    assert not any(np.array_equal(seen, bounds.cu_seqlens) for seen in launched)


def test_a_value_fault_names_the_sample():
    result = check_isolation(ATTENTION, pack([0, 5, 11]), SDPA)
    assert [f.message for f in result.faults] == [
        "cu_seqlens ends at 11: no segment holds tokens 11 to 14 (sample 2 ('c'), token 11)"
    ]


def test_a_longer_max_seqlen_is_no_fault_of_isolation():
    assert not check_isolation(ATTENTION, pack([0, 5, 11, 15], longest=99), SDPA).faults


def blind(kernel):
    """Return a kernel that takes the whole pack for one segment."""
    return replace(kernel, run=lambda p: kernel.run(replace(p, cu_seqlens=p.cu_seqlens[[0, -1]])))


@EVERY
def test_a_kernel_that_ignores_boundaries_is_blamed(check, kernel):
    result = check(pack([0, 5, 11, 15]), blind(kernel))
    assert result.faults[0].message == (
        "sample 1 ('b') sees sample 0 ('a') at token 5 although cu_seqlens is right: "
        "the kernel is at fault"
    )
    assert {f.sample for f in result.faults} == {1, 2}


def test_a_kernel_that_is_not_causal_is_blamed():
    kernel = replace(SDPA, run=lambda p: SDPA.run(replace(p, causal=False)))
    result = check_isolation(ATTENTION, pack([0, 5, 11, 15]), kernel)
    assert told(result)[0] == ("split", 0, 0, None)
    assert "the kernel is at fault" in result.faults[0].message


def test_a_kernel_that_resets_the_state_but_not_the_conv():
    bounds = pack([0, 5, 11, 15])
    assert not check_isolation(STATE, bounds, DELTA).faults
    assert told(check_isolation(CONV, bounds, blind(TAPS)))[0] == ("sees", 5, 1, 0)


def test_windows_are_not_causal_and_named_as_windows():
    assert not check_isolation(WINDOWS, pack([0, 5, 11, 15], ids=None), SDPA).faults
    merged = check_isolation(WINDOWS, pack([0, 11, 15], ids=None), SDPA)
    assert [f.message for f in merged.faults] == [
        "window 0 sees window 1 from patch 0",
        "window 1 sees window 0 from patch 5",
    ]
    split = check_isolation(WINDOWS, pack([0, 5, 8, 11, 15], ids=None), SDPA)
    assert [f.message for f in split.faults] == ["window 1 is split at patch 8"]


def test_causal_attention_is_no_substitute_for_windows():
    kernel = replace(SDPA, run=lambda p: SDPA.run(replace(p, causal=True)))
    assert check_isolation(WINDOWS, pack([0, 5, 11, 15]), kernel).faults


def test_a_wrong_kind_or_dtype_is_a_wrong_call():
    bounds = pack([0, 5, 11, 15])
    with pytest.raises(UsageError, match="kernel causal_conv is of kind conv; the state check"):
        check_isolation(STATE, bounds, TAPS)
    with pytest.raises(UsageError, match="does not compute in int8; take float32, bfloat16"):
        check_isolation(ATTENTION, bounds, SDPA, dtype="int8")
    assert check_isolation(ATTENTION, bounds, SDPA, dtype="bfloat16").dtype == "bfloat16"


def case(shared, name, cu_seqlens=None):
    data = json.loads((shared / "cases" / name / "pack.json").read_text())["packs"][0]
    resets = np.flatnonzero(np.asarray(data["position_ids"][0]) == 0)
    expected = Offsets.from_values([*resets.tolist(), len(data["input_ids"])])
    values = np.asarray(data["cu_seqlens"] if cu_seqlens is None else cu_seqlens, dtype=np.int32)
    return PackBounds(values, int(np.diff(values).max()), expected, tuple(data["sample_ids"]))


def test_k34_attention_passes_and_has_teeth(shared):
    result = check_isolation(ATTENTION, case(shared, "k34_attention_teeth"), SDPA)
    assert not result.faults
    assert all(control.caught for control in result.controls)
    merged = check_isolation(ATTENTION, case(shared, "k34_attention_teeth", [0, 24, 100]), SDPA)
    assert [f.message for f in merged.faults] == [
        "sample 2 ('s2') sees sample 1 ('s1') from token 60"
    ]


def test_k06_merged_boundary(shared):
    assert told(check_isolation(ATTENTION, case(shared, "k06_merged_boundary"), SDPA)) == [
        ("sees", 60, 2, 1)
    ]


@pytest.mark.parametrize(("check", "kernel"), CHECKS[1:], ids=["state", "conv"])
def test_k33_linear_attention(shared, check, kernel):
    result = check(case(shared, "k33_linear_leak"), kernel)
    assert result.max_deviation == 0
    assert all(control.caught for control in result.controls)
    leak = check(case(shared, "k33_linear_leak", [0, 100]), kernel)
    assert leak.max_deviation > 1e-3
    assert told(leak) == [("sees", 24, 1, 0), ("sees", 60, 2, 1)]


def test_the_sample_that_leaks_is_read_from_its_code():
    many = codes(40, 31)
    assert seen_sample(0.5 * (many[17] - many[3]), 3, many) == 17
    assert seen_sample(many[3] * 2, 3, many) is None
    assert seen_sample(-many[1], 0, codes(2, 31)) == 1
