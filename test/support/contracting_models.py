# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Models with contractions that precision recipes treat differently."""

from __future__ import annotations

import torch
from torch import nn


class Convolutions(nn.Module):
    """A linear layer, and convolutions with groups and strides. The convolutions' input gradients consist of one part
    per stride phase."""

    def __init__(self, groups: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=groups)
        self.head = nn.Linear(72, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(x).relu()).relu().flatten(1))


class Scores(nn.Module):
    """Attention, whose products have a batch dimension, and three linear layers that read the same tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each(x).unflatten(2, (2, 16)).transpose(1, 2) for each in (self.q, self.k, self.v))
        return nn.functional.scaled_dot_product_attention(q, k, v).mean((1, 2))


class Checkpointed(nn.Module):
    """A network whose two inner layers are recomputed in the backward pass if `again` is true."""

    def __init__(self, again: bool = True) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 4)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False) if self.again else self.inner(x)
        return self.head(inner)
