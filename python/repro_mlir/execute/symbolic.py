# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles programs with symbolic extents for a target, once per combination of sizes that is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from repro_mlir.base.threads import check_threads
from repro_mlir.execute.executable import Compiled, Executable, check_target, compile
from repro_mlir.program import PerSize, SymbolicProgram


class SymbolicExecutable(Compiled):
    """A program with symbolic extents that is ready to run: each combination of sizes is compiled at its first use.

    The executables of the 32 most recently used combinations stay in memory; the compilation cache on disk has the
    others.

    Attributes:
      target: the target that was passed to `compile`.
      threads: the number of threads of a step.
    """

    program: SymbolicProgram
    target: str
    threads: int

    def __init__(self, program: SymbolicProgram, target: str, threads: int | None) -> None:
        """Raises ReproError for a wrong target or number of threads, as `compile` does."""
        check_target(target)
        self.program = program
        self.target = target
        self.threads = check_threads(threads)
        self._executables = PerSize(program, lambda each: compile(each, target, self.threads))

    def at(self, **sizes: int) -> Executable:
        """Returns the executable for one size per symbol. Raises ReproError as `SymbolicProgram.specialize` and
        `compile` do."""
        return self.at_sizes(sizes)

    def at_sizes(self, sizes: Mapping[str, int]) -> Executable:
        """Like `at`, with the sizes in a mapping."""
        executable: Executable = self._executables(sizes)
        return executable

    def of(self, inputs: Sequence[Any]) -> Executable:
        """Returns the executable for the sizes of these inputs. Raises ReproError as `SymbolicProgram.sizes_of` and
        `at` do."""
        return self.at_sizes(self.program.sizes_of(inputs))

    def __call__(self, state: Mapping[str, Any], *inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Runs one step at the sizes of the inputs; see `Executable`.

        Raises:
          ReproError: see `of` and `Executable.__call__`.
          StepFailed: a check of the program failed; the state is unchanged.
        """
        return self.of(inputs)(state, *inputs)
