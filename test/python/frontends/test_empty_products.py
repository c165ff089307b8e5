# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Matrix products of 8-bit integers and of empty tensors, compared with those of PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from operator_checks import check, gradients


def test_products_of_small_integers_and_of_no_elements() -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randint(-100, 100, shape, generator=generator).to(torch.int8) for shape in ((3, 4), (4, 2)))
    functions = {
        "product": lambda x, y: (x @ y, x[0] @ y, x @ y[:, 0], x[None] @ y),
        "of a batch": lambda x, y: torch.bmm(x[None].expand(2, 3, 4), y[None].expand(2, 4, 2)),
        "added": lambda x, y: torch.addmm(x[:, :2], x, y, beta=2, alpha=3),
        "layer": lambda x, y: F.linear(x, y.T, y[0]),
        "of no elements": lambda x, y: x[:, :0] @ y[:0],
    }
    check(functions, x, y)
    empty = {
        "product": lambda x, y, b: (x @ y, x @ y[:, 0], x[0] @ y, x[0] @ y[:, 0], torch.bmm(x[None], y[None])),
        "added": lambda x, y, b: torch.addmm(b, x, y, beta=2, alpha=3),
        "layer": lambda x, y, b: F.linear(x, y.T, b),
        "of a batch": lambda x, y, b: torch.baddbmm(b[None], x[None], y[None]),
    }
    check({n: gradients(f) for n, f in empty.items()}, torch.zeros(3, 0), torch.zeros(0, 2), torch.randn(2))
