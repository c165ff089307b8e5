# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Small models and data for the scripts."""

import itertools
from collections.abc import Callable, Iterable
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


def samples(count: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns inputs f32 [count, 5], and classes below 3 that depend on the inputs."""
    x = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :3].argmax(1)


def batches(count: int, size: int = 4, seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns batches: inputs f32 [size, 5], and classes below 3 that depend on the inputs."""
    x, y = samples(count * size, seed)
    return [*zip(x.split(size), y.split(size), strict=True)]


def train(
    make: Make,
    model: nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer,
    given: Iterable[Any] | None = None,
    after: Callable[[], object] = lambda: None,
    **options: Any,
) -> Run:
    """Trains with the batches `given` (by default, with three batches) and calls `after` after each step. Returns the
    losses and the model."""
    trainer = make(model, loss_fn, optimizer, **options)
    losses = []
    for batch in given or batches(3):
        losses.append(trainer.step(*batch))
        after()
    return losses, [model]


def scripts_of(module: Any) -> list[Callable[..., Run]]:
    """Returns the functions of a module that take `make`, in the order of their definition."""
    functions = [each for each in vars(module).values() if getattr(each, "__module__", None) == module.__name__]
    return [each for each in functions if "make" in getattr(each, "__annotations__", ())]


def noise(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sgd(model: nn.Module, lr: float = 0.1, momentum: float = 0.9) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr, momentum)


def adam(model: nn.Module, lr: float = 0.02) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr)
