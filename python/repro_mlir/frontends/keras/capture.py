# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures functions that read and write Keras variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.frontends.base.tried_versions import warn_if_untried
from repro_mlir.frontends.keras.backends import backend
from repro_mlir.frontends.keras.scope import Scope
from repro_mlir.program.imported import ImportedProgram

warn_if_untried("keras")


@dataclass(frozen=True, eq=False)
class Imported:
    """A captured function.

    Attributes:
      program: the program, whose state is the variables.
      names: the names of the variables in the program, in the order in which they were passed.
    """

    program: ImportedProgram[Any]
    names: tuple[str, ...]
    _outputs: Any = field(repr=False)

    def read_inputs(self, arguments: Mapping[str, Any]) -> list[np.ndarray]:
        """Converts the arguments to the inputs of a step. Raises ReproError if they differ from the captured ones."""
        return backend().read_inputs(self.program, _leaves("batch", arguments))

    def outputs_of(self, values: Mapping[str, np.ndarray]) -> Any:
        """Returns the function's results in their structure, as NumPy arrays; `values` maps names to outputs."""
        return _replaced("output", self._outputs, values)


def import_function(
    function: Callable[..., Any],
    state: Sequence[tuple[Any, Any]],
    arguments: Mapping[str, Any],
    seed: int | None = None,
) -> Imported:
    """Captures `function(scope, **arguments)`.

    Args:
      function: reads and writes only the variables in `state`, and returns tensors in tuples, lists and dicts. Its
        first argument is the `Scope` in which it runs; it can call the scope's method `gradients`.
      state: pairs of a variable and its value; each variable occurs once.
      arguments: tensors of the backend or arrays, in tuples, lists and dicts; None stays None.
      seed: the initial seed of the random numbers on PyTorch, 0 by default; on JAX it must be None.
    Raises:
      ReproError: the function cannot be captured.
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
        # Keeps only the structure of the results: the leaves are traced tensors.
        outputs[:] = [keras.tree.map_structure(lambda _: 0, results)]
        return new, _leaves("output", results)

    initial = {name: value for name, (_, value) in zip(names, state, strict=True)}
    inputs = {name: keras.ops.convert_to_tensor(leaf) for name, leaf in _leaves("batch", arguments).items()}
    program = backend().import_function(pure, initial, inputs, seed)
    return Imported(program, tuple(names), outputs[0])


def _leaves(root: str, tree: Any) -> dict[str, Any]:
    """Returns the leaves of a tree except None, keyed by `root` and the path to the leaf."""
    pairs = keras.tree.flatten_with_path(tree)
    return {".".join([root, *map(str, path)]): leaf for path, leaf in pairs if leaf is not None}


def _replaced(root: str, tree: Any, leaves: Mapping[str, Any]) -> Any:
    """Replaces each leaf of the tree by the value of its path in `leaves`, or by None if `leaves` lacks the path."""
    paths = [".".join([root, *map(str, path)]) for path, _ in keras.tree.flatten_with_path(tree)]
    return keras.tree.pack_sequence_as(tree, [leaves.get(path) for path in paths])


def _unique(names: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    found = []
    for name in names:
        counts[name] = counts.get(name, -1) + 1
        found.append(f"{name}#{counts[name]}" if counts[name] else name)
    return found
