# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Binds a captured program to the pytrees of the user's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.stablehlo.arrays import checked
from repro_mlir.frontends.stablehlo.errors import CaptureError


def names_of(tree: Any, root: str) -> list[str]:
    """Returns a name for each leaf: its path from the root, such as `state.params.dense.kernel`."""
    return [
        ".".join(filter(None, [root, jax.tree_util.keystr(path, simple=True, separator=".")]))
        for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]


@float_environment()
def array_of(leaf: Any, kind: TensorType) -> np.ndarray:
    """Converts a leaf to an array of the type `kind`. Raises CaptureError if it has another shape or element type."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    # Like JAX itself, converts 64-bit types to 32 bits unless jax_enable_x64 is set.
    array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
    return checked(array, kind)


@dataclass(frozen=True)
class JaxBindings:
    """The bindings of a captured program (`program.imported.Bindings`).

    JAX's arrays are immutable, so `state_of` creates new pytrees from the state of a step.

    Attributes:
      state: the tensors of the state.
      inputs: the tensors of the other arguments.
      outputs: the tensors of the other results.
    """

    state: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    _trees: tuple[Any, Any, Any] = field(repr=False)
    _dtypes: tuple[list[np.dtype[Any]], list[np.dtype[Any]]] = field(repr=False)

    def hyper_parameters(self) -> Sequence[Any]:
        """Returns no hyper-parameters: a value that changes between steps is an argument or part of the state."""
        return ()

    def flatten_batch(self, batch: Any) -> Sequence[np.ndarray]:
        """Returns the leaves of `batch`, the tuple of the arguments after the state, as arrays in input order.

        Raises:
          CaptureError: the structure, shapes or element types differ from those of the captured arguments.
        """
        leaves, tree = jax.tree.flatten(tuple(batch))
        if tree != self._trees[1]:
            raise CaptureError(f"the arguments have the structure {tree}, expected {self._trees[1]}")
        return [array_of(leaf, kind) for leaf, kind in zip(leaves, self.inputs, strict=True)]

    def flatten_state(self, *state: Any) -> dict[str, np.ndarray]:
        """Returns copies of the leading arguments (`state`) as arrays, keyed by the names of the state tensors. A
        compiled step updates these arrays in place.

        Raises:
          CaptureError: as `flatten_batch`.
        """
        leaves, tree = jax.tree.flatten(state)
        if tree != self._trees[0]:
            raise CaptureError(f"the state has the structure {tree}, expected {self._trees[0]}")
        return {kind.name: np.array(array_of(leaf, kind)) for leaf, kind in zip(leaves, self.state, strict=True)}

    def state_of(self, values: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
        """Converts a state, keyed by name, to the pytrees of the leading arguments. The arrays in the pytrees are
        copies."""
        arrays = [_typed(values[kind.name], dtype) for kind, dtype in zip(self.state, self._dtypes[0], strict=True)]
        return tuple(jax.tree.unflatten(self._trees[0], arrays))

    def outputs_of(self, values: Mapping[str, np.ndarray]) -> Any:
        """Converts the outputs, keyed by name, to the pytree of the results that follow the state."""
        arrays = [_typed(values[kind.name], dtype) for kind, dtype in zip(self.outputs, self._dtypes[1], strict=True)]
        return jax.tree.unflatten(self._trees[2], arrays)

    def write_state(self, values: Sequence[Any]) -> None:
        """Raises CaptureError, because JAX's arrays are immutable."""
        raise CaptureError("JAX arrays are immutable: call state_of, which returns the new state")


def _typed(array: np.ndarray, dtype: Any) -> Any:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jax.numpy.array(array.view(np.uint32)), impl=dtype._impl.name)
    return jax.numpy.array(array.view(dtype))
