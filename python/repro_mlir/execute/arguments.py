# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Converts a program's arguments to arrays, checks them, and makes NaNs canonical if a result may contain their bytes
(V4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.overlap import find_overlap
from repro_mlir.base.numerics.tensors import TensorType, is_canonical, make_canonical, require_count, start_of
from repro_mlir.base.tensors.arrays import as_array, as_arrays
from repro_mlir.program import Program


class Arguments:
    """The states and inputs of a program.

    Attributes:
      kept: the positions of the states that the program returns unchanged.
      moved: the positions of the arguments (states, then inputs) whose elements the program may copy unchanged to a
        result that is not one of the states in `kept`.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        examined = program.examined
        self.moved, self.kept = examined.moved, examined.kept

    def states(self, state: Mapping[str, Any]) -> list[np.ndarray]:
        """Returns the checked arrays of a state in the order of the program; steps update them in place."""
        if not isinstance(state, Mapping):
            raise ReproError(f"expected the state as a mapping from name to array, got a {type(state).__name__}")
        check_names(self._program.state, state)
        states = [updatable(state[kind.name], kind) for kind in self._program.state]
        require_apart([(f"state {kind.name}", array) for kind, array in zip(self._program.state, states, strict=True)])
        return states

    def kept_states(self, state: Mapping[str, Any]) -> list[np.ndarray]:
        """Like `states`, but also makes all NaNs canonical (V4). Used for arrays on which many steps run."""
        states = self.states(state)
        self.make_canonical(states, whole=True)
        return states

    def inputs(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Returns the inputs as arrays in the same memory. An input in `moved` that contains NaNs which are not
        canonical (V4) is copied, and the NaNs of the copy are made canonical."""
        kinds = self._program.inputs
        require_count(kinds, inputs)
        arrays = as_arrays(inputs, kinds, "input")
        for i, kind in enumerate(kinds):
            if i + len(self._program.state) in self.moved and not is_canonical(arrays[i], kind.element):
                arrays[i] = arrays[i].copy()
                make_canonical(arrays[i], kind.element)
        return arrays

    def make_canonical(self, states: Sequence[np.ndarray], *, whole: bool = False) -> None:
        """(V4) Makes NaNs canonical in place in the states of `moved` and, if `whole`, in those of `kept`."""
        for i, (array, kind) in enumerate(zip(states, self._program.state, strict=True)):
            if i in self.moved or (whole and i in self.kept):
                make_canonical(array, kind.element)


def check_names(kinds: Sequence[TensorType], state: Mapping[str, Any]) -> None:
    """Raises ReproError unless a state has exactly one value for each of these tensors."""
    names = [kind.name for kind in kinds]
    if len(state) != len(names) or any(name not in state for name in names):
        missing = sorted(set(names) - set(state))
        unknown = sorted(set(state) - set(names))
        raise ReproError(f"state: missing {_listed(missing)}, unknown {_listed(unknown)}")


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def updatable(value: Any, kind: TensorType, what: str = "state") -> np.ndarray:
    """Returns a tensor as an array in the same memory. Raises ReproError if a step cannot write to the tensor in
    place."""
    if isinstance(value, bool | int | float | np.generic):
        raise ReproError(f"{what} {kind.name}: expected an array, as it is updated in place, got the number {value!r}")
    array = as_array(value, kind, what)
    if not array.flags.c_contiguous:
        raise ReproError(f"{what} {kind.name}: expected a contiguous array, as it is updated in place: pass a copy")
    if not array.flags.writeable:
        raise ReproError(f"{what} {kind.name}: expected a writable array, as it is updated in place; pass a copy")
    if not array.flags.aligned:
        raise ReproError(f"{what} {kind.name}: expected an array aligned to its elements; pass a copy")
    return array


def readable(array: np.ndarray) -> np.ndarray:
    """Returns the array, or a copy if the array is not contiguous and aligned, as compiled code requires."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")


def require_apart(written: Sequence[tuple[str, np.ndarray]], read: Sequence[tuple[str, np.ndarray]] = ()) -> None:
    """Raises ReproError if a written array shares memory with another array: the step would overwrite that array."""
    tensors = [*written, *read]
    overlap = find_overlap((start_of(each), each.nbytes, i < len(written)) for i, (_, each) in enumerate(tensors))
    if overlap is not None:
        first, second = (tensors[i][0] for i in overlap)
        raise ReproError(f"{first} and {second} share memory: expected separate arrays")
