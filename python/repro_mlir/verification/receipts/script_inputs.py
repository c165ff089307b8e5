# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the inputs, programs and state of a receipt with the script of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.verification.receipts.comparison import first_different_field
from repro_mlir.verification.receipts.form import ListedProgram, Signature
from repro_mlir.verification.receipts.receipt import Receipt


def allow_numerics(script: object, *, exact_digits: object = None, precision: object = None) -> None:
    """Raises ReproError if options of a capture are given without a `script` whose options they replace."""
    if script:
        return
    for name, value in (("exact digits", exact_digits), ("a precision", precision)):
        if value is not None:
            raise ReproError(
                f"{name} can be given for a script only, as a receipt contains its program: leave this option out"
            )


class ScriptSource(Protocol):
    """The program of a script, and the inputs of its batches in order.

    Attributes:
      script: the path of the script.
      program: the program of the last batch taken; of the first batch if none was taken.
      taken: the number of batches taken.
    """

    script: str
    program: StepProgram
    taken: int

    def run(self) -> dict[str, Any]:
        """Describes the script's run in the format of `Header.run`, without `nonfinite_loss` if the script does not set
        it."""

    def refuse_other_states(self) -> None:
        """Raises ReproError if the program of a batch depends on the state, which a caller that does not run the steps
        cannot know."""

    def go_on_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Writes the run's state to the script's objects, if the next program depends on it."""

    def take(self) -> list[np.ndarray]:
        """Returns the inputs of the next batch, hyper-parameters first. Raises ReproError if there is no next batch."""

    def gives(self, names: Sequence[str]) -> bool:
        """Returns whether a step of the script can return outputs, such as metrics, with these names."""

    def giving(self, names: Sequence[str]) -> StepProgram:
        """Returns the program of the last batch taken (or the first batch if none was taken) with outputs of these
        names. Raises ReproError if that program cannot be captured."""


class ScriptInputs:
    """A callable that returns the inputs of a batch, as `Trainer` would take them from the script. Callers request the
    batches in ascending order.

    Attributes:
      run: see `ScriptSource.run`.
      same_files: for each program that was compared, by its identity, whether the file of the receipt has the bytes of
        the script's program. If it has not, the names, messages or origins differ, which the identity does not cover.
    """

    def __init__(self, receipt: Receipt, source: ScriptSource) -> None:
        """
        Args:
          source: the script's batches, none of which has been taken.
        Raises:
          ReceiptWrong: if the script's run differs from the receipt in its program, state, a name or a number.
        """
        self._source = source
        self._inputs: list[np.ndarray] = []
        theirs = receipt.header.run()
        self.run = source.run()
        self.same_files: dict[str, bool] = {}
        # The program is checked first: if it differs, differences of names are irrelevant.
        self.check_program(receipt.header.programs[0], None)
        for name in ("numerics", *sorted(self.run)):
            different = first_different_field(theirs[name], self.run[name], name)
            if different is not None:
                place, expected, actual = different
                message = f"differs from that of {source.script}"
                if name == "initial":
                    message += (
                        ": if it differs with each run of the script, set a seed before the model is made, such as "
                        "torch.manual_seed(0), and record the run again"
                    )
                raise ReceiptWrong(place, message, None, expected, actual)

    @property
    def script(self) -> str:
        """The path of the script."""
        return self._source.script

    def go_on_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Sets the state before the step of the next batch; not called before the first step."""
        self._source.go_on_from(state)

    @property
    def program(self) -> StepProgram:
        """The program of the last batch taken."""
        return self._source.program

    def check_program(self, listed: ListedProgram, step: int | None) -> None:
        """Raises ReceiptWrong if `listed` and the program of the last batch taken (of the first batch if none was
        taken) differ in their identity or names. Outputs other than the loss may differ because the state does not
        depend on them."""
        outputs = [kind.name for kind in listed.signature.outputs]
        try:
            program = self._source.giving(outputs) if self._source.gives(outputs) else self.program
        except ReproError as error:
            program = self.program
            if program.hash != listed.identity:
                # Not ReceiptWrong: the capture may fail because of this machine, not because of the receipt.
                raise ReproError(f"{self._source.script}: expected the receipt's outputs: {error}") from None
        message = f"differs from that of {self._source.script}"
        if program.hash != listed.identity:
            raise ReceiptWrong("program", message, step, listed.identity, program.hash)
        theirs, ours = listed.signature.as_json(), Signature.of(program).as_json()
        different = first_different_field(theirs, ours, "signature")
        if different is not None:
            place, expected, actual = different
            raise ReceiptWrong(place, message, step, expected, actual)
        if listed.identity not in self.same_files:
            self.same_files[listed.identity] = ListedProgram.of(program).digest == listed.digest

    def __call__(self, number: int) -> Sequence[np.ndarray]:
        """Returns the inputs of batch `number`, from 1, hyper-parameters first. Raises ReproError if the script has too
        few batches."""
        while self._source.taken < number:
            self._inputs = self._source.take()
        return self._inputs
