# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The interface between the compiler and its frontends, independent of frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_arrays

GREATEST_SIZE = 2**31 - 1
"""The maximum size of a symbol, so that products of a few sizes fit into 64 bits."""
MOST_MICROBATCHES = 2**24
"""The maximum number of microbatches. Sums are divided by this number as an f32, which is exact up to 2^24."""


@dataclass(frozen=True)
class Microbatches:
    """The division of a training step's batch into microbatches, and the summation of their gradients (B1), (B2).

    Attributes:
      count: the number of microbatches, 1 to MOST_MICROBATCHES.
      accumulate: the number of consecutive microbatches that form a leaf of the summation tree; divides `count`.
      inputs: the names of the batch's tensors that are split along their first dimension; every microbatch gets the
        other tensors unchanged. None: all tensors of rank 1 or more, whose first extents must be equal.
    """

    count: int
    accumulate: int = 1
    inputs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, number in (("microbatches", self.count), ("accumulate", self.accumulate)):
            if type(number) is not int or not 1 <= number <= MOST_MICROBATCHES:
                raise ReproError(f"expected {name} as a whole number from 1 to {MOST_MICROBATCHES}, got {number!r}")
        if self.count % self.accumulate:
            raise ReproError(f"expected accumulate to divide {self.count} microbatches, got {self.accumulate}")

    @property
    def leaves(self) -> int:
        """The number of leaves of the summation tree."""
        return self.count // self.accumulate

    @staticmethod
    def chosen(count: int | None, accumulate: int = 1, inputs: Sequence[str] | None = None) -> Microbatches | None:
        """Returns the microbatches for these arguments of `Trainer`; None if `count` is None, which means no
        microbatches.

        Raises:
          ReproError: an argument is invalid, or `accumulate` or `inputs` is given without `count`.
        """
        if inputs is not None and (isinstance(inputs, str) or not isinstance(inputs, Sequence)):
            raise ReproError(f"expected microbatch_inputs as a list of names, got {inputs!r}")
        if count is not None:
            return Microbatches(count, accumulate, None if inputs is None else tuple(inputs))
        if accumulate != 1 or inputs is not None:
            raise ReproError("expected microbatches with accumulate or microbatch_inputs")
        return None


@dataclass(frozen=True)
class Symbol:
    """A dynamic size of a program.

    Attributes:
      name: an identifier.
      least, most: the bounds of the size, from 1 to GREATEST_SIZE.
    """

    name: str
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class SymbolicImport:
    """A program with dynamic sizes in the form in which a frontend returns it.

    Attributes:
      text: as for an ImportedProgram, with symbols (docs/contributors/architecture.md).
      initial: as for an ImportedProgram.
      unsigned: the role ("state", "input" or "output") and the name of each tensor of unsigned integers.
      complex: the role and the name of each tensor of complex numbers.
    """

    text: str = field(repr=False)
    initial: tuple[np.ndarray, ...] = field(repr=False)
    unsigned: frozenset[tuple[str, str]] = frozenset()
    complex: frozenset[tuple[str, str]] = frozenset()


class Bindings(Protocol):
    """Connects a program to the user's objects (model, optimizer): a step reads its inputs from them and writes its
    state to them.

    The arrays that the methods accept or return are NumPy arrays, or tensors of the framework that `as_array` accepts.
    NumPy arrays represent bf16 and f8 as bits. Each array has the shape and element type of its `TensorType`.
    """

    def hyper_parameters(self) -> Sequence[Any]:
        """Returns the current values of the hyper-parameters, of shape []; the caller must not write to them.

        Raises:
          ReproError: the user's objects have changed so that they require another program.
        """

    def flatten_batch(self, batch: Any) -> Sequence[Any]:
        """Returns the tensors of a batch in the order of the inputs after the hyper-parameters.

        Raises:
          ReproError: the structure, a shape or an element type of the batch differs from the captured batch.
        """

    def write_state(self, values: Sequence[Any]) -> None:
        """Copies one array per state tensor into the user's objects.

        Raises:
          ReproError: the number of arrays, a shape or an element type differs from that of the state.
        """


B = TypeVar("B", bound=Bindings, covariant=True)


@dataclass(frozen=True, eq=False)
class ImportedProgram(Generic[B]):
    """A program as a frontend returns it: imported linalg, its signature, and its bindings to the user's objects.

    `main` has the state and then the inputs as arguments; its results are the new state in the same order and then the
    outputs.

    Attributes:
      text: one module in MLIR generic text that follows the contract of imported linalg
        (docs/contributors/architecture.md).
      state: name, element type and shape of each state tensor.
      initial: the value of each state tensor at capture, in the order of `state`: C-contiguous, with `dtype` and
        `shape` of its TensorType. NaNs may have any bits. The arrays are read-only by convention.
      inputs: first the hyper-parameters, f32 or f64 of shape [], then the tensors of the batch.
      outputs: for training first `loss`, a float of shape [], then the outputs of the model.
      num_hyper_parameters: the number of inputs that are hyper-parameters.
      random: the positions in `state` of the seed and of the step of the random numbers, both i64 of shape []. None if
        the program draws no random numbers.
      bindings: the connection to the user's objects.
      own: for a step in microbatches, the ascending positions in `state` of tensors that exist once per microbatch
        (B5); `state` and `initial` describe those of one microbatch.
    Raises:
      ReproError: an initial value or a position of `random` does not match this description.
    """

    text: str = field(repr=False)
    state: tuple[TensorType, ...]
    initial: tuple[np.ndarray, ...] = field(repr=False)
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    num_hyper_parameters: int
    random: tuple[int, int] | None
    bindings: B = field(repr=False)
    own: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expected = [(kind.dtype, kind.shape, True) for kind in self.state]
        if [(value.dtype, value.shape, value.flags.c_contiguous) for value in self.initial] != expected:
            raise ReproError("expected a C-contiguous initial array of its type and shape for each state tensor")
        for position in self.random or ():
            kind = self.state[position] if 0 <= position < len(self.state) else None
            if kind is None or (kind.element, kind.shape) != ("i64", ()):
                raise ReproError(f"expected positions of seed and step (i64, shape []) in the state, got {self.random}")

    def read_inputs(self, batch: Any) -> list[np.ndarray]:
        """Returns the inputs of a step: the current hyper-parameters, then arrays that share the memory of the batch.

        Raises:
          ReproError: as `Bindings.hyper_parameters` and `Bindings.flatten_batch`.
        """
        values = [*self.bindings.hyper_parameters(), *self.bindings.flatten_batch(batch)]
        return as_arrays(values, self.inputs, "input")
