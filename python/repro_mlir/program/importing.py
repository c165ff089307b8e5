# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs passes on programs from frontends or files that are not canonical yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.program.passes import collect_errors

if TYPE_CHECKING:
    from repro_mlir import ir

T = TypeVar("T")

IMPORT = "import-linalg,canonical"
"""The passes that make imported linalg with static shapes canonical."""


@float_environment()
def run_prepared_passes(
    source: str | bytes, prepare: Callable[[ir.Module], str], stage: str, read: Callable[[ir.Module], T]
) -> T:
    """Runs passes on a module and returns the result of `read` for it.

    Args:
      source: MLIR text or bytecode.
      prepare: a function of the module, which it may change; returns the comma-separated names of the passes to run.
      stage: the name of the passes in dumps (debugging.py).
      read: a function of the module after the passes, which is called in the module's MLIR context.
    Raises:
      ReproError: the compiler reports an error; the message is the first diagnostic, preceded by its location.
    """
    from repro_mlir import ir, passmanager
    from repro_mlir.program import debugging

    context = ir.Context()
    with context, ir.Location.unknown():
        # Frontends may return operations of dialects that are not registered here, such as tm_tensor; the import passes
        # read them.
        context.allow_unregistered_dialects = True
        errors = collect_errors(context)
        try:
            module = ir.Module.parse(source)
            manager = passmanager.PassManager.parse(f"builtin.module({prepare(module)})")
            debugging.dump_after_passes(manager, stage)
            manager.run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            raise ReproError((errors or [str(error)])[0].splitlines()[0]) from None
        return read(module)


_DEPENDS_ON_VALUES = "the number of iterations depends on values"
"""The error of repro-unroll-loops for a loop in the user's model, which is not a compiler error to reproduce."""


def run_passes_on_text(text: str, passes: str, stage: str, read: Callable[[ir.Module], T]) -> T:
    """Runs passes on text from a frontend, as `run_prepared_passes` does. An error message also states how to reproduce
    the error."""
    from repro_mlir.program import debugging

    try:
        return run_prepared_passes(text, lambda _: passes, stage, read)
    except ReproError as error:
        if _DEPENDS_ON_VALUES in str(error):
            raise ReproError(f"cannot {stage} the program: {error}: expected one that follows from constants") from None
        repeat = debugging.how_to_repeat(text, f"builtin.module({passes})", ["--allow-unregistered-dialect"])
        raise ReproError(f"cannot {stage} the program: {error}{repeat}") from None
