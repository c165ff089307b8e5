# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs of pure JAX functions. Capturing needs JAX; importing this module does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program, program_of
from repro_mlir.program.imported import ImportedProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.jax.bindings import JaxBindings


def capture(function: Callable[..., Any], *arguments: Any, state: int = 0) -> Program:
    """Returns the program of `function(*arguments)` without bindings to the pytrees; see `import_function`."""
    return program_of(import_function(function, *arguments, state=state))


def import_function(function: Callable[..., Any], *arguments: Any, state: int = 0) -> ImportedProgram[JaxBindings]:
    """Captures `function(*arguments)`.

    Args:
      function: a pure function that JAX can trace; a function from jax.jit is traced again.
      arguments: pytrees of JAX or NumPy arrays or numbers. The values of state arguments become the initial state;
        other values do not matter.
      state: the number of leading arguments that are state. The function then returns a tuple that starts with their
        new values, each with the structure, shapes and element types of the argument; each step starts from the state
        of the step before. With 0, the program has no state, and all results are outputs.
    Returns:
      the program. A tensor's name consists of the name of the argument or result and the path of the leaf:
        `params.dense.kernel`.
    Raises:
      ReproError: JAX is not installed, or the function cannot be captured.
    """
    try:
        from repro_mlir.frontends.jax.functions import capture_function
    except ImportError as error:
        raise ReproError(f"importing JAX functions requires JAX: {install_extra('jax')} ({error})") from None
    return capture_function(function, arguments, state)
