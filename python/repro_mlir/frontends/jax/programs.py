# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs of pure JAX functions. Captures need JAX, this module does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program, program_of
from repro_mlir.program.imported import ImportedProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.jax.bindings import Captured


def capture(function: Callable[..., Any], *arguments: Any, state: int = 0) -> Program:
    """The program of `function(*arguments)`, without ties to the pytrees; see `import_function`."""
    return program_of(import_function(function, *arguments, state=state))


def import_function(function: Callable[..., Any], *arguments: Any, state: int = 0) -> ImportedProgram[Captured]:
    """Captures `function(*arguments)`.

    Args:
      function: a pure function that JAX can trace; one of jax.jit is traced again.
      arguments: pytrees of arrays: JAX's, NumPy's, or numbers. Their values count for the initial state alone.
      state: how many of the leading arguments are state. The function then gives a tuple that begins with their new
        values, each of the structure, shapes and element types that the argument has; the state of a step is that of
        the step before. 0: there is none, and all results are outputs.
    Returns:
      the program. A tensor has the name of the argument, or of the result, and its path in it: `params.dense.kernel`.
    Raises:
      ReproError: JAX is not installed; what cannot be captured, see the message.
    """
    try:
        from repro_mlir.frontends.jax.functions import capture_function
    except ImportError as error:
        raise ReproError(f"functions of JAX need it: pip install 'repro-mlir[jax]' ({error})") from None
    return capture_function(function, arguments, state)
