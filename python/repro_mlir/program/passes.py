# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs passes on a module and collects compiler errors as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError

if TYPE_CHECKING:
    from repro_mlir import ir


def collect_errors(context: ir.Context) -> list[str]:
    """Returns a list that collects later compiler errors in a context, one line each, with the location first."""
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
    """Runs passes, given as comma-separated pass names of repro-opt.

    Raises:
      ReproError: a pass fails; the message is `refused` and the first error of the compiler.
    """
    from repro_mlir import ir, passmanager

    errors = collect_errors(module.context)
    try:
        passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except ir.MLIRError as error:
        raise ReproError(f"{refused}: {(errors or str(error).splitlines())[0]}") from None
