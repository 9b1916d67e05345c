"""Attention on CUDA: FlashAttention 4."""

from __future__ import annotations

from packcli.verify.flash import flash_kernel

KERNEL = flash_kernel(
    "flash_attn4",
    rank=2,
    modules=("flash_attn.cute", "flash_attn.cute.interface"),
    distributions=("flash-attn-4",),
)
run = KERNEL.run
