# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of float32 matrix products."""

import torch
from case import OURS, Case, Contestants, Setting
from programs import compiled

# The sizes of the products: rows, columns, inner dimension.
_CUBES = [(size, size, size) for size in (512, 1024, 2048)]
_GPT = [
    (2048, 1152, 384),  # QKV projection
    (2048, 384, 384),  # output projection of the attention
    (2048, 1536, 384),  # first product of the MLP
    (2048, 384, 1536),  # second product of the MLP
    (2048, 8192, 384),  # logits of the vocabulary
]
_RESNET = [
    (256, 3136, 64),  # 1x1 convolutions as matrix products: output channels, pixels, input channels.
    (512, 784, 128),
    (1024, 196, 256),
    (64, 1000, 512),  # the classifier
]


def _build(m: int, n: int, k: int, layout: str, setting: Setting) -> Contestants:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(m, k, generator=generator)
    b = torch.randn(k, n, generator=generator)
    # A matrix that `layout` marks N is stored as it is multiplied; one marked T is stored transposed.
    left = a.t().contiguous() if layout[0] == "T" else a
    right = b.t().contiguous() if layout[1] == "T" else b

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.mm(left.t() if layout[0] == "T" else left, right.t() if layout[1] == "T" else right)

    out = torch.empty(m, n)
    left_view = left.t() if layout[0] == "T" else left
    right_view = right.t() if layout[1] == "T" else right
    # oneDNN gets operands in the layout that it prefers. The conversion is not timed.
    blocked, weight = a.to_mkldnn(), b.t().contiguous().to_mkldnn()
    return {
        OURS: compiled(f"matmul {m}x{n}x{k} {layout}", product, (left, right), setting),
        "torch": lambda: torch.mm(left_view, right_view, out=out),
        "oneDNN": lambda: torch._C._nn.mkldnn_linear(blocked, weight),
    }


def cases() -> list[Case]:
    """Returns one benchmark for each shape and each of the three layouts that forward and backward passes need."""
    return [
        Case(
            f"matmul {m if m == n == k else f'{m}x{n}x{k}'} {layout}",
            "matmul",
            f"[{m}, {k}] x [{k}, {n}] {layout}",
            lambda setting, m=m, n=n, k=k, layout=layout: _build(m, n, k, layout, setting),
            flops=2.0 * m * n * k,
        )
        for m, n, k in _CUBES + _GPT + _RESNET
        for layout in ("NN", "NT", "TN")
    ]
