"""Every CUDA kernel that is found, alone and behind transformers, against the CPU, with teeth.

Made to be run once, in a few minutes, on a machine with a GPU, where nothing else runs:

    python3 -m pytest -o addopts= -m gpu -s -rs tests/verify/test_gpu.py

The empty ``addopts`` keep it in one process, so that the timings mean something and are printed.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from packcli.batch import model_inputs
from packcli.contract.offsets import Offsets
from packcli.verify import kernels
from packcli.verify.bounds import PackBounds
from packcli.verify.cpu_bridge import FLASH, behind_bridge, bridge_lacks, linear_by_segment
from packcli.verify.isolation import check_isolation
from packcli.verify.kernels import torch_varlen
from packcli.verify.launch import cuda_lacks, device_title
from packcli.verify.model_level import small_and_quiet
from packcli.verify.model_run import compare, forward, random_pixels, run_alone
from packcli.verify.oracle import ORACLES, Stored, measure
from packcli.verify.tiny_model import build, choose_attention
from tests.verify.model_making import joined, parts_of, with_bounds

pytestmark = pytest.mark.gpu

MODELS = Path(__file__).resolve().parents[2] / "sample_data" / "models"
FAMILIES = ("text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
PACKAGES = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
BFLOAT16 = 0.5
"""Between logits that differ by rounding (0.07 at most) and those of a leak (4.8 at least)."""

CASES = pytest.mark.parametrize(
    ("name", "oracle"),
    [
        pytest.param(name, oracle, id=f"{name}-{oracle.kind}")
        for name in kernels.names()
        for oracle in ORACLES.values()
        if (kernels.load(name).device, kernels.load(name).kind) == ("cuda", oracle.kernel_kind)
    ],
)
PACKS = {
    "short": [1, 1, 2, 3, 64, 65, 1, 127, 128, 129, 5],
    "one": [131_072],
    "mixed": np.random.default_rng(0).integers(1, 3000, 90).tolist(),
}


@pytest.fixture(autouse=True)
def device():
    """The GPU; nothing here means anything without one."""
    lack = cuda_lacks()
    if lack is not None:
        pytest.skip(lack)
    return "cuda"


def ready(name):
    kernel = kernels.load(name)
    lack = kernel.lacks()
    if lack is not None:
        pytest.skip(f"{name}: {lack}")
    return kernel


def bounds_of(values, expected):
    values = np.asarray(values, dtype=np.int32)
    return PackBounds(values, int(np.diff(values).max()), expected)


@pytest.mark.parametrize("lengths", PACKS.values(), ids=PACKS)
@CASES
def test_right_packs_pass_with_teeth(name, oracle, lengths):
    import torch

    kernel = ready(name)
    expected, small = Offsets.from_lengths(lengths), Offsets.from_lengths([5, 3, 4])
    for dtype in kernel.dtypes:
        check_isolation(oracle, bounds_of(small.values, small), kernel, dtype=dtype)  # compiles
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        result = check_isolation(oracle, bounds_of(expected.values, expected), kernel, dtype=dtype)
        took = time.perf_counter() - start
        print(
            f"{result.kind} {name} {dtype} T={expected.total} B={len(expected)} {took:.2f} s, "
            f"{torch.cuda.max_memory_allocated() >> 20} MiB, deviation "
            f"{result.max_deviation:.2g}, controls >= "
            f"{min(c.deviation for c in result.controls):.2f} on {result.device}, {result.version}"
        )
        assert result.faults == ()
        assert result.max_deviation <= 0.01
        assert all(control.caught for control in result.controls), result.controls


@CASES
def test_a_merge_is_named(name, oracle):
    bounds = bounds_of([0, 300, 400], Offsets.from_lengths([100, 200, 100]))
    result = check_isolation(oracle, bounds, ready(name))
    assert (1, 0, "sees") in [(f.sample, f.other_sample, f.what) for f in result.faults]


@CASES
def test_the_gpu_agrees_with_the_cpu_on_right_and_wrong_packs(name, oracle):
    kernel = ready(name)
    reference = kernels.select(kernel.kind, "cpu")
    expected = Offsets.from_lengths([70, 1, 130, 33, 2, 64])
    for values in (expected.values, expected.values[[0, 2, 3, 6]], np.array([0, 300])):
        stored = Stored(values.astype(np.int32), int(np.diff(values).max()))
        here = measure(oracle, kernel, expected, stored, kernel.dtypes[0]).output
        there = measure(oracle, reference, expected, stored, reference.dtypes[0]).output
        assert np.abs(here - there).max() <= 0.05


def flash_attn_varlen_func(
    q,
    k,
    v,
    *,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    softmax_scale=None,
    causal=False,
):
    """FlashAttention of torch, for transformers where no package of it is installed."""
    assert cu_seqlens_k.equal(cu_seqlens_q)
    assert int(max_seqlen_k) == int(max_seqlen_q)
    longest = int(max_seqlen_q)
    return torch_varlen.attend((q, k, v), cu_seqlens_q, longest, causal=causal, scale=softmax_scale)


def dense(q, k, v, **named):
    raise AssertionError("packed inputs went to dense attention")


def attention(name, stack):
    """Make one kind of attention ready for a model; skip where it cannot run."""
    if name in PACKAGES:
        from transformers.utils import import_utils

        if not getattr(import_utils, f"is_flash_attn_{name[-1]}_available")():
            pytest.skip(f"transformers finds no package of {name}")
    if name == "torch_varlen":
        lack = torch_varlen.KERNEL.lacks() or bridge_lacks()
        if lack is not None:
            pytest.skip(lack)
        stack.enter_context(behind_bridge(flash_attn_varlen_func, dense))
        return FLASH
    return name


@pytest.mark.parametrize("name", ["sdpa", "torch_varlen", *PACKAGES])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_keeps_samples_apart(family, name, device):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from packcli.families import open_family

    with ExitStack() as stack:
        implementation = attention(name, stack)
        tiny = build(MODELS / family, open_family(MODELS / family).facts)
        tiny.module.to(device, torch.bfloat16)
        parts = parts_of(tiny.facts)
        pack = joined(parts)
        pixels = random_pixels(pack, tiny, 0)
        stack.enter_context(small_and_quiet())
        stack.enter_context(linear_by_segment(tiny.module))
        choose_attention(tiny, implementation)
        alone = run_alone(tiny, parts, pack.samples, pixels)
        right = compare(forward(tiny, model_inputs([pack]), pixels, gradient=True), alone)
        lost = with_bounds(pack, np.delete(pack.samples.values, 2))
        wrong = compare(forward(tiny, model_inputs([lost]), pixels, gradient=True), alone)
    print(
        f"model {tiny.name} {name}: deviation {right.largest:.2g}, gradient {right.leak:.2g}; "
        f"a lost boundary {wrong.largest:.2g}, {wrong.leak:.2g}, on {device_title(device)}"
    )
    assert right.largest <= BFLOAT16
    assert right.leak == 0.0
    assert wrong.largest > BFLOAT16
    assert wrong.leak > 1
