# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The step of an optimizer alone, as a program, for loops that have forward and backward of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repro_mlir.execute.executable import check_target
from repro_mlir.train.trainer import Trainer

if TYPE_CHECKING:
    import torch


class _OptimizerStep:
    def __init__(self, optimizer: torch.optim.Optimizer, target: str, threads: int | None) -> None:
        self._optimizer = optimizer
        self._options: dict[str, Any] = {"target": target, "threads": threads}
        self._make()

    def _make(self) -> None:
        from repro_mlir.frontends.torch.optimizers.given_gradients import GivenGradients

        self._model = GivenGradients(self._optimizer)
        self._trainer = Trainer(self._model, None, self._optimizer, **self._options)

    def __call__(self) -> None:
        if not self._model.is_of(self._optimizer):
            self._make()
        gradients = self._model.gradients()
        if gradients:
            self._trainer.step(gradients)
            # What reads the parameters next may be other compiled code.
            self._trainer.sync()


def compile_optimizer(
    optimizer: torch.optim.Optimizer, *, target: str = "cpu", threads: int | None = None
) -> Callable[[], None]:
    """A function that takes the place of `optimizer.step`: the update of `Trainer`, with its bits.

        backend = repro_mlir.backend()
        loss_of = torch.compile(lambda x, y: loss_fn(model(x), y), backend=backend, fullgraph=True)
        step = repro_mlir.compile_optimizer(optimizer)
        ...
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()

    Such a loop has the bits of `Trainer(model, loss_fn, optimizer)`, whatever the optimizer. `torch.compile` of
    `optimizer.step` itself is a program, too, but of what Dynamo makes of it, which for Adam and others rounds in other
    places than the optimizer does in eager mode.

    A call reads the gradients of the parameters; those without one are left as they are. What else of the optimizer
    changes between two calls (learning rates, parameter groups, its state) is taken into account as by `Trainer`.

    Args:
      optimizer: as for `Trainer`.
      target, threads: see `compile`. Tensors are on the CPU, whatever the target.
    Raises:
      ReproError: an unknown target, or no optimizer. The function raises what a step of `Trainer` does.
    """
    from repro_mlir.frontends.torch.base.user_objects import require_optimizer

    check_target(target)
    require_optimizer(optimizer)
    return _OptimizerStep(optimizer, target, threads)
