# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs of TensorFlow's functions and SavedModels. Captures need TensorFlow, this module does not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from repro_mlir.base.errors import ReproError
from repro_mlir.program import Program, program_of
from repro_mlir.program.imported import ImportedProgram

if TYPE_CHECKING:
    from repro_mlir.frontends.tensorflow.bindings import Captured


def capture(function: Callable[..., Any], *arguments: Any) -> Program:
    """The program of `function(*arguments)`, without ties to the variables; see `import_function`."""
    return program_of(import_function(function, *arguments))


def import_function(function: Callable[..., Any], *arguments: Any) -> ImportedProgram[Captured]:
    """Captures `function(*arguments)`.

    The variables that the function reads or assigns are the state, by their names without `:0`, in the order of their
    first use; one whose name another one has got too has a number behind it: `Variable_1`. Other tensors that it reads
    are constants of the program. It is traced anew, whatever it has been traced for.

    Args:
      function: a function of tensors that XLA compiles, plain or of tf.function, without effects but assignments.
      arguments: nests of tensors, of TensorFlow or NumPy, or of `tf.TensorSpec`s; their values do not count. Variables
        are none of them, and Python's numbers neither: bind those by functools.partial.
    Returns:
      the program. A tensor has the name of the argument, or of `output`, and its path in it: `batch.image`.
    Raises:
      ReproError: TensorFlow is not installed; what cannot be captured, with the line and the node, see the message.
    """
    try:
        from repro_mlir.frontends.tensorflow.tracing import capture_function
    except ImportError as error:
        raise _missing(error) from None
    return capture_function(function, arguments)


def load(
    path: str | os.PathLike[str], *, signature: str | None = None, sizes: Mapping[str, int] | None = None
) -> Program:
    """The program of a SavedModel; see `import_saved_model`."""
    return program_of(import_saved_model(path, signature=signature, sizes=sizes))


def import_saved_model(
    path: str | os.PathLike[str], *, signature: str | None = None, sizes: Mapping[str, int] | None = None
) -> ImportedProgram[Captured]:
    """Captures a signature of a SavedModel. TensorFlow reads it: give none that you do not trust.

    The variables are the state, as of `import_function`; inputs, ordered by name, and outputs have the names of the
    signature.

    Args:
      path: the directory.
      signature: its name; by default `serving_default`, or the only one.
      sizes: for each dimension that the signature leaves open, as `<input>.<dimension>`, its size: `{"x.0": 32}`.
    Raises:
      ReproError: TensorFlow is not installed or cannot read the model; a signature or a size that is not there; what
        cannot be captured, with the node, see the message.
    """
    try:
        from repro_mlir.frontends.tensorflow.saved_model import capture_saved_model
    except ImportError as error:
        raise _missing(error) from None
    return capture_saved_model(os.fspath(path), signature, dict(sizes or {}))


def _missing(error: ImportError) -> ReproError:
    return ReproError(f"programs of TensorFlow need it: pip install tensorflow-cpu 'repro-mlir[jax]' ({error})")
