# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps canonical programs onto machines of many cores."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from typing import Any

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.base.printing import printable
from repro_mlir.compilation.cache import cached_code
from repro_mlir.compilation.cpu import module_of, native_level
from repro_mlir.sandbox import compile_cores, describe_cores


@dataclass(frozen=True)
class Machine:
    """A machine of many cores. Its file is read once, so all that is made for the machine has the same numbers.

    Attributes:
      name: the name of the machine or the path of its file, as one printable line.
      text: the complete description as JSON.
    """

    name: str
    text: str

    @property
    def described(self) -> str:
        """The name and the text, in the form that the compiler reads."""
        return f"{self.name}\n{self.text}"

    def number(self, section: str, key: str) -> int | float:
        """Returns a number of the description."""
        found: int | float = json.loads(self.text)[section][key]["value"]
        return found


def read_machine(name: str) -> Machine:
    """Returns the machine with the given name of `machines()`, or the machine that a file describes
    (docs/contributors/machines.md), whose path ends in .json. Raises ReproError if there is no such machine."""
    try:
        path = os.fsencode(name)
        return Machine(printable(path.decode(errors="backslashreplace")), _repro.many_core_text(path))
    except ValueError as error:
        raise ReproError(printable(str(error))) from None


def machines() -> list[str]:
    """Returns the names of the machines of many cores."""
    return _repro.many_core_machines().split(", ")


def has_dram(machine: str) -> bool:
    """Whether a machine, of `machines()`, has a memory outside of its cores, in which a plan keeps tensors."""
    return bool(json.loads(read_machine(machine).text)["dram"]["channels"])


def compile(
    program: bytes | str, machine: Machine, level: str, *, jobs: int | None = None, timing: bool = False
) -> bytes:
    """Maps a canonical program onto a machine.

    Args:
        program: as for `cpu.module_of`.
        level: the CPU level of the kernels' code, as for `cpu.compile`, or "thumbv7em" for a Cortex-M4F. Only the
            code, its sizes and its numbers of work items depend on it.
        jobs: the number of compiler threads, by default one per processor. The plan does not depend on it.
        timing: whether to print the time of each pass to stderr.

    Returns:
        The core plan, whose format is described in docs/reference/core-plan.md.

    Raises:
        CompileError: the program does not fit the machine, or the compilation fails; the message is the first error of
            the compiler.
    """
    module = module_of(program)
    try:
        return _repro.compile_cores(module, machine.described, level, jobs or os.cpu_count() or 1, timing)
    except ValueError as error:
        raise CompileError(str(error)) from None


def describe(program: bytes | str, machine: Machine) -> str:
    """Maps a canonical program onto a machine, without making the programs of the cores.

    Args:
        program, machine: as for `compile`.

    Returns:
        A description of the mapping as JSON (docs/guides/many-cores.md). If the smallest tile of an operation does not
        fit into the data memory of a core, an object with the key "overflow", whose value states this.

    Raises:
        CompileError: as `compile`, except that the code of the kernels is not compiled.
    """
    module = module_of(program)
    try:
        return _repro.describe_cores(module, machine.described)
    except ValueError as error:
        raise CompileError(str(error)) from None


def cached_compile(program: bytes, machine: Machine, *, untrusted: bool = False) -> bytes:
    """Compiles like `compile` for this processor, or returns the core plan from the cache.

    Args:
      program: a stored canonical program.
      untrusted: whether to compile in a child process with limits (see sandbox/), as for untrusted programs.
    """

    def make() -> bytes:
        if untrusted:
            return compile_cores(program, machine.name, machine.text, native_level())
        return compile(program, machine, native_level())

    # The plan contains the text of the machine, but not its name.
    return cached_code(program, f"cores {native_level()} {machine.text}", make)


def make_description(program: bytes, machine: Machine, *, untrusted: bool = False) -> bytes:
    """Describes like `describe`. The arguments are those of `cached_compile`."""
    if untrusted:
        return describe_cores(program, machine.name, machine.text)
    return describe(program, machine).encode()


def cached_description(program: bytes, machine: Machine, *, untrusted: bool = False) -> dict[str, Any]:
    """Describes like `make_description`, or returns the description from the cache."""
    target = f"mapping {machine.described}"
    make = functools.partial(make_description, program, machine, untrusted=untrusted)
    found: dict[str, Any] = json.loads(cached_code(program, target, make))
    return found
