# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Small models and data for the scripts."""

import itertools
from collections.abc import Callable
from typing import Any

import repro_mlir
import torch
from torch import nn

Make = Callable[..., Any]
Run = tuple[list[float], list[nn.Module]]
Script = Callable[[Make], Run]


def mlp(*sizes: int, seed: int = 1) -> nn.Sequential:
    """Returns a model of linear layers of these sizes, with tanh between them."""
    layers: list[nn.Module] = []
    for one, other in itertools.pairwise(sizes):
        layers += [nn.Linear(one, other), nn.Tanh()]
    return repro_mlir.initialize(nn.Sequential(*layers[:-1]), seed)


def batches(count: int, size: int = 4, seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns batches: inputs f32 [size, 5], and classes below 3 that depend on the inputs."""
    x = torch.randn(count, size, 5, generator=torch.Generator().manual_seed(seed))
    return [(each, each[:, :3].argmax(1)) for each in x]


def noise(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr, momentum=0.9)


def adam(model: nn.Module, lr: float = 0.02) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr)
