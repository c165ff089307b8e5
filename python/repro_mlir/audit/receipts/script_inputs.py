# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Takes batches and hyper-parameters from the script of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.audit.receipts.commitments import commit
from repro_mlir.audit.receipts.comparison import first_different_field
from repro_mlir.audit.receipts.form import NUMERICS, ListedProgram, Signature, tensors_as_json, version_of_run
from repro_mlir.audit.receipts.receipt import Receipt
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.frontends import torch as frontend
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.program.microbatches import StepProgram


class ScriptBatches:
    """The program of a script, and the inputs of its batches in order.

    Attributes:
      script: the path of the script.
      first: the program of the first batch, captured as `Trainer` does.
      program: the program of the last batch taken; another one than `first` if the script has changed an object on
        which the capture depends.
      imported: the frontend's result, which binds `program` to the script's objects.
      exact_digits, precision: the options of the capture.
      taken: the number of batches taken.
    """

    def __init__(self, script: str, exact_digits: int | None = None, precision: str | None = None) -> None:
        """Runs the script and captures its program.

        Args:
          exact_digits, precision: as for `load_training`.
        Raises:
          ReproError: if the script cannot be run or captured.
        """
        given = load_training(script, exact_digits, precision)
        self.script = script
        self.exact_digits: int | None = given.options.get("exact_digits")
        self.precision: Any = given.options.get("precision")
        self._given = given
        self._batches = iter(given.batches)
        self.taken = 0
        self._first = self._next()
        self.program, self.imported = given.capture(self._first)
        self.first = self.program
        self._known = {given.form(self.imported, self._first): (self.program, self.imported)}
        self._batch = self._first
        self._giving: dict[frontend.Form, StepProgram] = {}

    def run(self, like: Mapping[str, Any]) -> dict[str, Any]:
        """Describes the script's run in the format of `Header.run`, without `nonfinite_loss` if the script does not set
        it.

        Args:
          like: a `Header.run` that determines the version, and the identity of the program if the program has several.
        """
        run: dict[str, Any] = {
            "numerics": NUMERICS,
            "initial": commit(self.first, 0, self.first.initial).root.hex(),
        }
        if version_of_run(like) == 1:
            named = self.first.is_named(like["program"])
            run["program"] = like["program"] if named else self.first.hash
            run["signature"] = Signature.of(self.first).as_json()
        else:
            run["state"] = tensors_as_json(self.first.state)
        if "nonfinite_loss" in self._given.options:
            run["nonfinite_loss"] = self._given.options["nonfinite_loss"]
        return run

    def refuse_other_states(self) -> None:
        """Raises ReproError if the program of a batch depends on the state, which a caller that does not run the steps
        cannot know."""
        if self.imported.bindings.depends_on_state:
            raise ReproError(
                f"{self.script}: the optimizer's step is another one in another state of it (its first step, or a "
                "number of steps that it compares): what the script runs is not known without running it"
            )

    def go_on_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Writes the run's state to the script's objects, if the next program depends on it."""
        bindings = self.imported.bindings
        if bindings.depends_on_state:
            bindings.write_state([state[kind.name] for kind in bindings.state])

    def take(self) -> list[np.ndarray]:
        """Returns the inputs of the next batch, hyper-parameters first. Raises ReproError if there is no next batch."""
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
        """Whether a step can return outputs of these names, including metrics."""
        return self._given.gives(frontend.returned_by(names))

    def giving(self, names: Sequence[str]) -> StepProgram:
        """Returns the program of the last batch taken (or the first batch if none was taken) with outputs of these
        names. Raises ReproError if that program cannot be captured."""
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
            raise ReproError(f"{self.script}: expected at least {self.taken + 1} batches") from None


class ScriptInputs:
    """Returns the inputs of batches in ascending order, as `Trainer` would take them from the script.

    Attributes:
      run: see `ScriptBatches.run`.
    """

    def __init__(self, receipt: Receipt, source: ScriptBatches) -> None:
        """
        Args:
          source: the script's batches, none of which has been taken.
        Raises:
          ReceiptWrong: if the script's run differs from the receipt in its program, state, a name or a number.
        """
        self._source = source
        self._inputs: list[np.ndarray] = []
        theirs = receipt.header.run()
        self.run = source.run(theirs)
        # The program is checked first: if it differs, differences of names are irrelevant.
        self.check_program(receipt.header.programs[0], None)
        for name in ("numerics", *sorted(self.run)):
            different = first_different_field(theirs[name], self.run[name], name)
            if different is not None:
                place, expected, actual = different
                raise ReceiptWrong(place, f"not that of {source.script}", None, expected, actual)

    def go_on_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Sets the state before the step of the next batch; not called before the first step."""
        self._source.go_on_from(state)

    @property
    def program(self) -> StepProgram:
        """The program of the last batch taken."""
        return self._source.program

    def check_program(self, listed: ListedProgram, step: int | None) -> None:
        """Raises ReceiptWrong if `listed` has another program or other names than the last batch taken (or the first
        batch). Outputs other than the loss may differ because the state does not depend on them."""
        outputs = [kind.name for kind in listed.signature.outputs]
        try:
            program = self._source.giving(outputs) if self._source.gives(outputs) else self.program
        except ReproError as error:
            program = self.program
            if not program.is_named(listed.identity):
                # Not ReceiptWrong: the capture may fail because of this machine, not because of the receipt.
                raise ReproError(f"{self._source.script} gives no outputs as the receipt lists them: {error}") from None
        message = f"not that of {self._source.script}"
        if not program.is_named(listed.identity):
            raise ReceiptWrong("program", message, step, listed.identity, program.hash)
        theirs, ours = listed.signature.as_json(), Signature.of(program).as_json()
        different = first_different_field(theirs, ours, "signature")
        if different is not None:
            place, expected, actual = different
            raise ReceiptWrong(place, message, step, expected, actual)

    def __call__(self, number: int) -> Sequence[np.ndarray]:
        """Returns the inputs of batch `number`, from 1, hyper-parameters first. Raises ReproError if the script has too
        few batches."""
        while self._source.taken < number:
            self._inputs = self._source.take()
        return self._inputs
