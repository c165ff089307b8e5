# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs: a canonical module with its signature and initial state, and the transformations of programs."""

from repro_mlir.program.program import Program, canonicalize, import_program, program_of, read_signature, read_untrusted
from repro_mlir.program.symbolic import PerSize, SymbolicProgram, symbolic_program_of

__all__ = [
    "PerSize",
    "Program",
    "SymbolicProgram",
    "canonicalize",
    "import_program",
    "program_of",
    "read_signature",
    "read_untrusted",
    "symbolic_program_of",
]
