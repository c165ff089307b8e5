# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Batches and learning rates from the script that a run was made with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import as_array
from ..errors import ReceiptWrong, ReproError
from ..program import capture_training
from ..script import load_training
from .commitments import commit
from .form import StepRecord
from .receipt import Receipt


class ScriptBatches:
    """The program of a script, and the inputs of its batches in their order.

    Attributes:
      program: captured as `Trainer` does.
      captured: what ties it to the script's objects.
      exact_digits: the option with which it was captured.
      taken: how many batches have been given.
    """

    def __init__(self, script: str, exact_digits: int | None = None) -> None:
        """Runs the script and captures its program. ReproError for a script that cannot be run or captured.

        `exact_digits` is as for `load_training`.
        """
        given = load_training(script, exact_digits)
        self._script = script
        self.exact_digits: int | None = given.options.get("exact_digits")
        self._batches = iter(given.batches)
        self.taken = 0
        self._first = self._next()
        self.program, self.captured = capture_training(
            given.model, given.loss_fn, given.optimizer, self._first, **given.capture_options
        )

    def take(self) -> list[np.ndarray]:
        """The inputs of the next batch, hyper-parameters first. ReproError where there is none."""
        batch = self._first if self.taken == 0 else self._next()
        self.taken += 1
        tensors = [*self.captured.hyper_parameters(), *self.captured.flatten_batch(batch)]
        return [as_array(value, kind, "input") for value, kind in zip(tensors, self.program.inputs, strict=True)]

    def _next(self) -> tuple[object, ...]:
        try:
            batch = next(self._batches)
        except StopIteration:
            raise ReproError(f"{self._script}: expected at least {self.taken + 1} batches") from None
        return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


class ScriptInputs:
    """Gives the inputs of a receipt's steps in ascending order, as `Trainer` would take them from the script."""

    def __init__(self, receipt: Receipt, script: str, exact_digits: int | None = None) -> None:
        """Runs the script and captures its program.

        Args:
          exact_digits: see `load_training`.
        Raises:
          ReproError: a script that cannot be run or captured.
          ReceiptWrong: its program or its initial state is not the receipt's.
        """
        self._source = ScriptBatches(script, exact_digits)
        self._inputs: list[np.ndarray] = []
        program, header = self._source.program, receipt.header
        if program.hash != header.program:
            raise ReceiptWrong("program", f"not that of {script}", None, header.program, program.hash)
        initial = commit(program, 0, program.initial).root.hex()
        if initial != header.initial:
            raise ReceiptWrong("initial state", f"not that of {script}", None, header.initial, initial)

    def __call__(self, record: StepRecord) -> Sequence[np.ndarray]:
        """The inputs of a step, hyper-parameters first. ReproError where the script gives too few batches."""
        while self._source.taken < record.commitment.cursor:
            self._inputs = self._source.take()
        return self._inputs
