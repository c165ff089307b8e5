# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs steps for verification: by the reference interpreter, or by the executor that another package registers
(base/registry.py).

This module does not import the compiler, so a verifier that runs the reference interpreter does not need the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np

from repro_mlir.base.compiler import INSTALL, CompilerMissing, has_compiler
from repro_mlir.base.errors import ProgramError, ReproError
from repro_mlir.base.numerics.tensors import require_count, user_array
from repro_mlir.base.printing import foreign
from repro_mlir.base.registry import registered
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.threads import check_threads
from repro_mlir.program import Program
from repro_mlir.program.microbatches import StepProgram
from repro_mlir.reference.steps import StepInterpreter


class StepExecutable(Protocol):
    """A step that is ready to run, such as an `Executable`."""

    @property
    def threads(self) -> int:
        """The number of threads of a step."""

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step, which updates the arrays of `state`; returns the state and the outputs by name."""


class KeptMicrobatches(Protocol):
    """The state before a step, on which single microbatches of the step can be run."""

    def digest_of(self, number: int, *inputs: Any) -> bytes:
        """(C8) Returns the hash of the results of microbatch `number`. `inputs` are those of the whole step. The state
        does not change."""


class MicrobatchExecutable(StepExecutable, Protocol):
    """A step in microbatches that is ready to run."""

    def commit(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], tuple[bytes, ...]]:
        """Runs one step; returns its outputs, and the hash of each microbatch's results (C8)."""

    def keep(self, state: Mapping[str, Any]) -> KeptMicrobatches:
        """Returns an object that runs single microbatches on `state`."""


class Executor(Protocol):
    """The module that is registered for the role `executor` (base/registry.py); it runs steps on all targets."""

    def check_target(self, target: str) -> None:
        """Raises ReproError unless `target` is the name of a target."""

    def check_runs(self, target: str) -> None:
        """Raises ReproError unless this machine runs code for `target`."""

    def compile_step(self, program: StepProgram, target: str, threads: int | None) -> StepExecutable:
        """Compiles a step."""

    def describe(self, target: str, threads: int) -> dict[str, str]:
        """Returns the facts that a receipt reports about the environment of its run; no result depends on these
        facts."""


_REFERENCE = "reference"

_KINDS = ("cores", "cpu", "cuda", "ptx-emulator")
"""The kinds of the targets that need the compiler: the beginnings of their names."""

_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""Exceptions by which the interpreter would end the verification of a stranger's program without an answer, if a check
of the program lacked a case."""


def default_target() -> str:
    """Returns the target on which steps are run if the caller chooses none: the fastest that is installed."""
    return "cpu" if has_compiler() else _REFERENCE


def executor(use: str) -> Executor:
    """Returns the registered executor. Raises CompilerMissing if there is none, with a message that begins with the
    `use` of the executor."""
    module = registered("executor")
    if module is None:
        raise CompilerMissing(f"{use} needs the compiler: {INSTALL}")
    return cast(Executor, module)


def _executor_of(target: str) -> Executor:
    if registered("executor") is None and re.split("[:+]", target)[0] not in _KINDS:
        raise ReproError(f"unknown target {foreign(target)}: use the target {_REFERENCE}")
    return executor(f"the target {foreign(target)}")


def check_target(target: str) -> None:
    """Raises ReproError unless `compile_step` accepts the target."""
    if target != _REFERENCE:
        _executor_of(target).check_target(target)


def check_runs(target: str) -> None:
    """Raises ReproError unless this machine runs code for `target`; called before a receipt is read."""
    if target != _REFERENCE:
        _executor_of(target).check_runs(target)


def compile_step(program: StepProgram, target: str, threads: int | None) -> StepExecutable:
    """Returns a step that runs on a target. Raises ReproError for an unknown target or number of threads."""
    if target == _REFERENCE and isinstance(program, Program):
        return _Interpreted(program, threads)
    if target == _REFERENCE:
        # Only the executor runs steps in microbatches, also on the interpreter.
        found = executor("a receipt of steps in microbatches")
        return found.compile_step(program, target, threads)
    return _executor_of(target).compile_step(program, target, threads)


def interpret(
    program: Program, state: Mapping[str, Any], *inputs: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Runs one step of a program in the reference interpreter, which is slow and defines the bits. Needs no compiler.

    Args:
      program: the program, such as `Receipt(path).program` or `Program.load(path)`.
      state: the array of each state tensor before the step, by name; not changed.
      inputs: the inputs in the order of `Program.inputs`, hyper-parameters first.
    Returns:
      the new state and the outputs, by name.
    Raises:
      StepFailed: a check of the step fails (E1).
      ReproError: the program is in microbatches, or an array is missing or has another shape or type.
    """
    if not isinstance(program, Program):
        raise ReproError(f"expected a Program, got a {type(program).__name__}: use repro_mlir.compile for other steps")
    missing = [kind.name for kind in program.state if kind.name not in state]
    if missing:
        raise ReproError(f"expected an array for each state tensor, got none for {foreign(missing[0])}")
    require_count(program.inputs, inputs)
    arrays = {kind.name: as_array(state[kind.name], kind, "state").copy() for kind in program.state}
    _, outputs = _Interpreted(program, None)(arrays, *inputs)
    return (
        {kind.name: user_array(arrays[kind.name], kind) for kind in program.state},
        {kind.name: user_array(outputs[kind.name], kind) for kind in program.outputs},
    )


class _Interpreted:
    """Implements `StepExecutable` with the reference interpreter."""

    def __init__(self, program: Program, threads: int | None) -> None:
        self.threads = check_threads(threads)
        self._program = program
        self._interpreter = StepInterpreter(program.data)

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        kinds = self._program.inputs
        given = [as_array(value, kind, "input") for value, kind in zip(inputs, kinds, strict=True)]
        outputs = {kind.name: np.empty(kind.shape, kind.dtype) for kind in self._program.outputs}
        try:
            self._interpreter.run([state[kind.name] for kind in self._program.state], given, list(outputs.values()))
        except _FAULTS as error:
            if not self._program.untrusted:
                raise
            raise ProgramError(f"expected a program that the interpreter can run, and it fails ({error!r})") from error
        return dict(state), outputs
