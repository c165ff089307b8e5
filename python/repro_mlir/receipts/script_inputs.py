# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Batches and hyper-parameters from the script that a run was made with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ReceiptWrong, ReproError
from ..script import load_training
from .commitments import commit
from .comparison import first_different_field
from .form import NUMERICS, Signature
from .receipt import Receipt


class ScriptBatches:
    """The program of a script, and the inputs of its batches in their order.

    Attributes:
      script: its path.
      program: captured as `Trainer` does.
      imported: what the frontend gave, which has what ties it to the script's objects.
      run: what the script runs, as `run` in receipt.json; without `nonfinite_loss` where the script leaves it open.
      exact_digits: the option with which it was captured.
      taken: how many batches have been given.
    """

    def __init__(self, script: str, exact_digits: int | None = None) -> None:
        """Runs the script and captures its program. ReproError for a script that cannot be run or captured.

        `exact_digits` is as for `load_training`.
        """
        given = load_training(script, exact_digits)
        self.script = script
        self.exact_digits: int | None = given.options.get("exact_digits")
        self._batches = iter(given.batches)
        self.taken = 0
        self._first = self._next()
        self.program, self.imported = given.capture(self._first)
        self.run = {
            "numerics": NUMERICS,
            "program": self.program.hash,
            "signature": Signature.of(self.program).as_json(),
            "initial": commit(self.program, 0, self.program.initial).root.hex(),
        }
        if "nonfinite_loss" in given.options:
            self.run["nonfinite_loss"] = given.options["nonfinite_loss"]

    def take(self) -> list[np.ndarray]:
        """The inputs of the next batch, hyper-parameters first. ReproError where there is none."""
        batch = self._first if self.taken == 0 else self._next()
        self.taken += 1
        return self.imported.read_inputs(batch)

    def _next(self) -> tuple[object, ...]:
        try:
            batch = next(self._batches)
        except StopIteration:
            raise ReproError(f"{self.script}: expected at least {self.taken + 1} batches") from None
        return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


class ScriptInputs:
    """Gives the inputs of batches in ascending order, as `Trainer` would take them from the script.

    Attributes:
      run: see `ScriptBatches`.
    """

    def __init__(self, receipt: Receipt, source: ScriptBatches) -> None:
        """
        Args:
          source: of which no batch has been taken.
        Raises:
          ReceiptWrong: the script runs something else than the receipt: another program, state, name or number.
        """
        self._source = source
        self._inputs: list[np.ndarray] = []
        self.run = self._source.run
        theirs = {name: value for name, value in receipt.header.run().items() if name in self.run}
        # What is wrong with the names is of no interest in another program.
        for name in ("program", "numerics", *sorted(self.run)):
            different = first_different_field(theirs[name], self.run[name], name)
            if different is not None:
                place, expected, actual = different
                raise ReceiptWrong(place, f"not that of {source.script}", None, expected, actual)

    def __call__(self, number: int) -> Sequence[np.ndarray]:
        """The inputs of a batch, from 1, hyper-parameters first. ReproError where the script gives too few batches."""
        while self._source.taken < number:
            self._inputs = self._source.take()
        return self._inputs
