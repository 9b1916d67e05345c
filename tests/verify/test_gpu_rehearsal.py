"""The script for GPU machines, run on the CPU: the same functions, with stand-ins for the kernels.

A stand-in holds the call to what the real function demands (keywords, types, shapes, layout, where
tensors were asked to lie) and computes what it would. So the script has been run whole, and its
packs of 131,072 tokens too, before the first minute on a machine with a GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from packcli.contract.offsets import Offsets
from packcli.verify import cpu_bridge, kernels
from packcli.verify.kernels import causal_conv, gated_delta
from packcli.verify.oracle import ORACLES
from packcli.verify.probe import ConvProbe, StateProbe
from tests.verify import test_gpu

torch = pytest.importorskip("torch")

MOST = 1 << 30
"""Bytes that a pack of 131,072 tokens may add to what the process holds."""

CASES = [
    (name, oracle)
    for name in kernels.names()
    for oracle in ORACLES.values()
    if (kernels.load(name).device, kernels.load(name).kind) == ("cuda", oracle.kernel_kind)
]


def title(case):
    return f"{case[0]}-{case[1].kind}"


ALL = pytest.mark.parametrize("case", CASES, ids=title)


def assert_sound(tensor, shape, *dtypes):
    assert tuple(tensor.shape) == shape
    assert tensor.dtype in dtypes
    assert tensor.is_contiguous()


def assert_sent(*tensors):
    """Whether they were asked to lie on the GPU."""
    assert [tensor.asked for tensor in tensors] == ["cuda"] * len(tensors)


def attended(parts, cu_seqlens, longest, *, causal):
    """Attention of queries that are all alike: running sums, so that long packs take seconds."""
    query, key, value = parts
    total, heads, width = query.shape
    assert_sound(query, (total, heads, width), torch.bfloat16, torch.float16)
    assert_sound(key, (total, key.shape[1], width), query.dtype)
    assert_sound(value, (total, key.shape[1], width), query.dtype)
    assert width % 8 == 0
    assert width >= 64
    assert heads % key.shape[1] == 0
    assert_sound(cu_seqlens, (cu_seqlens.numel(),), torch.int32)
    assert type(longest) is int
    assert longest == int(torch.diff(cu_seqlens).max())
    assert (query == query[:1, :1]).all()
    weight = torch.exp(key.float() @ query[0, 0].float() / width**0.5)[..., None]
    sums = torch.cat([weight * value, weight], dim=-1).numpy()
    for segment in Offsets(cu_seqlens.numpy()).slices():
        part = sums[segment]
        sums[segment] = part.cumsum(0) if causal else part.sum(0, keepdims=True)
    out = torch.from_numpy(sums[..., :-1] / sums[..., -1:]).to(query.dtype)
    return out.repeat_interleave(heads // key.shape[1], dim=1)


def flash_attn_varlen_func(
    *, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal
):
    assert_sent(q, k, v, cu_seqlens_q)
    assert cu_seqlens_k is cu_seqlens_q
    assert max_seqlen_k == max_seqlen_q
    return attended((q, k, v), cu_seqlens_q, max_seqlen_q, causal=causal)


def varlen_attn(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size, enable_gqa
):
    assert cu_seq_k is cu_seq_q
    assert max_k == max_q
    assert enable_gqa == (query.shape[1] != key.shape[1])
    causal = {(-1, 0): True, (-1, -1): False}[window_size]
    if scale is None:
        assert_sent(query, key, value, cu_seq_q)
        return attended((query, key, value), cu_seq_q, max_q, causal=causal)
    return cpu_bridge.flash_attn_varlen_func(
        query,
        key,
        value,
        cu_seqlens_q=cu_seq_q,
        cu_seqlens_k=cu_seq_k,
        max_seqlen_q=max_q,
        max_seqlen_k=max_k,
        softmax_scale=scale,
        causal=causal,
    )


def chunk_gated_delta_rule(*, q, k, v, g, beta, cu_seqlens):
    assert_sent(q, k, v, g, beta, cu_seqlens)
    total = q.shape[1]
    for tensor in (q, k, v):
        assert_sound(tensor, (1, total, 1, 64), torch.bfloat16, torch.float16)
    assert_sound(beta, (1, total, 1), q.dtype)
    assert_sound(g, (1, total, 1), torch.float32)
    assert_sound(cu_seqlens, (cu_seqlens.numel(),), torch.int32)
    arrays = [part[0].float().numpy() for part in (q, k, v, g, beta)]
    out = gated_delta.run(StateProbe(*arrays, cu_seqlens.numpy(), "float32"))
    return torch.from_numpy(out)[None].to(q.dtype), None


def causal_conv1d_fn(*, x, weight, bias, seq_idx, activation):
    assert_sent(weight, seq_idx)
    assert bias is activation is None
    assert x.shape[:2] == (1, 64)
    assert x.stride(1) == 1
    assert_sound(weight, (64, 4), x.dtype)
    assert_sound(seq_idx, (1, x.shape[2]), torch.int32)
    cuts = np.flatnonzero(np.diff(seq_idx[0].numpy())) + 1
    values = np.array([0, *cuts.tolist(), x.shape[2]], np.int32)
    inputs, taps = x[0].T.float().numpy(), weight.float().numpy()
    out = causal_conv.run(ConvProbe(inputs, taps, values, "float32"))
    return torch.from_numpy(out).T[None].to(x.dtype)


STAND_INS = {
    "flash_attn": flash_attn_varlen_func,
    "flash_attn_interface": flash_attn_varlen_func,
    "flash_attn.cute": flash_attn_varlen_func,
    "fla.ops.gated_delta_rule": chunk_gated_delta_rule,
    "causal_conv1d": causal_conv1d_fn,
}


@pytest.fixture
def pretended(monkeypatch):
    """Let it look as if there were a GPU; what is sent to it stays, and remembers it."""
    made = torch.tensor

    def tensor(data, *, device=None, dtype=None):
        result = made(data, dtype=dtype)
        result.asked = device
        return result

    monkeypatch.setattr(torch, "tensor", tensor)
    told = {
        "is_available": lambda: True,
        "get_device_capability": lambda: (9, 0),
        "get_device_name": lambda: "pretended",
        "reset_peak_memory_stats": lambda: None,
        "max_memory_allocated": lambda: 0,
    }
    for name, answer in told.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small blocks wait for threads that have no core
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def installed(monkeypatch, pretended):
    """Let every package of kernels be found, too."""
    for path, function in STAND_INS.items():
        parts = path.split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            if name not in STAND_INS or name == path:
                module = ModuleType(name)
                module.__path__ = []
                monkeypatch.setitem(sys.modules, name, module)
        setattr(sys.modules[path], function.__name__, function)


def test_the_stand_in_computes_attention():
    lengths = Offsets.from_lengths([5, 1, 7, 70])
    rng = np.random.default_rng(0)
    query = torch.tensor(rng.standard_normal((1, 1, 64)), dtype=torch.bfloat16)
    query = query.expand(lengths.total, 4, 64).contiguous()
    key, value = torch.tensor(rng.standard_normal((2, lengths.total, 2, 64)), dtype=torch.bfloat16)
    for causal in (True, False):
        offsets = torch.from_numpy(lengths.values)
        out = attended((query, key, value), offsets, 70, causal=causal)
        right = cpu_bridge.flash_attn_varlen_func(
            query.float(),
            key.float(),
            value.float(),
            cu_seqlens_q=offsets,
            cu_seqlens_k=offsets,
            max_seqlen_q=70,
            max_seqlen_k=70,
            causal=causal,
        )
        assert (out.float() - right).abs().max() < 0.03


@ALL
@pytest.mark.usefixtures("installed")
def test_right_packs(case):
    test_gpu.test_right_packs_pass_with_teeth(*case, test_gpu.PACKS["short"])


@ALL
@pytest.mark.usefixtures("installed")
def test_wrong_packs(case):
    test_gpu.test_a_merge_is_named(*case)
    test_gpu.test_the_gpu_agrees_with_the_cpu_on_right_and_wrong_packs(*case)


def held(name):
    """Read bytes of memory of this process from Linux: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


@ALL
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("pack", ["one", "mixed"])
def test_long_packs_fit_into_memory(case, pack):
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak
    before = held("VmRSS")
    test_gpu.test_right_packs_pass_with_teeth(*case, test_gpu.PACKS[pack])
    more = held("VmHWM") - before
    print(f"{title(case)} {pack}: {more >> 20} MiB above the start")
    assert 0 < more <= MOST


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("name", ["sdpa", "torch_varlen"])
@pytest.mark.parametrize("family", test_gpu.FAMILIES)
def test_models(family, name):
    test_gpu.test_a_model_keeps_samples_apart(family, name, "cpu")
