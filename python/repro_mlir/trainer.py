# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training with a compiled step in place of forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import to_torch
from .compiler import Executable, compile
from .errors import ReproError
from .hashing import state_hash
from .program import Program, capture_training
from .progress import Progress

if TYPE_CHECKING:
    import torch

    from .frontends.torch import Captured


class Trainer:
    """Trains a PyTorch model; every step has the same bits on every target and with any number of threads.

        trainer = repro_mlir.Trainer(model, loss_fn, optimizer)
        for batch in loader:
            loss = trainer.step(*batch)
        trainer.sync()

    The step is captured and compiled at the first batch; all batches have that batch's shapes. The learning rates are
    read from the optimizer before each step, so schedulers work as usual. The parameters are trained in arrays of the
    trainer's own: `sync` writes them back into the model and the optimizer.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        *,
        target: str = "cpu",
        threads: int | None = None,
        clip_norm: float | None = None,
        autocast: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        """
        Args:
          model: in the mode (train or eval) in which it is to be trained.
          loss_fn: loss_fn(output, target) gives the scalar loss; None where the model gives it.
          optimizer: SGD, Adam, AdamW or RMSprop of torch.optim over the model's parameters.
          target: see `compile`.
          threads: see `compile`.
          clip_norm: clips all gradients together to this 2-norm.
          autocast: torch.bfloat16 or torch.float16 for forward and loss.
          seed: of the random numbers (dropout).
        """
        self._model = model
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._target = target
        self._threads = threads
        self._clip_norm = clip_norm
        self._autocast = autocast
        self._seed = seed
        self._captured: Captured | None = None
        self._executable: Executable | None = None
        self._state: dict[str, np.ndarray] = {}
        self.steps = 0
        """How many steps have run."""

    def prepare(self, *batch: Any) -> Program:
        """Captures and compiles the step for batches like this one; `step` does it by itself.

        Returns:
          the program.
        Raises:
          ReproError: what cannot be captured or compiled.
        """
        if self._executable is None:
            program, self._captured = capture_training(
                self._model,
                self._loss_fn,
                self._optimizer,
                batch,
                clip_norm=self._clip_norm,
                autocast=self._autocast,
                seed=self._seed,
            )
            self._executable = compile(program, self._target, self._threads)
            self._state = program.initial_state()
        return self._executable.program

    @property
    def executable(self) -> Executable:
        """The compiled step. ReproError before the first step."""
        if self._executable is None:
            raise ReproError("the step is captured at the first batch: call step, fit or prepare first")
        return self._executable

    @property
    def program(self) -> Program:
        """The captured program. ReproError before the first step."""
        return self.executable.program

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The present state tensors by name, the trainer's own arrays. ReproError before the first step."""
        return self._state if self.executable else {}

    def step(self, *batch: Any) -> float:
        """One training step.

        Args:
          batch: as at capture, `(*inputs, target)` for a loss function.
        Returns:
          the loss.
        Raises:
          ReproError: a batch of another structure, shape or element type than the first.
          StepFailed: a check of the program failed, such as a class out of range; the state is unchanged.
        """
        self.prepare(*batch)
        assert self._captured is not None and self._executable is not None
        from .frontends.torch import CaptureError

        try:
            tensors = self._captured.flatten_batch(batch)
        except CaptureError as error:
            raise ReproError(str(error)) from None
        _, outputs = self._executable(self._state, *self._captured.hyper_parameters(), *tensors)
        self.steps += 1
        return float(outputs["loss"])

    def fit(self, batches: Iterable[Any], steps: int) -> list[float]:
        """Trains for `steps` batches, with a progress bar where standard error is a terminal.

        Args:
          batches: gives tuples `(*inputs, target)`; at least `steps` of them.
          steps: how many.
        Returns:
          the loss of each step.
        Raises:
          ReproError: the batches end too early; and as `step`.
        """
        losses: list[float] = []
        iterator = iter(batches)
        with Progress(steps, "training") as progress:
            for _ in range(steps):
                try:
                    batch = next(iterator)
                except StopIteration:
                    raise ReproError(f"expected {steps} batches, got {len(losses)}") from None
                losses.append(self.step(*batch) if isinstance(batch, tuple | list) else self.step(batch))
                progress.advance(f"loss {losses[-1]:.4f}")
        return losses

    def state_hash(self) -> str:
        """The hash of the whole present state (H3), in hexadecimal: what two machines compare."""
        program = self.program
        return state_hash([(self._state[kind.name], kind.element) for kind in program.state])

    def sync(self) -> None:
        """Writes parameters, buffers and optimizer state back into the model and the optimizer.

        Raises:
          ReproError: before the first step.
        """
        program = self.program
        assert self._captured is not None
        # A copy: the optimizer may keep the tensors that it is given.
        values = [to_torch(self._state[kind.name].copy(), kind.element) for kind in program.state]
        self._captured.write_state(values)
