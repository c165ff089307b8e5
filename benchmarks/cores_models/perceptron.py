# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A perceptron with two hidden layers learns random classes."""

import itertools
from collections.abc import Iterator

import repro_mlir
import torch
from torch import nn


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields batches of 64 vectors and classes without end."""
    generator = torch.Generator().manual_seed(0)
    for _ in itertools.count():
        yield torch.randn(64, 64, generator=generator), torch.randint(10, (64,), generator=generator)


def training(steps: int = 1):
    """Returns what `repro train` needs: the model, the loss function, the optimizer and the batches."""
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    model = repro_mlir.initialize(nn.Sequential(*layers), seed=0)
    return model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), batches()
