# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps canonical programs onto machines of many cores."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.compilation.cache import cached_code
from repro_mlir.compilation.cpu import module_of, native_level
from repro_mlir.sandbox import compile_cores, describe_cores


def machines() -> list[str]:
    """Returns the names of the machines of many cores."""
    return _repro.many_core_machines().split(", ")


def has_dram(machine: str) -> bool:
    """Whether a machine, of `machines()`, has a memory outside of its cores, in which a plan keeps tensors."""
    return bool(json.loads(_repro.many_core_text(machine))["dram"]["channels"])


def compile(program: bytes | str, machine: str, level: str, *, jobs: int | None = None) -> bytes:
    """Maps a canonical program onto a machine.

    Args:
        program: as for `cpu.module_of`.
        machine: one of `machines()`, or the path of a machine file (docs/contributors/machines.md).
        level: the CPU level of the kernels' code, as for `cpu.compile`.
        jobs: the number of compiler threads, by default one per processor. The plan does not depend on it.

    Returns:
        The core plan, whose format is described in docs/reference/core-plan.md.

    Raises:
        CompileError: the program does not fit the machine, or the compilation fails; the message is the first error of
            the compiler.
    """
    module = module_of(program)
    try:
        return _repro.compile_cores(module, machine, level, jobs or os.cpu_count() or 1)
    except ValueError as error:
        raise CompileError(str(error)) from None


def describe(program: bytes | str, machine: str, level: str) -> str:
    """Maps a canonical program onto a machine, without making the programs of the cores.

    Args:
        program, machine, level: as for `compile`.

    Returns:
        A description of the mapping as JSON (docs/guides/many-cores.md).

    Raises:
        CompileError: as `compile`, except that the code of the kernels is not compiled.
    """
    module = module_of(program)
    try:
        return _repro.describe_cores(module, machine, level)
    except ValueError as error:
        raise CompileError(str(error)) from None


def cached_compile(program: bytes, machine: str, *, untrusted: bool = False) -> bytes:
    """Compiles like `compile` for this processor, or returns the core plan from the cache.

    Args:
      program: a stored canonical program.
      untrusted: whether to compile in a child process with limits (see sandbox/), as for untrusted programs.
    Raises:
      ReproError: there is no such machine.
    """
    level, text = native_level(), machine_text(machine)
    make = compile_cores if untrusted else compile
    # The plan depends on each number of the machine, which is more than its name if it is a file.
    return cached_code(program, f"cores {level} {text}", lambda: make(program, machine, level))


def native_description(program: bytes, machine: str, *, untrusted: bool = False) -> bytes:
    """Describes like `describe` for this processor. The arguments are those of `cached_compile`."""
    if untrusted:
        return describe_cores(program, machine, native_level())
    return describe(program, machine, native_level()).encode()


def cached_description(program: bytes, machine: str, *, untrusted: bool = False) -> dict[str, Any]:
    """Describes like `native_description`, or returns the description from the cache. Raises ReproError if there is no
    such machine."""
    target = f"mapping {native_level()} {machine} {machine_text(machine)}"
    make = functools.partial(native_description, program, machine, untrusted=untrusted)
    found: dict[str, Any] = json.loads(cached_code(program, target, make))
    return found


def machine_text(machine: str) -> str:
    """Returns the complete description of a machine, whose name or file is given, as JSON. Raises ReproError if there
    is no such machine."""
    try:
        return _repro.many_core_text(machine)
    except ValueError as error:
        raise ReproError(str(error)) from None
