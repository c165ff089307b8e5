# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What every frontend is asked for, and what it hands over; neither knows a framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array

GREATEST_SIZE = 2**31 - 1
"""Of a symbol: what a few sizes make fits into 64 bits."""
MOST_MICROBATCHES = 2**24
"""An f32 has each number up to here: sums are divided by it."""


@dataclass(frozen=True)
class Microbatches:
    """How many microbatches the batch of a training step is cut into, and how their gradients are added (B1), (B2).

    Attributes:
      count: how many there are, 1 to MOST_MICROBATCHES.
      accumulate: how many of them, one after the other, are a leaf of the tree; divides `count`.
      inputs: the names of the batch's tensors that are cut along their first dimension; the others go to every
        microbatch. None: those with dimensions, which all have the first extent of the first one.
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
        """How many leaves the tree has."""
        return self.count // self.accumulate

    @staticmethod
    def chosen(count: int | None, accumulate: int = 1, inputs: Sequence[str] | None = None) -> Microbatches | None:
        """What `Trainer` is given: None without microbatches. ReproError for what belongs to microbatches alone."""
        if inputs is not None and (isinstance(inputs, str) or not isinstance(inputs, Sequence)):
            raise ReproError(f"expected microbatch_inputs as a list of names, got {inputs!r}")
        if count is not None:
            return Microbatches(count, accumulate, None if inputs is None else tuple(inputs))
        if accumulate != 1 or inputs is not None:
            raise ReproError("accumulate and microbatch_inputs belong to microbatches")
        return None


@dataclass(frozen=True)
class CaptureOptions:
    """What decides about a program beside the user's model, loss function, optimizer and batch.

    A frontend checks the values that it reads.

    Attributes:
      clip_norm: a number above 0: all gradients together are clipped to this 2-norm. None: no clipping.
      autocast: the framework's name of a 16-bit element type, such as `torch.bfloat16`, in which forward and loss are
        computed where its automatic mixed precision says so. None: the types that the model has.
      seed: -2^63 to 2^64 - 1: initial seed of the random numbers, if the step draws any.
      exact_digits: 2 or 3 makes all contractions of the canonical program exact (K4), see `exact_contractions`.
      attention_block: a whole number above 0: (K5) attention goes by blocks of so many queries, or keys. None: it is
        not divided.
      returns: what a training step gives beside the loss, of "outputs", "gradient_norm", "gradients" and "metrics".
        Empty: what the model gives, where there is a loss function.
      average: what averages the parameters, such as PyTorch's `AveragedModel` of the model: state that follows each
        training step. None: there is none.
      loss_scale: what scales the loss, such as PyTorch's `GradScaler`, whose rule each training step follows: a step
        with a gradient that is not finite is left out. None: the loss is not scaled.
      metrics: functions of what the model gives and of the target, by name, for "metrics". None: there are none.
      microbatches: (B1) the example batch is one of so many, and what a training step changes is reduced over them.
        None: the batch is a whole one.
      precision: a recipe for the operands of contractions, its name or its JSON, see `apply_precision`. None: they are
        what the framework gives.
      gradient_compression: a method by which the gradients of each microbatch are compressed, its name or its JSON, see
        `repro_mlir.gradient_compression`. None: they are not.
      changing: names of Python numbers and strings that the program should not depend on: numbers become inputs.
    """

    clip_norm: float | None = None
    autocast: Any = None
    seed: int = 0
    exact_digits: int | None = None
    attention_block: int | None = None
    returns: tuple[str, ...] = ()
    metrics: Mapping[str, Any] | None = None
    average: Any = None
    loss_scale: Any = None
    microbatches: Microbatches | None = None
    precision: Any = None
    gradient_compression: Any = None
    changing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Symbol:
    """A size that a program leaves open.

    Attributes:
      name: an identifier.
      least, most: the bounds of the size, from 1 to GREATEST_SIZE.
    """

    name: str
    least: int
    most: int


@dataclass(frozen=True, eq=False)
class SymbolicImport:
    """A program for many sizes as a frontend hands it over.

    Attributes:
      text: as of an ImportedProgram, with symbols (docs/architecture.md).
      initial: as of an ImportedProgram.
      unsigned: role ("state", "input" or "output") and name of the tensors of unsigned integers.
      complex: likewise of those of complex numbers.
    """

    text: str = field(repr=False)
    initial: tuple[np.ndarray, ...] = field(repr=False)
    unsigned: frozenset[tuple[str, str]] = frozenset()
    complex: frozenset[tuple[str, str]] = frozenset()


class Bindings(Protocol):
    """What ties a program to the user's objects: where the inputs of a step come from, and where its state goes.

    Arrays are what `as_array` takes, NumPy's or the framework's: f64, f32, f16, i8 to i64 and i1 as themselves,
    unsigned integers where the framework has them, bf16 and f8 of NumPy as their bits. Each has the shape and element
    type of its `TensorType`.
    """

    def hyper_parameters(self) -> Sequence[Any]:
        """The present values of the hyper-parameters, of shape []; they must not be written.

        Raises:
          ReproError: the user's objects ask for another program by now.
        """

    def flatten_batch(self, batch: Any) -> Sequence[Any]:
        """The tensors of a batch in the order of the inputs behind the hyper-parameters.

        Raises:
          ReproError: the batch has another structure, shape or element type than the captured one.
        """

    def write_state(self, values: Sequence[Any]) -> None:
        """Copies one array per state tensor into the user's objects.

        Raises:
          ReproError: another number of arrays, shape or element type.
        """


B = TypeVar("B", bound=Bindings, covariant=True)


@dataclass(frozen=True, eq=False)
class ImportedProgram(Generic[B]):
    """A program as a frontend hands it over: imported linalg, its signature and its ties to the user's objects.

    `main` takes the state, then the inputs, and gives the new state in the same order, then the outputs.

    Attributes:
      text: one module in MLIR generic text that keeps the contract of imported linalg (docs/architecture.md).
      state: name, element type and shape of each state tensor.
      initial: the value of each state tensor at capture, in the order of `state`: C-contiguous, with `dtype` and
        `shape` of its TensorType. Its NaNs may have any bits. Nobody writes to it.
      inputs: first the hyper-parameters, f32 or f64 of shape [], then the tensors of the batch.
      outputs: for training first `loss`, a float of shape [], then what the model gives.
      num_hyper_parameters: how many of the inputs are hyper-parameters.
      random: the positions in `state` of the seed and of the step of the random numbers, both i64 of shape []. None
        where the program draws none.
      bindings: what ties the program to the user's objects.
      own: of a step in microbatches, the ascending positions in `state` of tensors of which each microbatch has its own
        (B5); `state` and `initial` have those of one microbatch.
    Raises:
      ReproError: an initial value or a position of `random` that is not as said here.
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
                raise ReproError(
                    f"expected positions of seed and step, i64 of shape [], in the state, got {self.random}"
                )

    def read_inputs(self, batch: Any) -> list[np.ndarray]:
        """The inputs of a step on this batch: the present hyper-parameters, then its tensors, whose memory they share.

        Raises:
          ReproError: as `Bindings.hyper_parameters` and `Bindings.flatten_batch`.
        """
        values = [*self.bindings.hyper_parameters(), *self.bindings.flatten_batch(batch)]
        return [as_array(value, kind, "input") for value, kind in zip(values, self.inputs, strict=True)]
