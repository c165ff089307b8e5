# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of a step's arguments, and their addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.overlap import find_overlap
from repro_mlir.base.numerics.tensors import Described, TensorType, require_same, start_of
from repro_mlir.program import Program


@dataclass(frozen=True)
class Tensor:
    """The declaration of one state, input or output of a program."""

    role: str  # "state", "input" or "output"
    index: int
    name: str
    element: str  # MLIR's name of the element type
    shape: tuple[int, ...]

    @cached_property
    def dtype(self) -> np.dtype:
        """The NumPy dtype; bf16 and f8 are represented as unsigned integers with the same bits."""
        return ELEMENTS[self.element].dtype

    @cached_property
    def nbytes(self) -> int:
        """The size of the buffer in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def empty(self) -> np.ndarray:
        """Returns a new array of this type and shape."""
        return np.empty(self.shape, self.dtype)

    def __str__(self) -> str:
        label = f" ('{self.name}')" if self.name else ""
        return f"{self.role} {self.index}{label}"


def address(tensor: Tensor, value: np.ndarray, *, writable: bool) -> int:
    """Returns the address of `value`'s first element.

    Raises:
        TypeError: `value` is not an array, or its element type is not the program's.
        ValueError: the shape differs from the program's, or `value` is not contiguous, aligned or writable.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{tensor}: expected a NumPy array, got {type(value).__name__}")
    # Integers are signless in a program (V1).
    found = (
        np.dtype(f"i{value.dtype.itemsize}") if value.dtype.kind == "u" and tensor.dtype.kind == "i" else value.dtype
    )
    if found != tensor.dtype:
        raise TypeError(f"{tensor}: expected elements {tensor.dtype} ({tensor.element}), got {value.dtype}")
    if not value.flags.c_contiguous:
        raise ValueError(f"{tensor}: expected a C-contiguous array, got strides {value.strides}")
    if not value.flags.aligned:
        raise ValueError(f"{tensor}: expected an array aligned to its elements")
    if writable and not value.flags.writeable:
        raise ValueError(f"{tensor}: expected a writable array")
    if value.shape != tensor.shape:
        raise ValueError(f"{tensor}: expected shape {tensor.shape}, got {value.shape}")
    return start_of(value)


def check_signature(target: str, found: Callable[[str], Sequence[Described]], program: Program) -> None:
    """Raises ReproError unless code for a target has the tensors of its program; `found` maps a role to tensors."""
    for role, expected in (("state", program.state), ("input", program.inputs), ("output", program.outputs)):
        own = [*found(role)]
        # Compiled code may declare narrow floats as i8.
        wanted = [
            TensorType(kind.name, "i8", kind.shape) if each.element == "i8" and _is_code(kind) else kind
            for kind, each in zip(expected, own, strict=False)
        ]
        require_same(f"the code for {target}: {role}", own, [*wanted, *expected[len(own) :]])


def _is_code(kind: TensorType) -> bool:
    return ELEMENTS[kind.element].is_bits and kind.dtype.itemsize == 1


def check_disjoint(tensors: list[Tensor], addresses: list[int]) -> None:
    """Checks that no state or output shares memory with another buffer.

    Raises:
        ValueError: two buffers overlap and one of them is written.
    """
    sizes = zip(addresses, tensors, strict=True)
    overlap = find_overlap((start, tensor.nbytes, tensor.role != "input") for start, tensor in sizes)
    if overlap is not None:
        first, second = (tensors[i] for i in overlap)
        raise ValueError(f"{first} and {second}: expected separate memory, but they overlap")
