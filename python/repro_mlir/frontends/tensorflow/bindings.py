# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Binds a captured program to TensorFlow's variables and to the nests of arguments and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.stablehlo.arrays import checked
from repro_mlir.frontends.stablehlo.errors import CaptureError


def paths_of(nest: Any, root: str) -> Iterator[tuple[str, Any]]:
    """Yields pairs of a name, such as `batch.image`, and the leaf with this name, in the order of `tf.nest.flatten`."""
    if isinstance(nest, Mapping):
        # TensorFlow also flattens an OrderedDict in key order.
        children = [(key, nest[key]) for key in sorted(nest)]
    elif isinstance(nest, tuple) and hasattr(nest, "_fields"):
        children = list(zip(nest._fields, nest, strict=True))
    elif isinstance(nest, list | tuple):
        children = list(enumerate(nest))
    else:
        yield root, nest
        return
    for key, child in children:
        yield from paths_of(child, f"{root}.{key}" if root else str(key))


def array_of(leaf: Any, kind: TensorType) -> np.ndarray:
    """Converts a tensor to an array of the type `kind`. Raises CaptureError if it has another shape or element type."""
    return checked(np.asarray(leaf), kind)


@dataclass(frozen=True)
class TensorFlowBindings:
    """The bindings of a captured program (`program.imported.Bindings`).

    Attributes:
      state: the tensors of the state.
      inputs: the tensors of the arguments.
      outputs: the tensors of the results.
      variables: the variable for each state tensor.
    """

    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    variables: tuple[tf.Variable, ...]
    _arguments: Any = field(repr=False)
    _results: Any = field(repr=False)

    def hyper_parameters(self) -> Sequence[Any]:
        """Returns no hyper-parameters: a value that changes between steps is an argument or a variable."""
        return ()

    def flatten_batch(self, batch: Any) -> Sequence[np.ndarray]:
        """Returns the tensors of the arguments (`batch` is their tuple), in the order of the inputs.

        Raises:
          CaptureError: the structure, shapes or element types differ from those of the captured arguments.
        """
        given = tuple(batch)
        try:
            tf.nest.assert_same_structure(self._arguments, given)
        except (TypeError, ValueError) as error:
            raise CaptureError(
                f"the structure of the arguments differs from that of the captured ones: {str(error).splitlines()[0]}"
            ) from None
        return [array_of(leaf, kind) for leaf, kind in zip(tf.nest.flatten(given), self.inputs, strict=True)]

    def flatten_state(self) -> dict[str, np.ndarray]:
        """Returns copies of the variables' values as arrays keyed by name. A compiled step updates these arrays in
        place."""
        return {
            kind.name: np.array(array_of(variable, kind))
            for variable, kind in zip(self.variables, self.state, strict=True)
        }

    def write_state(self, values: Sequence[Any]) -> None:
        """Assigns one array per state tensor to the variables; on an error, assigns none.

        Raises:
          CaptureError: the number of arrays, a shape or an element type differs.
        """
        if len(values) != len(self.state):
            raise CaptureError(f"expected {len(self.state)} state tensors, got {len(values)}")
        typed = [
            _typed(value, kind, variable.dtype)
            for value, kind, variable in zip(values, self.state, self.variables, strict=True)
        ]
        for variable, value in zip(self.variables, typed, strict=True):
            variable.assign(value)

    def outputs_of(self, values: Mapping[str, np.ndarray]) -> Any:
        """Converts the outputs, keyed by name, to TensorFlow tensors in the nest of the function's results."""
        flat = iter(self.outputs)
        leaves = [
            spec if spec is None else _tensor(values, next(flat), spec.dtype) for spec in tf.nest.flatten(self._results)
        ]
        return tf.nest.pack_sequence_as(self._results, leaves)


def _tensor(values: Mapping[str, np.ndarray], kind: TensorType, dtype: tf.DType) -> tf.Tensor:
    return tf.constant(_typed(values[kind.name], kind, dtype))


def _typed(value: Any, kind: TensorType, dtype: tf.DType) -> np.ndarray:
    array = np.asarray(value)
    if (array.dtype, array.shape) != (kind.dtype, kind.shape):
        raise CaptureError(f"{kind.name} has shape {list(array.shape)} of {array.dtype}, expected {kind}")
    return array.view(dtype.as_numpy_dtype)
