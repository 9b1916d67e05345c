"""CPU kernels behind transformers' own doors: FlashAttention's bridge and linear attention."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

FLASH = "flash_attention_2"
_BRIDGE = "transformers.modeling_flash_attention_utils"
_STATE, _CONV = "torch_chunk_gated_delta_rule", "causal_conv1d_fn"


def _one(q: Any, k: Any, v: Any, causal: bool, scale: float | None) -> Any:  # noqa: ANN401, FBT001 - tensors (T, H, D)
    from torch.nn.functional import scaled_dot_product_attention  # noqa: PLC0415 - heavy

    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    out = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
    return out[0].transpose(0, 1)


def flash_attn_varlen_func(  # noqa: PLR0913 - flash-attn's signature
    q: Any,  # noqa: ANN401 - a tensor
    k: Any,  # noqa: ANN401 - a tensor
    v: Any,  # noqa: ANN401 - a tensor
    *,
    cu_seqlens_q: Any,  # noqa: ANN401 - a tensor
    cu_seqlens_k: Any,  # noqa: ANN401 - a tensor
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Any:  # noqa: ANN401 - a tensor
    """Attend within each segment.

    Matches flash-attn 2's function of this name in what it computes; windows are left out.

    Args:
        q: (T, H, D).
        k: (T, G, D).
        v: (T, G, D).
        cu_seqlens_q: (B + 1,) int32, tokens.
        cu_seqlens_k: (B + 1,) int32, tokens.
        max_seqlen_q: tokens of the longest segment; not needed on a CPU.
        max_seqlen_k: tokens of the longest segment; not needed on a CPU.
        softmax_scale: of the scores.
        causal: a row sees rows up to itself.
    """
    import torch  # noqa: PLC0415 - heavy

    del max_seqlen_q, max_seqlen_k
    cuts = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    parts = [
        _one(q[a:b], k[c:d], v[c:d], causal, softmax_scale) for (a, b), (c, d) in cuts if b > a
    ]
    return torch.cat(parts)


def flash_attn_func(
    q: Any,  # noqa: ANN401 - a tensor
    k: Any,  # noqa: ANN401 - a tensor
    v: Any,  # noqa: ANN401 - a tensor
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Any:  # noqa: ANN401 - a tensor
    """Attend over whole rows: (N, T, H, D), as flash-attn's function of this name."""
    import torch  # noqa: PLC0415 - heavy

    rows = zip(q, k, v, strict=True)
    return torch.stack([_one(*row, causal, softmax_scale) for row in rows])


def delta_by_segment(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Run a gated delta rule on each segment of `cu_seqlens` from an empty state.

    Args:
        rule: transformers' `torch_chunk_gated_delta_rule`, which knows no boundaries.
    """

    def by_segment(*arrays: Any, cu_seqlens: Any = None, **named: Any) -> Any:  # noqa: ANN401 - tensors
        import torch  # noqa: PLC0415 - heavy

        named.pop("seq_idx", None)
        if cu_seqlens is None:
            return rule(*arrays, **named)
        parts: list[Any] = []
        for start, end in pairwise(cu_seqlens.tolist()):
            rows = slice(start, end)
            cut = {name: named[name][:, rows] for name in ("g", "beta")}
            parts.append(rule(*(x[:, rows] for x in arrays), **(named | cut))[0])
        return torch.cat(parts, dim=1), None

    return by_segment


def conv_by_segment(conv: Callable[..., Any]) -> Callable[..., Any]:
    """Run a causal convolution on each segment that `seq_idx` tells; other kwargs do not tell.

    Args:
        conv: transformers' `causal_conv1d_fn`, which knows no boundaries.
    """

    def by_segment(states: Any, *weights: Any, seq_idx: Any = None, **named: Any) -> Any:  # noqa: ANN401 - tensors
        import torch  # noqa: PLC0415 - heavy

        activation = named.get("activation")
        if seq_idx is None:
            return conv(states, *weights, activation=activation)
        changes = torch.nonzero(torch.diff(seq_idx[0])).flatten() + 1
        cuts = pairwise([0, *changes.tolist(), states.shape[-1]])
        parts = [conv(states[..., a:b], *weights, activation=activation) for a, b in cuts]
        return torch.cat(parts, dim=-1)

    return by_segment


@contextmanager
def cpu_kernels(module: Any) -> Generator[None]:  # noqa: ANN401 - a torch module
    """Put CPU kernels where transformers looks for GPU ones, while the context lasts."""
    with linear_by_segment(module), behind_bridge(flash_attn_varlen_func, flash_attn_func):
        yield


@contextmanager
def linear_by_segment(module: Any) -> Generator[None]:  # noqa: ANN401 - a torch module
    """Let linear attention layers honour boundaries, on transformers' own code.

    Args:
        module: the model.
    """
    with ExitStack() as stack:
        for name in {type(part).__module__ for part in module.modules()}:
            layers: Any = sys.modules[name]
            for function, wrap in ((_STATE, delta_by_segment), (_CONV, conv_by_segment)):
                if hasattr(layers, function):
                    plain = getattr(layers, function)
                    # without its wrapper, which refuses boundaries where no GPU kernel is
                    reference = wrap(getattr(plain, "__wrapped__", plain))
                    stack.enter_context(patch.object(layers, function, reference))
        yield


@contextmanager
def behind_bridge(varlen: Callable[..., Any], dense: Callable[..., Any]) -> Generator[None]:
    """Let transformers' FlashAttention call other functions, while the context lasts.

    Args:
        varlen: with the keywords of `flash_attn_varlen_func`; those that it lacks are not passed.
        dense: with those of `flash_attn_func`.
    """
    from importlib import import_module  # noqa: PLC0415 - beside the heavy import that it makes

    bridge: Any = import_module(_BRIDGE)
    process = bridge._lazy_define_process_function(varlen)  # noqa: SLF001 - there is no public door
    found = {
        "_loaded_implementation": FLASH,
        "_flash_fn": dense,
        "_flash_varlen_fn": varlen,
        "_flash_with_kvcache_fn": None,
        "_pad_fn": bridge._pad_input,  # noqa: SLF001 - there is no public door
        "_unpad_fn": bridge._unpad_input,  # noqa: SLF001 - there is no public door
        "_process_flash_kwargs_fn": process,
        "_process_with_kvcache_kwargs_fn": dict,
    }
    with ExitStack() as stack:
        for name, what in found.items():
            stack.enter_context(patch.object(bridge, name, what))
        yield


def bridge_lacks() -> str | None:
    """Say what keeps CPU kernels from being put behind the bridge; None where nothing does."""
    from importlib import import_module  # noqa: PLC0415 - beside the heavy import that it makes

    bridge = import_module(_BRIDGE)
    names = ("_loaded_implementation", "_process_with_kvcache_kwargs_fn", "_unpad_input")
    missing = [name for name in names if not hasattr(bridge, name)]
    return f"this transformers has no {', '.join(missing)}" if missing else None
