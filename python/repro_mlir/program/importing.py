# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Passes on imported programs, as a frontend hands them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ReproError
from ..numerics.environment import float_environment

T = TypeVar("T")


@float_environment()
def run_import_passes(text: str, passes: str, stage: str, read: Callable[[Any], T]) -> T:
    """What `read` makes of an imported module after some passes.

    Args:
      text: MLIR text that keeps the contract of imported linalg (docs/architecture.md).
      passes: as repro-opt names them, with commas between.
      stage: the name of the passes where they are dumped (debugging.py).
      read: takes the module, in its context.
    Raises:
      ReproError: the first diagnostic of the compiler, and how to repeat it.
    """
    from .. import ir, passmanager
    from . import debugging

    pipeline = f"builtin.module({passes})"
    errors: list[str] = []

    def collect(diagnostic: Any) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            errors.append(f"{diagnostic.location}: {diagnostic.message}".removeprefix("loc(").replace("): ", ": ", 1))
        return True

    context = ir.Context()
    with context:
        # Frontends may hand over operations of dialects that are not ours, for the import to read (tm_tensor).
        context.allow_unregistered_dialects = True
        context.emit_error_diagnostics = True
        context.attach_diagnostic_handler(collect)
        try:
            module = ir.Module.parse(text)
            manager = passmanager.PassManager.parse(pipeline)
            debugging.dump_after_passes(manager, stage)
            manager.run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            reason = (errors or [str(error)])[0].splitlines()[0]
            repeat = debugging.how_to_repeat(text, pipeline, ["--allow-unregistered-dialect"])
            raise ReproError(f"cannot {stage} the program: {reason}{repeat}") from None
        return read(module)
