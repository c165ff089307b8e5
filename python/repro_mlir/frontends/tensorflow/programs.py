# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs of TensorFlow functions and SavedModels. Capturing needs TensorFlow; importing this module does not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program, program_of
from repro_mlir.program.imported import ImportedProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.tensorflow.bindings import TensorFlowBindings


def capture(function: Callable[..., Any], *arguments: Any) -> Program:
    """Returns the program of `function(*arguments)` without bindings to the variables; see `import_function`."""
    return program_of(import_function(function, *arguments))


def import_function(function: Callable[..., Any], *arguments: Any) -> ImportedProgram[TensorFlowBindings]:
    """Captures `function(*arguments)`.

    The variables that the function reads or assigns are the state, under their names without `:0`, in the order of
    their first use; a duplicate name gets a numeric suffix: `Variable_1`. Other tensors that the function reads are
    constants of the program. The function is always traced again.

    Args:
      function: a function of tensors that XLA compiles, plain or from tf.function; assignments are its only effects.
      arguments: nests of TensorFlow or NumPy tensors, or of `tf.TensorSpec`s; their values do not matter. Variables and
        Python numbers are not allowed: bind them with functools.partial.
    Returns:
      the program. A tensor's name consists of the name of the argument, or of `output` for a result, and the path of
      the leaf: `batch.image`.
    Raises:
      ReproError: TensorFlow is not installed; the function cannot be captured (the message names the line and the
        node).
    """
    try:
        from repro_mlir.frontends.tensorflow.tracing import capture_function
    except ImportError as error:
        raise _missing(error) from None
    return capture_function(function, arguments)


def load(
    path: str | os.PathLike[str], *, signature: str | None = None, sizes: Mapping[str, int] | None = None
) -> Program:
    """Returns the program of a SavedModel; see `import_saved_model`."""
    return program_of(import_saved_model(path, signature=signature, sizes=sizes))


def import_saved_model(
    path: str | os.PathLike[str], *, signature: str | None = None, sizes: Mapping[str, int] | None = None
) -> ImportedProgram[TensorFlowBindings]:
    """Captures a signature of a SavedModel. TensorFlow reads the model, so pass only models that you trust.

    The variables are the state, as in `import_function`; inputs, ordered by name, and outputs have the signature's
    names.

    Args:
      path: the directory.
      signature: the name of the signature; by default `serving_default`, or the only one.
      sizes: the extents of the signature's open dimensions, keyed by `<input>.<dimension>`: `{"x.0": 32}`.
    Raises:
      ReproError: TensorFlow is not installed or cannot read the model; a signature or an extent is missing; the model
        cannot be captured (the message names the node).
    """
    try:
        from repro_mlir.frontends.tensorflow.saved_model import capture_saved_model
    except ImportError as error:
        raise _missing(error) from None
    return capture_saved_model(os.fspath(path), signature, dict(sizes or {}))


def _missing(error: ImportError) -> ReproError:
    install = f"pip install tensorflow-cpu, and {install_extra('jax')}"
    return ReproError(f"TensorFlow programs require tensorflow-cpu and JAX: {install} ({error})")
