# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A training step of two linear layers with a ReLU between them; the gradient of the output is part of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import repro_mlir
import torch
from torch import nn


@dataclass(frozen=True)
class TwoLayers:
    """The extents of the batch, its rows, the hidden layer and the result, and the learning rate of SGD."""

    batch: int
    wide: int
    hidden: int
    out: int
    rate: float

    def captured(self, **options: Any) -> repro_mlir.Program:
        """Captures the step of x [batch, wide] and target [batch, out] with options of `repro_mlir.capture`."""
        torch.manual_seed(0)
        first, second = nn.Linear(self.wide, self.hidden, bias=False), nn.Linear(self.hidden, self.out, bias=False)
        model = nn.Sequential(first, nn.ReLU(), second)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate)
        batch = (torch.zeros(self.batch, self.wide), torch.zeros(self.batch, self.out))
        return repro_mlir.capture(model, _product_sum, optimizer, batch, **options)


def _product_sum(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss whose gradient by the output is the target."""
    return (output * target).sum()
