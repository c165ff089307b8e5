# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The verdicts of both implementations of the checks that a stored program is canonical."""

from __future__ import annotations

from repro_mlir import ir
from repro_mlir.base.errors import ProgramError, ReproError
from repro_mlir.program.canonical import read_module
from repro_mlir.reference.canonical.program import check_canonical
from repro_mlir.reference.stored import read_program


def verdict(data: bytes) -> str | None:
    """Returns the reason why the checks in Python refuse a program; None if they accept it."""
    try:
        check_canonical(read_program(data))
    except ProgramError as error:
        return str(error)
    return None


def verdict_of_compiler(data: bytes) -> str | None:
    """Returns the reason why the compiler refuses a program; None if it accepts the program."""
    with ir.Context():
        try:
            read_module(data)
        except ReproError as error:
            return str(error)
    return None
