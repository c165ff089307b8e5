# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The sums of a step in memory: those of one element type one behind the other, in a slice for each rank."""

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
    """A set of sums.

    Attributes:
      tensors: in the order of the program.
      flat: by element type, the memory of those that are floats.
    """

    tensors: list[np.ndarray]
    flat: dict[str, np.ndarray]

    @cached_property
    def addresses(self) -> list[int]:
        """Of the first element of each tensor."""
        return [start_of(array) for array in self.tensors]


class Slice(NamedTuple):
    """What a rank finishes of the memory of an element type: the elements from `start` to before `stop`, of which all
    ranks get those before `shared`."""

    start: int
    shared: int
    stop: int


class SumLayout:
    """Where each sum is.

    Attributes:
      slices: by element type, of those that are floats, the slice of each rank.
      integers: the positions of those that are none: they are equal in all microbatches (B3).
    """

    def __init__(self, kinds: Sequence[TensorType], size: int, owners: Mapping[int, int] | None = None) -> None:
        """
        Args:
          kinds: the sums.
          size: how many ranks there are.
          owners: by position, the rank that alone needs a sum (T3); the others go to all. None: all go to all, in
            slices of one length.
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
        """Where they end, one behind the other."""
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
        """Of the memory of an element type."""
        return self.slices[element][-1].stop

    def new(self) -> Sums:
        """A set with undefined sums; behind the last one there are zeros up to the end of its slice."""
        flat = {element: np.zeros(self.length(element), ELEMENTS[element].dtype) for element in self.slices}
        tensors = []
        for i, kind in enumerate(self._kinds):
            if i in self._offsets:
                begin = self._offsets[i]
                tensors.append(flat[kind.element][begin : begin + math.prod(kind.shape)].reshape(kind.shape))
            else:
                tensors.append(np.empty(kind.shape, kind.dtype))
        return Sums(tensors, flat)
