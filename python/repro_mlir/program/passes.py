# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Passes on a module, and the errors of the compiler as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError

if TYPE_CHECKING:
    from repro_mlir import ir


def collect_errors(context: ir.Context) -> list[str]:
    """The errors that the compiler will find in a context, in one line each, with the location before it."""
    from repro_mlir import ir

    errors: list[str] = []

    def collect(diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            place = str(diagnostic.location).removeprefix("loc(").removesuffix(")")
            message = diagnostic.message.splitlines()[0]
            errors.append(message if place == "unknown" else f"{place}: {message}")
        return True

    context.emit_error_diagnostics = True
    context.attach_diagnostic_handler(collect)
    return errors


def run_passes(module: ir.Module, passes: str, refused: str) -> None:
    """Runs passes, as repro-opt names them, with commas between.

    Raises:
      ReproError: `refused` and the first error of the compiler.
    """
    from repro_mlir import ir, passmanager

    errors = collect_errors(module.context)
    try:
        passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except ir.MLIRError as error:
        raise ReproError(f"{refused}: {(errors or str(error).splitlines())[0]}") from None
