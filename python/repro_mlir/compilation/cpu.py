# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""From a canonical program to an artifact."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from repro_mlir import ir
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.program.canonical import read_module


def levels() -> list[str]:
    """The names of the CPU levels; all give the same bits."""
    return _repro.cpu_levels().split(", ")


def runnable_levels() -> list[str]:
    """The names of the CPU levels that this machine runs without an emulator."""
    return list(_repro.runnable_cpu_levels())


def native_level() -> str:
    """The best level that this machine runs."""
    return _repro.cpu_host_level()


def module_of(program: bytes | str) -> ir.Module:
    """A canonical program in memory.

    Args:
        program: the program as it is stored (docs/identity.md), or its MLIR text.

    Raises:
        CompileError: any other data.
    """
    try:
        with ir.Context(), ir.Location.unknown():
            return ir.Module.parse(program) if isinstance(program, str) else read_module(program)
    except (ir.MLIRError, ReproError) as error:
        raise CompileError(str(error)) from None


def compile(program: bytes | str, level: str = "native", *, jobs: int | None = None, timing: bool = False) -> bytes:
    """Compiles a canonical program.

    Args:
        program: as for `module_of`.
        level: one of `levels()`, "native", or the path of a machine's file (docs/machines.md).
        jobs: threads to compile in; the default is one per processor. The artifact does not depend on it.
        timing: print the time of each pass to stderr.

    Returns:
        The artifact, whose format is described in lib/Runtime/Artifact.h.

    Raises:
        CompileError: the first error of the compiler.
    """
    if level == "native":
        level = native_level()
    module = module_of(program)
    try:
        return _repro.compile_cpu(module, level, jobs or os.cpu_count() or 1, timing)
    except ValueError as error:
        raise CompileError(str(error)) from None


_LENGTHS = struct.Struct("<QQ")


@dataclass(frozen=True)
class Analysis:
    """Compiled code, described.

    Attributes:
      plan: the bytes of the launch plan (docs/plan.md).
      operands: a line for each kernel with what it reads and writes.
      assembly: of the kernels. Comments name each block `runs.N.`: it runs N times in one call with all work items.
    """

    plan: bytes
    operands: str
    assembly: str

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        operands, assembly = self.operands.encode(), self.assembly.encode()
        return _LENGTHS.pack(len(self.plan), len(operands)) + self.plan + operands + assembly

    @staticmethod
    def from_bytes(data: bytes) -> Analysis:
        """What `to_bytes` wrote."""
        plan, operands = _LENGTHS.unpack_from(data)
        begin, end = _LENGTHS.size + plan, _LENGTHS.size + plan + operands
        return Analysis(data[_LENGTHS.size : begin], data[begin:end].decode(), data[end:].decode())


def analyze(program: bytes | str, level: str) -> Analysis:
    """Describes the code that `compile` makes.

    Args:
        program: as for `module_of`.
        level: one of `levels()`, whether this machine runs it or not, or the path of a machine's file.

    Raises:
        CompileError: the first error of the compiler, or a kernel whose loops end by the data of its buffers.
    """
    module = module_of(program)
    try:
        return Analysis(*_repro.analyze_cpu(module, level, os.cpu_count() or 1))
    except ValueError as error:
        raise CompileError(str(error)) from None
