"""Attention on CUDA: FlashAttention 3."""

from __future__ import annotations

from packcli.verify.flash import flash_kernel

KERNEL = flash_kernel(
    "flash_attn3",
    rank=1,
    modules=("flash_attn_interface", "flash_attn_3.flash_attn_interface"),
    distributions=("flash-attn-3", "flash_attn_3"),
)
run = KERNEL.run
