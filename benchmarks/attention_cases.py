# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of causal attention, forward and backward together, computed as a whole and in blocks (K5)."""

import torch
from case import OURS, Case, Contestants, Setting
from gradients import with_gradient
from programs import compiled
from torch.nn import functional as F

_BLOCK = 128


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _build(shape: tuple[int, ...], setting: Setting) -> Contestants:
    torch.manual_seed(0)
    arguments = tuple(torch.randn(shape) for _ in range(4))
    both = with_gradient(_attention)
    fused = torch.compile(both)
    name = f"attention {shape}"
    return {
        OURS: compiled(name + " by blocks", both, arguments, setting, attention_block=_BLOCK),
        "ours whole": compiled(name, both, arguments, setting),
        "torch": lambda: both(*arguments),
        "torch.compile": lambda: fused(*arguments),
    }


def cases() -> list[Case]:
    """Returns one benchmark per shape (batch, heads, length, head size). The first shape is that of the benchmarked GPT
    step."""
    listed = []
    for shape in ((8, 6, 256, 64), (4, 6, 512, 64), (2, 8, 1024, 64), (2, 8, 2048, 64)):
        batch, heads, length, size = shape
        listed.append(
            Case(
                f"attention {'x'.join(map(str, shape))}",
                "attention",
                str(list(shape)),
                lambda setting, shape=shape: _build(shape, setting),
                # The forward pass has two matrix products. The backward pass has four and recomputes one of the forward
                # pass. The causal mask halves the work of each product.
                flops=7.0 * batch * heads * length * length * size,
            )
        )
    return listed
