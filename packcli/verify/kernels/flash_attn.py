"""Attention on CUDA: FlashAttention 2."""

from __future__ import annotations

from packcli.verify.flash import flash_kernel

KERNEL = flash_kernel(
    "flash_attn",
    rank=0,
    modules=("flash_attn",),
    distributions=("flash-attn",),
)
run = KERNEL.run
