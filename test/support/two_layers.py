# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A training step of two linear layers with a ReLU between them. The gradient of the output is an input of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import repro_mlir
import torch
from repro_mlir.reference.low_precision.f32_operations import multiply_add
from torch import nn


@dataclass(frozen=True)
class TwoLayers:
    """The sizes of the step: rows of a batch, and widths of the input, the hidden layer and the output; and SGD's
    learning rate."""

    batch: int
    wide: int
    hidden: int
    out: int
    rate: float

    def captured(self, **options: Any) -> repro_mlir.Program:
        """Captures the step for x [batch, wide] and target [batch, out]; `options` are those of
        `repro_mlir.capture`."""
        torch.manual_seed(0)
        first, second = nn.Linear(self.wide, self.hidden, bias=False), nn.Linear(self.hidden, self.out, bias=False)
        model = nn.Sequential(first, nn.ReLU(), second)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate)
        batch = (torch.zeros(self.batch, self.wide), torch.zeros(self.batch, self.out))
        return repro_mlir.capture(model, _product_sum, optimizer, batch, **options)


def _product_sum(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Returns a loss whose gradient with respect to the output is the target."""
    return (output * target).sum()


def contract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(K1) Returns the product [M, N] of a [M, K] and the transpose of b [N, K], with one fma after another along K (at
    most 512)."""
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total = multiply_add(a[:, k, np.newaxis], b[np.newaxis, :, k], total)
    return total + np.float32(0)
