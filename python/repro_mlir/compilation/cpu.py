# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles a canonical program to an artifact for CPUs."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from repro_mlir import ir
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.program.canonical import read_module


def levels() -> list[str]:
    """Returns the names of the CPU levels. The results of a program have the same bits on all of them."""
    return _repro.cpu_levels().split(", ")


def runnable_levels() -> list[str]:
    """Returns the names of the CPU levels that this machine runs without an emulator."""
    return list(_repro.runnable_cpu_levels())


def native_level() -> str:
    """Returns the highest CPU level that this machine runs."""
    return _repro.cpu_host_level()


def module_of(program: bytes | str) -> ir.Module:
    """Reads a canonical program into an MLIR module.

    Args:
        program: the stored program (docs/verification/identity.md), or its MLIR text.

    Raises:
        CompileError: the data is not such a program.
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
        level: one of `levels()`, "native", or the path of a machine file (docs/contributors/machines.md).
        jobs: the number of compiler threads, by default one per processor. The artifact does not depend on it.
        timing: whether to print the time of each pass to stderr.

    Returns:
        The artifact, whose format is described in lib/Runtime/Artifact.h.

    Raises:
        CompileError: the compilation fails; the message is the first error of the compiler.
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
    """A description of compiled code.

    Attributes:
      plan: the bytes of the launch plan (docs/reference/plan.md).
      kernels: one line per kernel with its buffers, its operations and the source lines of these
        (`roofline.cpu.kernel_descriptions`).
      assembly: the assembly text of the kernels. A comment `runs.N.` marks a basic block that runs N times if one call
        of the kernel processes all work items.
    """

    plan: bytes
    kernels: str
    assembly: str

    def to_bytes(self) -> bytes:
        """Encodes the analysis for `from_bytes`."""
        kernels, assembly = self.kernels.encode(), self.assembly.encode()
        return _LENGTHS.pack(len(self.plan), len(kernels)) + self.plan + kernels + assembly

    @staticmethod
    def from_bytes(data: bytes) -> Analysis:
        """Decodes bytes that `to_bytes` has returned."""
        plan, kernels = _LENGTHS.unpack_from(data)
        begin, end = _LENGTHS.size + plan, _LENGTHS.size + plan + kernels
        return Analysis(data[_LENGTHS.size : begin], data[begin:end].decode(), data[end:].decode())


def analyze(program: bytes | str, level: str) -> Analysis:
    """Returns a description of the code that `compile` generates.

    Args:
        program: as for `module_of`.
        level: one of `levels()`, even if this machine cannot run it, or the path of a machine file.

    Raises:
        CompileError: the compilation fails, or the trip count of a loop in a kernel depends on buffer data.
    """
    module = module_of(program)
    try:
        return Analysis(*_repro.analyze_cpu(module, level, os.cpu_count() or 1))
    except ValueError as error:
        raise CompileError(str(error)) from None
