# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The sums of a step in memory: those of one element type one behind the other, in a slice for each rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..numerics.elements import ELEMENTS
from ..numerics.tensors import TensorType, start_of


@dataclass(frozen=True)
class Sums:
    """A set of sums.

    Attributes:
      tensors: in the order of the program.
      flat: by element type, the memory of those that are floats, behind which are zeros up to a whole slice.
    """

    tensors: list[np.ndarray]
    flat: dict[str, np.ndarray]

    @cached_property
    def addresses(self) -> list[int]:
        """Of the first element of each tensor."""
        return [start_of(array) for array in self.tensors]


class SumLayout:
    """Where each sum is.

    Attributes:
      lengths: by element type the length of a slice, of those that are floats.
      integers: the positions of those that are none: they are equal in all microbatches (B3).
    """

    def __init__(self, kinds: Sequence[TensorType], slices: int) -> None:
        self._kinds = kinds
        self._slices = slices
        self.integers = [i for i, kind in enumerate(kinds) if ELEMENTS[kind.element].format is None]
        totals: dict[str, int] = {}
        self._offsets: dict[int, int] = {}
        for i, kind in enumerate(kinds):
            if i not in self.integers:
                self._offsets[i] = totals.get(kind.element, 0)
                totals[kind.element] = self._offsets[i] + math.prod(kind.shape)
        self.lengths = {element: -(-total // slices) for element, total in totals.items()}

    def new(self) -> Sums:
        """A set with undefined sums."""
        flat = {
            element: np.zeros(length * self._slices, ELEMENTS[element].dtype)
            for element, length in self.lengths.items()
        }
        tensors = []
        for i, kind in enumerate(self._kinds):
            if i in self._offsets:
                begin = self._offsets[i]
                tensors.append(flat[kind.element][begin : begin + math.prod(kind.shape)].reshape(kind.shape))
            else:
                tensors.append(np.empty(kind.shape, kind.dtype))
        return Sums(tensors, flat)

    def slice_of(self, flat: np.ndarray, number: int) -> np.ndarray:
        """Slice `number` of the memory of an element type."""
        length = len(flat) // self._slices
        return flat[number * length : (number + 1) * length]
