# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Indexing maps, and the parts of operands that they select.

A structured operation is evaluated over a block of its iteration space, as arrays that broadcast against each other:
axis 0 enumerates the reduction elements that are evaluated together, and axis 1 + i is the i-th parallel dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from repro_mlir.base.errors import ProgramError


@dataclass(frozen=True)
class Division:
    """The remainder (`kind` "mod") or quotient ("floordiv", "ceildiv") of the division of a sum by a positive
    divisor."""

    kind: str
    dividend: IndexSum
    divisor: int

    def evaluate(self, dims: Sequence[np.ndarray | int]) -> np.ndarray | int:
        """Returns the value for the given indices, one index or index array per dimension."""
        value = self.dividend.evaluate(dims)
        if self.kind == "mod":
            return value % self.divisor
        return value // self.divisor if self.kind == "floordiv" else -(-value // self.divisor)


@dataclass(frozen=True)
class IndexSum:
    """An index: a constant plus multiples of distinct dimensions and divisions, each stored with its factor."""

    constant: int
    dimensions: tuple[tuple[int, int], ...] = ()
    divisions: tuple[tuple[Division, int], ...] = ()

    def evaluate(self, dims: Sequence[np.ndarray | int]) -> np.ndarray | int:
        """Returns the value for the given indices, one index or index array per dimension."""
        total: np.ndarray | int = self.constant
        for dim, factor in self.dimensions:
            total = total + dims[dim] * factor
        for division, factor in self.divisions:
            total = total + division.evaluate(dims) * factor
        return total

    @property
    def dimension(self) -> int | None:
        """The dimension, if the index is that of a single dimension with factor 1; otherwise None."""
        if self.constant or self.divisions or len(self.dimensions) != 1 or self.dimensions[0][1] != 1:
            return None
        return self.dimensions[0][0]


@dataclass(frozen=True)
class IndexMap:
    """A map from the dimensions of an iteration space to the indices of an operand."""

    dims: int
    results: tuple[IndexSum, ...]

    @cached_property
    def projection(self) -> list[int] | None:
        """The dimensions that the results equal, in order; None if any result is not a plain dimension."""
        dims = [result.dimension for result in self.results]
        return None if None in dims else cast("list[int]", dims)


@dataclass(frozen=True)
class Along:
    """The indices start, start + 1, ..., stop - 1 of a dimension, along one axis."""

    axis: int
    start: int
    stop: int


Index = int | Along | np.ndarray
"""The indices of one dimension: a single index, a range along an axis, or an int64 array along axis 0."""


@dataclass(frozen=True)
class IndexBlock:
    """A part of an iteration space: the indices of each dimension, and the number of axes of the arrays on which it is
    evaluated."""

    indices: tuple[Index, ...]
    axes: int

    def grid(self, dim: int) -> np.ndarray | int:
        """Returns the indices of a dimension as an int64 array that broadcasts over the block's axes."""
        index = self.indices[dim]
        if isinstance(index, int):
            return index
        axis = 0 if isinstance(index, np.ndarray) else index.axis
        values = index if isinstance(index, np.ndarray) else np.arange(index.start, index.stop)
        return values.reshape([-1 if a == axis else 1 for a in range(self.axes)])


def view(array: np.ndarray, access: IndexMap, block: IndexBlock) -> np.ndarray:
    """Returns the operand elements that a block reads, as an array with the block's axes. An axis on which the map does
    not depend has extent 1."""
    selectors: list[slice | int] = []
    axes: list[int] = []
    for result, extent in zip(access.results, array.shape, strict=True):
        selector = _selector(result, block, axes, extent)
        if selector is None:
            return _gather(array, access, block)
        selectors.append(selector)
    picked = array[tuple(selectors)]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    extents = [1] * block.axes
    for axis, extent in zip(axes, picked.shape, strict=True):
        extents[axis] = extent
    return picked.transpose(order).reshape(extents)


def _selector(result: IndexSum, block: IndexBlock, axes: list[int], extent: int) -> slice | int | None:
    """Returns the integer or slice that selects the elements of one operand dimension, or None if neither can select
    them. Appends the axis of a slice to `axes`."""
    if result.divisions:
        return None
    at = result.constant
    moving: tuple[Along, int] | None = None
    for dim, coefficient in result.dimensions:
        index = block.indices[dim]
        if isinstance(index, int):
            at += coefficient * index
        elif isinstance(index, np.ndarray) or moving or coefficient < 1 or index.axis in axes:
            return None
        else:
            moving = index, coefficient
    if moving is None:
        _check_range(at, at, extent)
        return at
    index, coefficient = moving
    axes.append(index.axis)
    if index.stop <= index.start:
        return slice(0, 0)
    first, last = at + coefficient * index.start, at + coefficient * (index.stop - 1)
    _check_range(first, last, extent)
    return slice(first, last + 1, coefficient)


def _check_range(first: int, last: int, extent: int) -> None:
    if first < 0 or last >= extent:
        raise ProgramError(f"expected map results within 0 .. {extent - 1}, got {first} .. {last}")


def _gather(array: np.ndarray, access: IndexMap, block: IndexBlock) -> np.ndarray:
    grids = [block.grid(dim) for dim in range(access.dims)]
    indices = [np.asarray(result.evaluate(grids)) for result in access.results]
    for index, extent in zip(indices, array.shape, strict=True):
        if index.size:
            _check_range(int(index.min()), int(index.max()), extent)
    picked = array[tuple(indices)]
    return picked.reshape((1,) * (block.axes - picked.ndim) + picked.shape)
