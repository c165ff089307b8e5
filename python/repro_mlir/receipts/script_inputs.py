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


class ScriptInputs:
    """Gives the inputs of steps in ascending order, as `Trainer` would take them from the script."""

    def __init__(self, receipt: Receipt, script: str) -> None:
        """Runs the script and captures its program.

        Raises:
          ReproError: a script that cannot be run or captured.
          ReceiptWrong: its program or its initial state is not the receipt's.
        """
        given = load_training(script)
        self._script = script
        self._batches = iter(given.batches)
        self._batch = self._next(1)
        self._used = 1
        program, self._captured = capture_training(
            given.model, given.loss_fn, given.optimizer, self._batch, **given.options
        )
        header = receipt.header
        if program.hash != header.program:
            raise ReceiptWrong("program", f"not that of {script}", None, header.program, program.hash)
        initial = commit(program, 0, program.initial).root.hex()
        if initial != header.initial:
            raise ReceiptWrong("initial state", f"not that of {script}", None, header.initial, initial)
        self._kinds = program.inputs

    def __call__(self, record: StepRecord) -> Sequence[np.ndarray]:
        """The inputs of a step, hyper-parameters first. ReproError where the script gives too few batches."""
        while self._used < record.commitment.cursor:
            self._used += 1
            self._batch = self._next(self._used)
        tensors = [*self._captured.hyper_parameters(), *self._captured.flatten_batch(self._batch)]
        return [as_array(value, kind, "input") for value, kind in zip(tensors, self._kinds, strict=True)]

    def _next(self, count: int) -> tuple[object, ...]:
        try:
            batch = next(self._batches)
        except StopIteration:
            raise ReproError(f"{self._script}: expected at least {count} batches") from None
        return tuple(batch) if isinstance(batch, tuple | list) else (batch,)
