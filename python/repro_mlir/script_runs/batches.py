# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures the step of a training script and yields the inputs of its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.base.capture_options import NumericsKeywords
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.receipts.commitments import commit
from repro_mlir.verification.receipts.form import NUMERICS, tensors_as_json


class ScriptBatches:
    """Implements `ScriptSource` (verification/receipts/script_inputs.py): the program and the batches of a script.

    Attributes:
      script: the path of the script.
      first: the program of the first batch, captured as by `Trainer`.
      program: the program of the last batch taken. It differs from `first` if the script has changed an object on which
        the capture depends.
      imported: the frontend's result, which binds `program` to the script's objects.
      options: the options of the capture.
      taken: the number of batches taken.
    """

    def __init__(self, script: str, **numerics: Unpack[NumericsKeywords]) -> None:
        """Runs the script and captures its program.

        Args:
          numerics: as for `load_training`.
        Raises:
          ReproError: the script cannot be run, or its step cannot be captured.
        """
        given = load_training(script, **numerics)
        self.script = script
        self.options = given.capture_options
        self._given = given
        self._batches = iter(given.batches)
        self.taken = 0
        self._first = self._next()
        self.program, self.imported = given.capture(self._first)
        self.first = self.program
        self._known = {given.form(self.imported, self._first): (self.program, self.imported)}
        self._batch = self._first
        self._giving: dict[frontend.Form, StepProgram] = {}

    def run(self) -> dict[str, Any]:
        """See `ScriptSource.run`."""
        run: dict[str, Any] = {
            "numerics": NUMERICS,
            "initial": commit(self.first, 0, self.first.initial).root.hex(),
            "state": tensors_as_json(self.first.state),
        }
        if "nonfinite_loss" in self._given.options:
            run["nonfinite_loss"] = self._given.options["nonfinite_loss"]
        return run

    def refuse_other_states(self) -> None:
        """See `ScriptSource.refuse_other_states`."""
        if self.imported.bindings.depends_on_state:
            raise ReproError(
                f"{self.script}: the optimizer's step depends on the optimizer's state (its first step, or a number of "
                "steps that it compares): the programs of the script are not known without running it"
            )

    def go_on_from(self, state: Mapping[str, np.ndarray]) -> None:
        """See `ScriptSource.go_on_from`."""
        bindings = self.imported.bindings
        if bindings.depends_on_state:
            bindings.write_state([state[kind.name] for kind in bindings.state])

    def take(self) -> list[np.ndarray]:
        """See `ScriptSource.take`."""
        batch = self._first if self.taken == 0 else self._next()
        self.taken += 1
        known = (each for form, each in self._known.items() if self._given.form(each[1], batch) == form)
        found = next(known, None)
        if found is None:
            found = self._given.capture(batch)
            self._known[self._given.form(found[1], batch)] = found
        self.program, self.imported = found
        self._batch = batch
        return self._given.read_inputs(self.program, self.imported, batch)

    def gives(self, names: Sequence[str]) -> bool:
        """See `ScriptSource.gives`."""
        return self._given.gives(frontend.returned_by(names))

    def giving(self, names: Sequence[str]) -> StepProgram:
        """See `ScriptSource.giving`."""
        returns = frontend.returned_by(names)
        if returns == frontend.returned_by(kind.name for kind in self.program.outputs):
            return self.program
        form = self._given.form(self.imported, self._batch, returns)
        if form not in self._giving:
            self._giving[form] = self._given.capture(self._batch, returns)[0]
        return self._giving[form]

    def _next(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            raise ReproError(f"{self.script}: expected at least {self.taken + 1} batches, got {self.taken}") from None
