# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Capture of functions that read and write Keras' variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.frontends.keras.backends import backend
from repro_mlir.frontends.keras.scope import Scope
from repro_mlir.program.imported import ImportedProgram


@dataclass(frozen=True, eq=False)
class Imported:
    """A captured function.

    Attributes:
      program: its state are the variables.
      names: of the variables in it, in the order in which they were given.
    """

    program: ImportedProgram[Any]
    names: tuple[str, ...]
    _outputs: Any = field(repr=False)

    def read_inputs(self, arguments: Mapping[str, Any]) -> list[np.ndarray]:
        """The arguments as the inputs of a step. ReproError for others than were captured."""
        return backend().read_inputs(self.program, _leaves("batch", arguments))

    def outputs_of(self, values: Mapping[str, np.ndarray]) -> Any:
        """The outputs by name as what the function gives, with arrays of NumPy."""
        return _replaced("output", self._outputs, values)


def import_function(
    function: Callable[..., Any],
    state: Sequence[tuple[Any, Any]],
    arguments: Mapping[str, Any],
    seed: int | None = None,
) -> Imported:
    """Captures `function(scope, **arguments)`.

    Args:
      function: reads and writes variables, those given alone, and gives tensors in tuples, lists and dicts. Its first
        argument is the scope that it runs in, which has `gradients`.
      state: the variables, each once, with their values.
      arguments: tensors of the backend or arrays, in tuples, lists and dicts; None stands for itself.
      seed: on PyTorch the initial seed of the random numbers, 0 by default; on JAX there is none.
    Raises:
      ReproError: what cannot be captured, see the message.
    """
    require_default_environment()
    variables = [variable for variable, _ in state]
    names = _unique([f"variables.{variable.path}" for variable in variables])
    outputs: list[Any] = []

    def pure(values: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        given = _replaced("batch", arguments, inputs)
        with Scope((variable, values[name]) for name, variable in zip(names, variables, strict=True)) as scope:
            results = keras.tree.map_structure(keras.ops.convert_to_tensor, function(scope, **given))
            new = {name: scope.get_current_value(each) for name, each in zip(names, variables, strict=True)}
        # Of the structure alone.
        outputs[:] = [keras.tree.map_structure(lambda _: 0, results)]
        return new, _leaves("output", results)

    initial = {name: value for name, (_, value) in zip(names, state, strict=True)}
    inputs = {name: keras.ops.convert_to_tensor(leaf) for name, leaf in _leaves("batch", arguments).items()}
    program = backend().import_function(pure, initial, inputs, seed)
    return Imported(program, tuple(names), outputs[0])


def _leaves(root: str, tree: Any) -> dict[str, Any]:
    """The leaves of a tree but None, by their paths."""
    pairs = keras.tree.flatten_with_path(tree)
    return {".".join([root, *map(str, path)]): leaf for path, leaf in pairs if leaf is not None}


def _replaced(root: str, tree: Any, leaves: Mapping[str, Any]) -> Any:
    """The tree with other leaves, by their paths; None where there is none."""
    paths = [".".join([root, *map(str, path)]) for path, _ in keras.tree.flatten_with_path(tree)]
    return keras.tree.pack_sequence_as(tree, [leaves.get(path) for path in paths])


def _unique(names: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    found = []
    for name in names:
        counts[name] = counts.get(name, -1) + 1
        found.append(f"{name}#{counts[name]}" if counts[name] else name)
    return found
