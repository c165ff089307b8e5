# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training with a compiled step in place of forward, backward and optimizer."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import as_array, to_torch
from .compiler import Executable, Kept, check_target, compile
from .errors import NonFiniteLoss, ReproError
from .hashing import state_hash
from .program import Program, capture_training
from .progress import Progress
from .receipts.options import NONFINITE_LOSS, ReceiptOptions

if TYPE_CHECKING:
    import torch

    from .frontends.torch import Captured
    from .receipts.recorder import Recorder


class Trainer:
    """Trains a PyTorch model; every step has the same bits on every target and with any number of threads.

        trainer = repro_mlir.Trainer(model, loss_fn, optimizer)
        for batch in loader:
            loss = trainer.step(*batch)
        trainer.sync()

    The step is captured and compiled at the first batch; all batches have that batch's shapes. The learning rates are
    read from the optimizer before each step, so schedulers work as usual. The parameters are trained in arrays of the
    trainer's own: `sync` writes them back into the model and the optimizer.

    With `receipt` the run is recorded so that anybody can check it (docs/receipts.md):

        with repro_mlir.Trainer(model, loss_fn, optimizer, receipt="run.receipt") as trainer:
            trainer.fit(loader, steps)
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
        exact_digits: int | None = None,
        attention_block: int | None = None,
        nonfinite_loss: str = "warn",
        receipt: str | Path | ReceiptOptions | None = None,
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
          exact_digits: 2 or 3 makes all contractions exact, see `exact_contractions`.
          attention_block: attention goes by blocks of so many queries, or keys, see `capture`.
          nonfinite_loss: what is done after a step whose loss is NaN or infinite: "warn" (by warnings.warn, once),
            "stop" (this step and every later one raise NonFiniteLoss) or "ignore". A receipt has it.
          receipt: a new directory for the receipt, or all about it. `close`, or leaving a `with`, finishes it.
        Raises:
          ReproError: an unknown target or choice of `nonfinite_loss`.
        """
        check_target(target)
        if nonfinite_loss not in NONFINITE_LOSS:
            raise ReproError(f"expected nonfinite_loss among {', '.join(NONFINITE_LOSS)}, got {nonfinite_loss!r}")
        self._model = model
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._target = target
        self._threads = threads
        self._clip_norm = clip_norm
        self._autocast = autocast
        self._seed = seed
        self._exact_digits = exact_digits
        self._attention_block = attention_block
        self._nonfinite_loss = nonfinite_loss
        self._nonfinite: str | None = None
        self._captured: Captured | None = None
        self._executable: Executable | None = None
        self._state: dict[str, np.ndarray] = {}
        self._kept: Kept | None = None
        self._receipt = ReceiptOptions(receipt) if isinstance(receipt, str | Path) else receipt
        self._recorder: Recorder | None = None
        self.steps = 0
        """How many steps the state has seen; with a receipt that is resumed, those of its last checkpoint at first."""

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._recorder is not None:
            self._recorder.close()

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
                exact_digits=self._exact_digits,
                attention_block=self._attention_block,
            )
            executable = compile(program, self._target, self._threads)
            if self._receipt is None:
                self._state = program.initial_state()
                # A receipt needs the whole state in every step.
                self._kept = executable.keep(self._state)
            else:
                from .receipts.recorder import Recorder

                self._recorder = Recorder(
                    self._receipt, program, self._target, executable.threads, self._nonfinite_loss
                )
                self._state, self.steps = self._recorder.state, self._recorder.steps
            self._executable = executable
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
        """The present state tensors by name: the trainer's own arrays, which are to be read only; the receipt has them
        by now. ReproError before the first step."""
        if self.executable and self._kept is not None:
            self._kept.fetch()
        if self._recorder is not None:
            self._recorder.wait()
        return self._state

    def step(self, *batch: Any) -> float:
        """One training step.

        Args:
          batch: as at capture, `(*inputs, target)` for a loss function.
        Returns:
          the loss.
        Raises:
          ReproError: a batch of another structure, shape or element type than the first.
          StepFailed: a check of the program failed, such as a class out of range; the state is unchanged.
          NonFiniteLoss: the run stops at a loss that is NaN or infinite.
        """
        if self._nonfinite is not None and self._nonfinite_loss == "stop":
            raise NonFiniteLoss(f"the run has stopped: {self._nonfinite}")
        self.prepare(*batch)
        assert self._captured is not None and self._executable is not None
        if self._receipt is not None and self._recorder is None:
            raise ReproError("the receipt is finished: expected no step after close")
        inputs: list[Any] = [*self._captured.hyper_parameters(), *self._captured.flatten_batch(batch)]
        if self._recorder is not None:
            kinds = self._executable.program.inputs
            inputs = self._recorder.take(
                [as_array(value, kind, "input") for value, kind in zip(inputs, kinds, strict=True)]
            )
        if self._kept is not None:
            outputs = self._kept.step(*inputs)
        else:
            _, outputs = self._executable(self._state, *inputs)
        self.steps += 1
        if self._recorder is not None:
            self._recorder.commit(inputs, list(outputs.values()))
        loss = float(outputs["loss"])
        if not math.isfinite(loss):
            self._report_nonfinite(loss)
        return loss

    def _report_nonfinite(self, loss: float) -> None:
        message = f"step {self.steps} gave the loss {loss}"
        known, self._nonfinite = self._nonfinite, message
        if self._nonfinite_loss == "stop":
            raise NonFiniteLoss(f"{message}: the run stops")
        if self._nonfinite_loss == "warn" and known is None:
            warnings.warn(f"{message}; nonfinite_loss says what is done then", RuntimeWarning, stacklevel=3)

    def fit(self, batches: Iterable[Any], steps: int) -> list[float]:
        """Trains for `steps` batches, with a progress bar where standard error is a terminal.

        Args:
          batches: gives tuples `(*inputs, target)`; at least `steps` of them.
          steps: how many. Of a receipt that is resumed: how many the run is to have from its beginning; the batches
            begin there too, and those that have been used are passed over.
        Returns:
          the loss of each step that was run.
        Raises:
          ReproError: the batches end too early; and as `step`.
        """
        losses: list[float] = []
        iterator, begun = self._resume(iter(batches))
        if begun > steps:
            raise ReproError(f"expected at least {begun} steps, which the receipt already has, got {steps}")
        with Progress(steps - begun, "training") as progress:
            for _ in range(steps - begun):
                try:
                    batch = next(iterator)
                except StopIteration:
                    raise ReproError(f"expected {steps} batches, got {begun + len(losses)}") from None
                losses.append(self.step(*_as_tuple(batch)))
                progress.advance(f"loss {losses[-1]:.4f}")
        return losses

    def _resume(self, batches: Iterator[Any]) -> tuple[Iterator[Any], int]:
        """The batches that are to be used, and how many steps have been run, where this is the beginning of a resumed
        run; elsewhere the batches and 0."""
        if self._receipt is None or not self._receipt.resume or self._executable is not None:
            return batches, 0
        for first in batches:
            self.prepare(*_as_tuple(first))
            used = self._recorder.cursor if self._recorder is not None else 0
            if used == 0:
                return itertools.chain([first], batches), 0
            passed = 1 + sum(1 for _ in itertools.islice(batches, used - 1))
            if passed < used:
                raise ReproError(f"expected more than {used} batches, which the receipt has used, got {passed}")
            return batches, self.steps
        return batches, 0

    def close(self) -> None:
        """Finishes the receipt, if one is written; no step can be run afterwards. See `ReceiptOptions`.

        Raises:
          ReproError: it cannot be written, or a step computed again differs from what it has.
        """
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            try:
                recorder.seal()
            finally:
                recorder.close()

    def state_hash(self) -> str:
        """The hash of the whole present state (H3), in hexadecimal: what two machines compare."""
        program, state = self.program, self.state
        return state_hash([(state[kind.name], kind.element) for kind in program.state])

    def sync(self) -> None:
        """Writes parameters, buffers and optimizer state back into the model and the optimizer.

        Raises:
          ReproError: before the first step.
        """
        program, state = self.program, self.state
        assert self._captured is not None
        # A copy: the optimizer may keep the tensors that it is given.
        values = [to_torch(state[kind.name].copy(), kind.element) for kind in program.state]
        self._captured.write_state(values)


def _as_tuple(batch: Any) -> tuple[Any, ...]:
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)
