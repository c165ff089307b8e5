# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The layout of a step's sums in memory. The sums of one element type are contiguous, and divided into a slice for each
rank."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType, start_of


@dataclass(frozen=True)
class Sums:
    """The memory of the sums of a step.

    Attributes:
      tensors: the sums in the order of the program.
      flat: the contiguous memory of the float sums, by element type.
    """

    tensors: list[np.ndarray]
    flat: dict[str, np.ndarray]

    @cached_property
    def addresses(self) -> list[int]:
        """The addresses of `tensors`."""
        return [start_of(array) for array in self.tensors]


class Slice(NamedTuple):
    """The elements [start, stop) of an element type. One rank finishes their sums; all ranks get the elements [start,
    shared), and only that rank needs the rest."""

    start: int
    shared: int
    stop: int


class SumLayout:
    """The position of each sum in memory.

    Attributes:
      slices: for each float element type, the slice of each rank.
      integers: the indices of the tensors that are not floats. They are not added, since they are equal in all
        microbatches (B3).
    """

    def __init__(self, kinds: Sequence[TensorType], size: int, owners: Mapping[int, int] | None = None) -> None:
        """
        Args:
          kinds: the types of the sums.
          size: the number of ranks.
          owners: maps the index of a sum to the only rank that needs it (T3); all ranks get the sums that are not in
            the map. None if all ranks get all sums, in slices of equal length.
        """
        self._kinds = kinds
        self.integers = [i for i, kind in enumerate(kinds) if ELEMENTS[kind.element].format is None]
        self._offsets: dict[int, int] = {}
        self.slices: dict[str, list[Slice]] = {}
        for element in dict.fromkeys(kind.element for i, kind in enumerate(kinds) if i not in self.integers):
            positions = [i for i, kind in enumerate(kinds) if kind.element == element]
            if owners is None:
                total = self._place(positions, 0)
                bounds = [-(-total // size) * rank for rank in range(size + 1)]
                self.slices[element] = [Slice(start, stop, stop) for start, stop in itertools.pairwise(bounds)]
            else:
                self.slices[element] = self._owned(positions, size, owners)

    def _place(self, positions: Sequence[int], start: int) -> int:
        """Assigns offsets to sums, one after another from `start`; returns the offset after the last one."""
        for i in positions:
            self._offsets[i] = start
            start += math.prod(self._kinds[i].shape)
        return start

    def _owned(self, positions: Sequence[int], size: int, owners: Mapping[int, int]) -> list[Slice]:
        found, end = [], 0
        shared = [i for i in positions if i not in owners]
        for rank in range(size):
            start = end
            between = self._place(shared[rank::size], start)
            end = self._place([i for i in positions if owners.get(i) == rank], between)
            found.append(Slice(start, between, end))
        return found

    def length(self, element: str) -> int:
        """Returns the number of elements in the flat memory of an element type."""
        return self.slices[element][-1].stop

    def new(self) -> Sums:
        """Allocates memory for all sums. The values are undefined, except that the padding after the last sum is
        zero."""
        flat = {element: np.zeros(self.length(element), ELEMENTS[element].dtype) for element in self.slices}
        tensors = []
        for i, kind in enumerate(self._kinds):
            if i in self._offsets:
                begin = self._offsets[i]
                tensors.append(flat[kind.element][begin : begin + math.prod(kind.shape)].reshape(kind.shape))
            else:
                tensors.append(np.empty(kind.shape, kind.dtype))
        return Sums(tensors, flat)
