# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs for many sizes, made ready to run on a target at each size that is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex

from repro_mlir.base.constant_attributes import ConstantAttributes
from repro_mlir.base.errors import ReproError
from repro_mlir.execute.executable import Executable, check_target, check_threads, compile
from repro_mlir.program import PerSize, SymbolicProgram


class SymbolicExecutable(ConstantAttributes):
    """A program for many sizes that is ready to run: each size is compiled at its first use.

    The executables of the 32 sizes that were used last are kept; the code of the others is found on disk again.

    Attributes:
      program: the program.
      target: the target, as given to `compile`.
      threads: how many threads run a step.
    """

    program: SymbolicProgram
    target: str
    threads: int

    def __init__(self, program: SymbolicProgram, target: str, threads: int | None) -> None:
        """ReproError as `compile` for the target and the threads."""
        check_target(target)
        self.program = program
        self.target = target
        self.threads = check_threads(threads)
        self._executables = PerSize(program, lambda each: compile(each, target, self.threads))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """What copy and pickle call."""
        raise ReproError("a SymbolicExecutable cannot be copied or pickled: copy or pickle its program")

    def at(self, **sizes: int) -> Executable:
        """The executable of one size of each symbol. ReproError as `SymbolicProgram.specialize` and `compile`."""
        return self.at_sizes(sizes)

    def at_sizes(self, sizes: Mapping[str, int]) -> Executable:
        """As `at`, of a mapping."""
        executable: Executable = self._executables(sizes)
        return executable

    def of(self, inputs: Sequence[Any]) -> Executable:
        """The executable of the sizes of inputs. ReproError as `SymbolicProgram.sizes_of` and `at`."""
        return self.at_sizes(self.program.sizes_of(inputs))

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step at the sizes of the inputs; see `Executable`.

        Raises:
          ReproError: as `of`, and as a call of an executable.
          StepFailed: a check of the program failed; the state is unchanged.
        """
        return self.of(inputs)(state, *inputs)
