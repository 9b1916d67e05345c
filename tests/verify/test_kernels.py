import inspect
import subprocess
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from packcli.contract.errors import EnvironmentLacksError, UsageError
from packcli.contract.offsets import Offsets
from packcli.verify import cpu_bridge, kernels
from packcli.verify.isolation import check_isolation
from packcli.verify.kernels import (
    causal_conv,
    causal_conv1d,
    flash_attn,
    flash_attn3,
    flash_attn4,
    gated_delta,
    gated_delta_fla,
    sdpa,
    torch_varlen,
)
from packcli.verify.launch import find_function, function_lacks, wide_heads
from packcli.verify.oracle import ATTENTION
from packcli.verify.probe import AttentionProbe, ConvProbe, StateProbe

torch = pytest.importorskip("torch")

FLASH = [
    (flash_attn, "flash_attn"),
    (flash_attn3, "flash_attn_interface"),
    (flash_attn4, "flash_attn.cute"),
]
LENGTHS = [5, 1, 7, 7, 2]


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def attention_probe(dtype="float32", *, causal=True, lengths=LENGTHS):
    offsets = Offsets.from_lengths(lengths)
    total, longest = offsets.total, int(offsets.lengths.max())
    query, key, value = random(total, 4, 8), random(total, 2, 8), random(total + 1, 2, 8)[1:]
    return AttentionProbe(query, key, value, offsets.values, longest, causal=causal, dtype=dtype)


def state_probe(dtype="float32"):
    offsets = Offsets.from_lengths(LENGTHS)
    total = offsets.total
    beta = np.abs(random(total, 2)) * (random(total + 2, 2)[2:] > 0)
    decay = -np.abs(random(total + 3, 2)[3:]) * (random(total + 4, 2)[4:] > 0.5)
    key = random(total, 2, 8)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    return StateProbe(
        random(total + 5, 2, 8)[5:], key, random(total, 2, 6), decay, beta, offsets.values, dtype
    )


def conv_probe(dtype="float32"):
    offsets = Offsets.from_lengths(LENGTHS)
    return ConvProbe(random(offsets.total, 8), random(8, 4), offsets.values, dtype)


def dense_attention(probe):
    """Softmax over a masked score matrix in float64: nothing in common with the kernels."""
    offsets = Offsets(probe.cu_seqlens)
    segment, total = offsets.segment_ids(), offsets.total
    visible = segment[:, None] == segment
    if probe.causal:
        visible &= np.tri(total, dtype=bool)
    groups = probe.query.shape[1] // probe.key.shape[1]
    key = np.repeat(probe.key.astype(np.float64), groups, axis=1)
    value = np.repeat(probe.value.astype(np.float64), groups, axis=1)
    scores = np.einsum("thd,shd->hts", probe.query, key) / np.sqrt(probe.query.shape[2])
    weight = np.where(visible, np.exp(scores), 0)
    weight /= weight.sum(axis=-1, keepdims=True)
    return np.einsum("hts,shd->thd", weight, value)


def test_names_lists_files_without_importing_one():
    code = (
        "import sys; from packcli.verify import kernels, isolation; print(*kernels.names()); "
        "own = 'packcli.verify.kernels.'; "
        "print(*(m for m in sys.modules if m == 'torch' or m.startswith(own)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, imported = done.stdout.split("\n")[:2]
    assert names.split() == [
        "causal_conv",
        "causal_conv1d",
        "flash_attn",
        "flash_attn3",
        "flash_attn4",
        "gated_delta",
        "gated_delta_fla",
        "sdpa",
        "torch_varlen",
    ]
    assert imported == ""


def test_each_file_holds_the_kernel_of_its_name():
    assert [kernels.load(name).name for name in kernels.names()] == kernels.names()


def test_order_of_preference():
    assert [k.name for k in kernels.ranked("attention", "cuda")] == [
        "flash_attn",
        "flash_attn3",
        "flash_attn4",
        "torch_varlen",
    ]


@pytest.mark.parametrize(
    ("kind", "name"), [("attention", "sdpa"), ("state", "gated_delta"), ("conv", "causal_conv")]
)
def test_the_cpu_has_a_kernel_of_every_kind(kind, name):
    assert kernels.select(kind, "cpu").name == name
    assert kernels.require(name).name == name


def test_an_unknown_name_is_a_wrong_call():
    with pytest.raises(UsageError, match="no kernel is called 'flash'; there are causal_conv, "):
        kernels.load("flash")


def without_cuda(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def with_cuda(monkeypatch, capability=(9, 0)):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)


def install(monkeypatch, path, **functions):
    """Put a module, and the namespace packages above it, where imports find it."""
    parts = path.split(".")
    for depth in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:depth]))
        module.__path__ = []
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, function in functions.items():
        setattr(sys.modules[path], name, function)


def test_no_gpu_is_an_error_that_says_what_was_looked_for(monkeypatch):
    without_cuda(monkeypatch)
    with pytest.raises(EnvironmentLacksError) as error:
        kernels.select("attention", "cuda")
    assert error.value.exit_code == 4
    for name in ("flash_attn (", "flash_attn3 (", "flash_attn4 (", "torch_varlen ("):
        assert name in str(error.value)
    assert "finds no CUDA device" in str(error.value)
    with pytest.raises(EnvironmentLacksError, match="kernel gated_delta_fla cannot run on cuda"):
        kernels.require("gated_delta_fla")


def test_flash_attention_4_alone_is_not_taken_for_2(monkeypatch):
    with_cuda(monkeypatch)
    install(monkeypatch, "flash_attn.cute", flash_attn_varlen_func=print)
    assert flash_attn.KERNEL.lacks() == "flash_attn has no flash_attn_varlen_func"
    assert flash_attn4.KERNEL.lacks() is None
    monkeypatch.setitem(sys.modules, "flash_attn_interface", None)
    assert kernels.select("attention", "cuda").name == "flash_attn4"


def test_an_old_gpu_is_named(monkeypatch):
    with_cuda(monkeypatch, (7, 5))
    assert flash_attn.KERNEL.lacks() == "compute capability (7, 5) is below (8, 0)"


def test_torch_alone_gives_a_gpu_kernel(monkeypatch):
    with_cuda(monkeypatch)
    for name in ("flash_attn", "flash_attn.cute", "flash_attn.cute.interface"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("flash_attn_interface", "flash_attn_3", "flash_attn_3.flash_attn_interface"):
        monkeypatch.setitem(sys.modules, name, None)
    assert kernels.select("attention", "cuda").name == "torch_varlen"


def test_every_import_that_failed_is_told():
    with pytest.raises(ImportError, match=r"no_such_a: .*; no_such_b: .*; json has no varlen"):
        find_function(("no_such_a", "no_such_b", "json"), "varlen")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("dtype", "near"), [("float32", 2e-6), ("bfloat16", 3e-2)])
def test_sdpa_equals_dense_attention(dtype, near, causal):
    probe = attention_probe(dtype, causal=causal)
    assert np.abs(sdpa.run(probe) - dense_attention(probe)).max() < near


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sdpa_never_makes_a_score_matrix(dtype):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as record:
        sdpa.run(attention_probe(dtype))
    calls = {event.key: event.count for event in record.key_averages()}
    assert calls["aten::_scaled_dot_product_flash_attention_for_cpu"] == len(set(LENGTHS))
    assert "aten::_scaled_dot_product_attention_math" not in calls


def test_sdpa_gives_torch_its_threads_back():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        sdpa.run(attention_probe())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_rows_outside_every_segment_stay_zero():
    from dataclasses import replace

    probe = replace(attention_probe(lengths=[4, 6]), cu_seqlens=np.array([4, 8], dtype=np.int32))
    out = sdpa.run(probe)
    assert np.flatnonzero(np.abs(out).sum(axis=(1, 2))).tolist() == [4, 5, 6, 7]


def test_own_scan_equals_the_recurrence_of_transformers():
    modeling = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
    probe = state_probe()
    out = gated_delta.run(probe)
    for rows in Offsets(probe.cu_seqlens).slices():
        arrays = (probe.query, probe.key, probe.value, probe.decay, probe.beta)
        query, key, value, g, beta = (torch.tensor(a[None, rows]) for a in arrays)
        # The function is wrapped to load a hub kernel where one is; the plain one is inside.
        plain = getattr(modeling.torch_recurrent_gated_delta_rule, "__wrapped__", None)
        recurrence = plain or modeling.torch_recurrent_gated_delta_rule
        right, _ = recurrence(query, key, value, g=g, beta=beta)
        assert np.abs(out[rows] - right[0].numpy()).max() < 1e-5


def test_own_convolution_equals_torch_on_each_segment():
    probe = conv_probe()
    out = causal_conv.run(probe)
    weight = torch.tensor(probe.weight)[:, None]
    for rows in Offsets(probe.cu_seqlens).slices():
        padded = torch.nn.functional.pad(torch.tensor(probe.inputs[rows].T), (3, 0))
        right = torch.nn.functional.conv1d(padded, weight, groups=8)
        assert np.abs(out[rows] - right.numpy().T).max() < 1e-5


def assert_sound(tensor, shape, dtype):
    assert tuple(tensor.shape) == shape
    assert tensor.dtype == dtype
    assert tensor.is_contiguous()
    assert tensor.device.type == "cpu"


def fake_flash(calls, *, with_lse):
    def flash_attn_varlen_func(*args, **kwargs):
        assert args == ()
        assert set(kwargs) == {
            "q",
            "k",
            "v",
            "cu_seqlens_q",
            "cu_seqlens_k",
            "max_seqlen_q",
            "max_seqlen_k",
            "causal",
        }
        total = sum(LENGTHS)
        assert_sound(kwargs["q"], (total, 4, 64), torch.bfloat16)
        assert_sound(kwargs["k"], (total, 2, 64), torch.bfloat16)
        assert_sound(kwargs["v"], (total, 2, 64), torch.bfloat16)
        for side in "qk":
            assert_sound(kwargs[f"cu_seqlens_{side}"], (len(LENGTHS) + 1,), torch.int32)
            assert type(kwargs[f"max_seqlen_{side}"]) is int
            assert kwargs[f"max_seqlen_{side}"] == 7
        calls.append(kwargs["causal"])
        out = cpu_bridge.flash_attn_varlen_func(**kwargs)
        return (out, None) if with_lse else out

    return flash_attn_varlen_func


def test_narrow_heads_are_filled_up_and_score_the_same():
    probe = attention_probe()
    parts = wide_heads(probe)
    assert [part.shape[1:] for part in parts] == [(4, 64), (2, 64), (2, 64)]
    assert all(part.dtype == np.float32 and not part[..., 8:].any() for part in parts)
    scores = np.einsum("thd,shd->hts", *(part[:, :2] for part in parts[:2])) / 64**0.5
    right = np.einsum("thd,shd->hts", probe.query[:, :2], probe.key) / 8**0.5
    assert np.abs(scores - right).max() < 1e-5
    wide = replace(probe, query=random(22, 4, 96), key=random(22, 2, 96), value=random(22, 2, 96))
    assert all(map(np.array_equal, wide_heads(wide), (wide.query, wide.key, wide.value)))


def test_an_early_flash_attention_4_finds_the_longest_segment_itself(monkeypatch):
    def flash_attn_varlen_func(
        q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None, causal=False
    ):
        assert seqused_q is None
        out = cpu_bridge.flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k,
            max_seqlen_q=0,
            max_seqlen_k=0,
            causal=causal,
        )
        return out, None

    install(monkeypatch, "flash_attn.cute", flash_attn_varlen_func=flash_attn_varlen_func)
    probe = attention_probe("bfloat16")
    assert np.abs(flash_attn4.run(probe, "cpu") - dense_attention(probe)).max() < 0.05


def test_an_import_that_raises_anything_is_a_lack(monkeypatch):
    with_cuda(monkeypatch)

    def broken(path):
        raise AttributeError(f"module 'triton' has no attribute for {path}")

    monkeypatch.setattr("importlib.import_module", broken)
    assert "has no attribute" in function_lacks(("fla.ops.gated_delta_rule",), "any")


@pytest.mark.parametrize(("module", "path"), FLASH, ids=[path for _, path in FLASH])
@pytest.mark.parametrize("with_lse", [False, True])
def test_flash_is_called_by_keyword_with_what_it_demands(monkeypatch, module, path, with_lse):
    calls = []
    install(monkeypatch, path, flash_attn_varlen_func=fake_flash(calls, with_lse=with_lse))
    probe = attention_probe("bfloat16")
    out = module.run(probe, "cpu")
    assert calls == [True]
    assert out.dtype == np.float32
    assert out.shape == probe.query.shape
    assert np.abs(out - dense_attention(probe)).max() < 0.05


def never(**kwargs):
    raise AssertionError("launched")


@pytest.mark.parametrize(
    ("values", "longest", "why"),
    [
        ([0, 5, 30], 25, "the pack at 22"),
        ([0, 5, 6], 5, "no segment holds tokens 6 to 21"),
        ([0, 9, 5, 22], 17, "must increase"),
        ([2, 5, 22], 17, "starts at 2"),
        ([0, 5, 22], 16, "max_seqlen is 16 but a segment has 17"),
    ],
)
def test_bad_boundaries_never_reach_a_gpu_kernel(monkeypatch, values, longest, why):
    for _, path in reversed(FLASH):  # the parent package of flash_attn.cute last
        install(monkeypatch, path, flash_attn_varlen_func=never)
    install(monkeypatch, "fla.ops.gated_delta_rule", chunk_gated_delta_rule=never)
    install(monkeypatch, "causal_conv1d", causal_conv1d_fn=never)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", never)
    values = np.array(values, dtype=np.int32)
    probe = replace(attention_probe(), cu_seqlens=values, max_seqlen=longest)
    for module in (flash_attn, flash_attn3, flash_attn4, torch_varlen):
        with pytest.raises(ValueError, match=f"kernel not launched: .*{why}"):
            module.run(probe, "cpu")
    if "max_seqlen" not in why:
        with pytest.raises(ValueError, match=f"kernel not launched: .*{why}"):
            gated_delta_fla.run(replace(state_probe(), cu_seqlens=values), "cpu")
        with pytest.raises(ValueError, match=f"kernel not launched: .*{why}"):
            causal_conv1d.run(replace(conv_probe(), cu_seqlens=values), "cpu")


def test_torch_varlen_is_asked_for_causality_by_its_window(monkeypatch):
    seen = []

    def varlen_attn(
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k,
        max_q,
        max_k,
        *,
        window_size=(-1, -1),
        enable_gqa=False,
    ):
        seen.append((window_size, enable_gqa, max_q, max_k))
        assert_sound(cu_seq_q, (len(LENGTHS) + 1,), torch.int32)
        assert_sound(query, (sum(LENGTHS), 4, 64), torch.bfloat16)
        assert_sound(key, (sum(LENGTHS), 2, 64), torch.bfloat16)
        assert_sound(value, (sum(LENGTHS), 2, 64), torch.bfloat16)
        assert cu_seq_k is cu_seq_q
        return query

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    torch_varlen.run(attention_probe("bfloat16"), "cpu")
    torch_varlen.run(attention_probe("bfloat16", causal=False), "cpu")
    assert seen == [((-1, 0), True, 7, 7), ((-1, -1), True, 7, 7)]


def test_torch_varlen_of_an_older_release(monkeypatch):
    seen = []

    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False):
        seen.append(is_causal)
        assert key.shape == value.shape == query.shape
        assert torch.equal(key[:, 0], key[:, 1])
        return query, None

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    torch_varlen.run(attention_probe("bfloat16"), "cpu")
    assert seen == [True]


def test_torch_varlen_without_a_way_to_be_causal_is_refused(monkeypatch):
    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k):
        return query

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    with pytest.raises(TypeError, match="neither is_causal nor window_size"):
        torch_varlen.run(attention_probe("bfloat16"), "cpu")


def test_torch_varlen_passes_a_scale_on_where_one_is_asked_for(monkeypatch):
    seen = []

    def varlen_attn(
        query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale=None, window_size=None
    ):
        seen.append((scale, window_size, max_q))
        return query

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    parts = [torch.zeros(4, 2, 8)] * 3
    offsets = torch.tensor([0, 4], dtype=torch.int32)
    torch_varlen.attend(parts, offsets, 4, causal=True, scale=0.25)
    torch_varlen.attend(parts, offsets, 4, causal=True)
    assert seen == [(0.25, (-1, 0), 4), (None, (-1, 0), 4)]


def test_installed_varlen_attn_takes_these_keywords():
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    accepted = set(inspect.signature(varlen.varlen_attn).parameters)
    assert {"query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"} <= accepted
    assert accepted & {"window_size", "is_causal"}


@pytest.mark.parametrize("causal", [True, False])
def test_installed_varlen_attn_takes_the_call(monkeypatch, causal):
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    installed, shapes = varlen.varlen_attn, []

    def on_no_device(**kwargs):
        told = {n: p.to("meta") if torch.is_tensor(p) else p for n, p in kwargs.items()}
        shapes.append(installed(**told).shape)
        return kwargs["query"]

    on_no_device.__signature__ = inspect.signature(installed)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", on_no_device)
    out = torch_varlen.run(attention_probe("bfloat16", causal=causal), "cpu")
    assert (out.shape, shapes) == ((22, 4, 8), [(22, 4, 64)])


def test_fla_gets_one_batch_int32_offsets_and_float32_decay(monkeypatch):
    def chunk_gated_delta_rule(*args, **kwargs):
        assert args == ()
        assert set(kwargs) == {"q", "k", "v", "g", "beta", "cu_seqlens"}
        total = sum(LENGTHS)
        assert_sound(kwargs["q"], (1, total, 2, 8), torch.bfloat16)
        assert_sound(kwargs["k"], (1, total, 2, 8), torch.bfloat16)
        assert_sound(kwargs["v"], (1, total, 2, 6), torch.bfloat16)
        assert_sound(kwargs["beta"], (1, total, 2), torch.bfloat16)
        assert_sound(kwargs["g"], (1, total, 2), torch.float32)
        assert_sound(kwargs["cu_seqlens"], (len(LENGTHS) + 1,), torch.int32)
        return kwargs["v"], None

    install(monkeypatch, "fla.ops.gated_delta_rule", chunk_gated_delta_rule=chunk_gated_delta_rule)
    probe = state_probe("bfloat16")
    assert np.abs(gated_delta_fla.run(probe, "cpu") - probe.value).max() < 0.02


def test_causal_conv1d_gets_channel_last_rows_and_seq_idx(monkeypatch):
    def causal_conv1d_fn(*args, x, weight, bias, seq_idx, activation):
        assert args == ()
        total = sum(LENGTHS)
        assert tuple(x.shape) == (1, 8, total)
        assert x.stride(1) == 1
        assert_sound(weight, (8, 4), torch.float32)
        assert_sound(seq_idx, (1, total), torch.int32)
        assert seq_idx[0].tolist() == np.repeat(np.arange(5), LENGTHS).tolist()
        assert bias is activation is None
        return x * 2

    install(monkeypatch, "causal_conv1d", causal_conv1d_fn=causal_conv1d_fn)
    probe = conv_probe()
    assert np.array_equal(causal_conv1d.run(probe, "cpu"), probe.inputs * 2)


def test_a_pack_of_131072_tokens_stays_small():
    from packcli.verify.bounds import PackBounds

    lengths = np.random.default_rng(0).integers(1, 400, 1000)
    lengths = [*lengths[np.cumsum(lengths) < 131_072 - 400].tolist()]
    lengths.append(131_072 - sum(lengths))
    expected = Offsets.from_lengths(lengths)
    bounds = PackBounds(expected.values, int(expected.lengths.max()), expected)
    result = check_isolation(ATTENTION, bounds, sdpa.KERNEL, dtype="bfloat16")
    assert not result.faults
    assert result.max_deviation <= 0.002
