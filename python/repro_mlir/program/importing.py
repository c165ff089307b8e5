# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Passes on programs that are not canonical yet, as a frontend or a file hands them over."""

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
"""The passes of imported linalg of static shapes."""


@float_environment()
def run_prepared_passes(
    source: str | bytes, prepare: Callable[[ir.Module], str], stage: str, read: Callable[[ir.Module], T]
) -> T:
    """What `read` makes of a module after some passes.

    Args:
      source: text or bytecode.
      prepare: is given the module, which it may change; gives the passes for it, as repro-opt names them, with commas
        between.
      stage: the name of the passes where they are dumped (debugging.py).
      read: takes the module, in its context.
    Raises:
      ReproError: the first diagnostic of the compiler, with its location before it.
    """
    from repro_mlir import ir, passmanager
    from repro_mlir.program import debugging

    context = ir.Context()
    with context, ir.Location.unknown():
        # Frontends may hand over operations of dialects that are not ours, for the import to read (tm_tensor).
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
"""Of a loop of the user's (repro-unroll-loops): nothing is wrong with the compiler that anybody would repeat."""


def run_passes(text: str, passes: str, stage: str, read: Callable[[ir.Module], T]) -> T:
    """As `run_prepared_passes`, of text from a frontend; errors say how to repeat them."""
    from repro_mlir.program import debugging

    try:
        return run_prepared_passes(text, lambda _: passes, stage, read)
    except ReproError as error:
        if _DEPENDS_ON_VALUES in str(error):
            raise ReproError(f"cannot {stage} the program: {error}: expected one that follows from constants") from None
        repeat = debugging.how_to_repeat(text, f"builtin.module({passes})", ["--allow-unregistered-dialect"])
        raise ReproError(f"cannot {stage} the program: {error}{repeat}") from None
