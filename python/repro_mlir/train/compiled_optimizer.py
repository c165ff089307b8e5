# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles only the step of an optimizer, for training loops with their own forward and backward pass."""

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
            # The tensors are updated now, because compiled code that reads the parameters next would not trigger the
            # update (see `Trainer.sync`).
            self._trainer.sync()


def compile_optimizer(
    optimizer: torch.optim.Optimizer, *, target: str = "cpu", threads: int | None = None
) -> Callable[[], None]:
    """Returns a function that replaces `optimizer.step`: the update of `Trainer`, with the same bits.

        backend = repro_mlir.backend()
        loss_of = torch.compile(lambda x, y: loss_fn(model(x), y), backend=backend, fullgraph=True)
        step = repro_mlir.compile_optimizer(optimizer)
        ...
        optimizer.zero_grad()
        loss_of(x, y).backward()
        step()

    Such a loop computes the bits of `Trainer(model, loss_fn, optimizer)` with any optimizer. `torch.compile` of
    `optimizer.step` itself also produces a program, but from Dynamo's trace. For Adam and other optimizers this trace
    does not round at the same points of the computation as the optimizer in eager mode.

    A call reads the gradients of the parameters; parameters without a gradient do not change. Other changes of the
    optimizer between two calls (learning rates, parameter groups, its state) take effect as with `Trainer`.

    Args:
      optimizer: see `Trainer`.
      target, threads: see `compile`. Tensors are on the CPU with every target.
    Raises:
      ReproError: the target is unknown, or `optimizer` is not an optimizer. The returned function raises the same
        errors as `Trainer.step`.
    """
    from repro_mlir.frontends.torch.base.user_objects import require_optimizer

    check_target(target)
    require_optimizer(optimizer)
    return _OptimizerStep(optimizer, target, threads)
