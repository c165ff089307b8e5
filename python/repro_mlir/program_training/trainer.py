# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the training steps of a program, optionally with a receipt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.hashing import state_hash
from repro_mlir.base.signals import deferred_signals
from repro_mlir.base.tensors.arrays import as_array, as_arrays
from repro_mlir.execute.executable import compile
from repro_mlir.program import Program

if TYPE_CHECKING:
    from repro_mlir.verification.receipts.options import ReceiptOptions


class ProgramTrainer(ConstantAttributes):
    """Runs the steps of a training program one after another. (For PyTorch models there is `repro_mlir.Trainer`.)

    A `with` block closes the trainer at its end, which finishes the receipt; after an exception the receipt can be
    resumed.
    """

    _instead: ClassVar[dict[str, str]] = {"program": "expected go_on_with(program)"}

    def __init__(
        self,
        program: Program,
        hyper_parameters: Mapping[str, float],
        *,
        target: str = "cpu",
        threads: int | None = None,
        receipt: ReceiptOptions | None = None,
    ) -> None:
        """Compiles the program, and begins or resumes its receipt.

        Args:
          program: a program with an initial state, such as the result of `training_step`.
          hyper_parameters: a number for each hyper-parameter of the program.
          target, threads: see `repro_mlir.compile`.
          receipt: the options of the receipt; None to write no receipt.
        Raises:
          ReproError: the names of the hyper-parameters are not those of the program, the program has no initial state,
            the target is not available, or the receipt cannot be written or resumed.
        """
        _numbers(program, hyper_parameters)
        if len(program.initial) != len(program.state):
            raise ReproError("expected a program with its initial state, got one without")
        self._program = program
        self._hyper_parameters: Mapping[str, float] = dict(hyper_parameters)
        self._state = program.initial_state()
        self._steps = 0
        self._target, self._threads = target, threads
        self._executable = compile(program, target, threads)
        self._executables = {id(program): (program, self._executable)}
        self._recorder: Any = None
        self._closed = False
        if receipt is not None:
            from repro_mlir.verification.receipts.recorder import Recorder

            begin = replace(program, initial=tuple(array.copy() for array in self._state.values()))
            self._recorder = Recorder(receipt, begin, target, self._executable.threads)
            self._recorder.work_on(self._state)
            self._steps = self._recorder.steps

    @property
    def program(self) -> Program:
        """The program of the next step. `go_on_with` replaces it."""
        return self._program

    @property
    def hyper_parameters(self) -> Any:
        """The hyper-parameters of the next step by name, such as `lr`. The names must be exactly those of the
        program."""
        return self._hyper_parameters

    @hyper_parameters.setter
    def hyper_parameters(self, values: Mapping[str, float]) -> None:
        self._hyper_parameters = values

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The state tensors by name. The next step uses values that the caller has written to a tensor, and tensors
        that the caller has put in place of others."""
        return self._state

    @state.setter
    def state(self, values: Mapping[str, np.ndarray]) -> None:
        # The dictionary is updated in place, because the recorder refers to it too.
        taken = dict(values)
        self._state.clear()
        self._state.update(taken)

    @property
    def steps(self) -> int:
        """The number of steps that have run, including the steps in a resumed receipt."""
        return self._steps

    def __enter__(self) -> ProgramTrainer:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        elif self._recorder is not None:
            # The receipt stays unfinished, so that it can be resumed.
            recorder, self._recorder, self._closed = self._recorder, None, True
            recorder.close()

    def go_on_with(self, program: Program) -> None:
        """Uses another program for the following steps, such as one for another batch size.

        Args:
          program: a program with the same state tensors and hyper-parameters; each program is compiled once.
        Raises:
          ReproError: a program with other state tensors or hyper-parameters, or one that cannot be compiled.
        """
        _numbers(program, self.hyper_parameters)
        if program.state != self._program.state:
            raise ReproError("expected a program with the same state tensors as the former one")
        if id(program) not in self._executables:
            self._executables[id(program)] = program, compile(program, self._target, self._threads)
        self._program, self._executable = self._executables[id(program)]

    def step(self, *batch: Any) -> dict[str, np.ndarray]:
        """Runs one step.

        Args:
          batch: the inputs after the hyper-parameters, as NumPy arrays or tensors of a framework, with the program's
            types and shapes.
        Returns:
          the outputs by name, such as `loss`.
        Raises:
          ReproError: the trainer is closed; types of inputs or of the state differ from those in the program; the
            hyper-parameters are not those of the program; or a check of the program failed (E1). In these cases the
            state is unchanged. Also raised if the record cannot be written: then the trainer is closed, and the receipt
            can be resumed.
        """
        if self._closed:
            raise ReproError("the trainer is closed: create a new one")
        kinds = self._program.inputs
        count = self._program.num_hyper_parameters
        if len(batch) != len(kinds) - count:
            names = ", ".join(kind.name for kind in kinds[count:])
            raise ReproError(f"expected {len(kinds) - count} inputs ({names}), got {len(batch)}")
        for kind in self._program.state:
            if kind.name not in self._state:
                raise ReproError(f"expected the tensor {kind.name!r} in the state, got none")
            as_array(self._state[kind.name], kind, "state")
        numbers = _numbers(self._program, self.hyper_parameters)
        inputs = as_arrays([*numbers, *batch], kinds, "input")
        # Signals are deferred: an interrupt between the step and its record would make the state and the receipt
        # inconsistent.
        with deferred_signals():
            if self._recorder is not None:
                inputs = self._recorder.take(self._program, inputs)
            try:
                _, outputs = self._executable(self._state, *inputs)
            except ReproError:
                if self._recorder is not None:
                    self._recorder.skip()
                raise
            if self._recorder is not None:
                # If the record cannot be written, the trainer stays closed, because the state would be one step ahead
                # of the receipt.
                recorder, self._closed = self._recorder, True
                recorder.commit(inputs, list(outputs.values()))
                self._closed = False
            self._steps += 1
        return outputs

    def state_hash(self) -> str:
        """Returns the hash of the present state (H3) in hexadecimal. This hash makes it possible to compare runs on
        different machines."""
        return state_hash([(self._state[kind.name], kind.element) for kind in self._program.state])

    def close(self) -> None:
        """Finishes the receipt, if there is one. After that, no step can run."""
        self._closed = True
        if self._recorder is not None:
            recorder, self._recorder = self._recorder, None
            recorder.end()


@float_environment()
def _numbers(program: Program, given: Mapping[str, float]) -> list[np.ndarray]:
    """Converts the hyper-parameters to arrays, in the order of the program's inputs.

    Raises:
      ReproError: the names of the hyper-parameters are not those of the program, or one is not a number.
    """
    kinds = program.inputs[: program.num_hyper_parameters]
    expected = [kind.name for kind in kinds]
    if sorted(given) != sorted(expected):
        raise ReproError(f"expected the hyper-parameters {expected}, got {sorted(given)}")
    for name, number in given.items():
        # Checked because NumPy would convert None to NaN and strings to numbers.
        if number is None or isinstance(number, (str, bytes)):
            raise ReproError(f"hyper-parameter {name}: expected a number, got {number!r}")
    with np.errstate(over="ignore"):
        numbers = [np.asarray(given[kind.name], kind.dtype) for kind in kinds]
    for kind, converted in zip(kinds, numbers, strict=True):
        if np.isinf(converted) and not math.isinf(given[kind.name]):
            raise ReproError(f"hyper-parameter {kind.name}: {given[kind.name]!r} is beyond the range of {kind.element}")
    return numbers
