# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Represents tensors with an extent that depends on tensor values, such as `x[mask]`, as all rows and a mask.

A program has no such extent. `x[mask]` keeps all rows of `x` in their positions. The rows that the mask leaves out
contain arbitrary values, even NaN, so operators that combine rows have to replace them first (`Selected.filled`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError


@dataclass(frozen=True, eq=False)
class Rows:
    """A selection among the rows of a dimension.

    Attributes:
      which: bool, shape [rows]: whether each row is selected.
      key: a value that is equal for two selections if they always select the same rows.
      origin: the user's line that selects the rows, if known.
      parts: for a concatenation, pairs of a concatenated dimension and its number of rows, as an expression of the
        graph.
    """

    which: torch.Tensor
    key: Hashable
    origin: str | None
    parts: tuple[tuple[Dim, Any], ...] = ()

    @functools.cached_property
    def count(self) -> torch.Tensor:
        """The number of selected rows, i64 of shape []."""
        return self.which.sum()

    def reversed(self) -> Rows:
        """Returns this selection with the rows in reverse order."""
        key = self.key
        turned = key[1] if isinstance(key, tuple) and key and key[0] == "reversed" else ("reversed", key)
        return Rows(self.which.flip(0), turned, self.origin)


Dim = tuple["int | Rows", ...]
"""A dimension as a product of factors, outermost first: constant extents and selections; a selection's extent counts
all its rows.
"""


def static(extent: int) -> Dim:
    """Returns a dimension with this constant extent."""
    return () if extent == 1 else (extent,)


def extent_of(dim: Dim) -> int:
    """Returns the number of elements along a dimension of the tensor over all rows."""
    return math.prod(each.which.shape[0] if isinstance(each, Rows) else each for each in dim)


def chosen(dim: Dim) -> list[Rows]:
    """Returns the selections among the factors of a dimension."""
    return [each for each in dim if isinstance(each, Rows)]


def same(one: Dim, other: Dim) -> bool:
    """Returns whether two dimensions have the same elements."""
    return [*map(_identity, one)] == [*map(_identity, other)]


def _identity(factor: int | Rows) -> Hashable:
    return factor.key if isinstance(factor, Rows) else factor


def _normal(dim: Sequence[int | Rows]) -> Dim:
    """Returns the product of the factors as a dimension: without factors of 1, and with adjacent constant extents
    merged."""
    factors: list[int | Rows] = []
    for each in dim:
        if isinstance(each, int) and factors and isinstance(factors[-1], int):
            factors[-1] *= each
        elif not (isinstance(each, int) and each == 1):
            factors.append(each)
    return tuple(factors)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Marks integers as the positions at which a mask is true.

    Attributes:
      mask: bool, over all rows.
      rows: the selection that the mask makes.
      axis: the dimension of the mask to which the positions refer; None: all of them, along the last dimension.
    """

    mask: torch.Tensor
    rows: Rows
    axis: int | None


@dataclass(frozen=True, eq=False)
class Selected:
    """A tensor over all rows, of which only the selected rows count.

    Attributes:
      dims: for each dimension of `tensor`, which rows count.
      coordinates: the mask, if the elements are positions at which a mask is true.
      numbers: the selection, if the elements are indices among its selected rows.
    """

    tensor: torch.Tensor
    dims: tuple[Dim, ...]
    coordinates: Coordinates | None = None
    numbers: Rows | None = None

    def counts(self, only: Sequence[int] | None = None) -> torch.Tensor | None:
        """Returns a bool tensor that broadcasts to `tensor`: the elements that count.

        Args:
          only: the dimensions to consider; None: all.
        Returns:
          None if all elements count.
        """
        found: torch.Tensor | None = None
        for position, dim in enumerate(self.dims):
            if chosen(dim) and (only is None or position in only):
                shape = [1] * len(self.dims)
                shape[position] = extent_of(dim)
                along = _counts_along(dim).reshape(shape)
                found = along if found is None else found & along
        return found

    def filled(self, value: float, only: Sequence[int] | None = None) -> torch.Tensor:
        """Returns the tensor with `value` in the elements that do not count along dimensions `only` (None: all)."""
        counts = self.counts(only)
        return self.tensor if counts is None else self.tensor.masked_fill(~counts, value)


def _counts_along(dim: Dim) -> torch.Tensor:
    """Returns a bool tensor of shape [extent]: the elements of a dimension that count."""
    sizes = [extent_of((each,)) for each in dim]
    found: torch.Tensor | None = None
    for position, each in enumerate(dim):
        if isinstance(each, Rows):
            which = each.which.reshape([size if i == position else 1 for i, size in enumerate(sizes)]).expand(sizes)
            found = which if found is None else found & which
    assert found is not None
    return found.reshape([math.prod(sizes)])


def regrouped(dims: Sequence[Dim], shape: Sequence[Dim | None]) -> tuple[Dim, ...] | None:
    """Regroups the dimensions of a tensor for another shape with the same elements in the same order.

    Args:
      shape: the new dimensions; their factors may be in any order. At most one dimension may be None, and is then
        inferred.
    Returns:
      the dimensions of the new shape; None if one of them is not a product of adjacent factors.
    """
    left = [each for dim in dims for each in dim]
    unknown = shape.index(None) if None in shape else len(shape)
    groups, left = _taken(left, shape[:unknown])
    backwards, left = _taken(left[::-1], shape[:unknown:-1])
    found = [*groups, left[::-1], *(group[::-1] for group in backwards[::-1])]
    if unknown == len(shape):
        found.pop(len(groups))
    if len(found) != len(shape) or (left and unknown == len(shape)):
        return None
    return tuple(map(_normal, found))


def _taken(
    factors: Sequence[int | Rows], shape: Sequence[Dim | None]
) -> tuple[list[list[int | Rows]], list[int | Rows]]:
    """Splits leading factors into groups whose products are the dimensions of `shape`, up to the first mismatch.
    Returns the groups and the remaining factors.
    """
    left = [*factors]
    groups: list[list[int | Rows]] = []
    for wanted in shape:
        assert wanted is not None
        extent = math.prod(each for each in wanted if isinstance(each, int))
        keys = [each.key for each in chosen(wanted)]
        group: list[int | Rows] = []
        while extent > 1 or keys:
            if not left:
                return groups, left
            first = left.pop(0)
            if isinstance(first, Rows) and first.key in keys:
                keys.remove(first.key)
                group.append(first)
            elif isinstance(first, int) and extent % first == 0:
                extent //= first
                group.append(first)
            elif isinstance(first, int) and extent > 1 and first % extent == 0:
                group.append(extent)
                left.insert(0, first // extent)
                extent = 1
            else:
                return groups, left
        groups.append(group)
    return groups, left


def broadcast(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """Returns the dimensions of an elementwise result. Raises CaptureError if the shapes do not broadcast."""
    rank = max(map(len, shapes))
    aligned = [[()] * (rank - len(shape)) + [*shape] for shape in shapes]
    return tuple(functools.reduce(_one_of, column) for column in zip(*aligned, strict=True))


def _one_of(one: Dim, other: Dim) -> Dim:
    if not one or not other or same(one, other):
        return one or other
    raise CaptureError(mismatch(one, other))


def mismatch(one: Dim, other: Dim) -> str:
    """Returns the error message for two dimensions that do not have the same elements."""
    if chosen(one) and chosen(other):
        return (
            "rows that different masks select are combined row by row: expected the same mask for both, and rows in "
            "the order of the mask, without flip or sort"
        )
    extent = extent_of(one if chosen(other) else other)
    return f"rows that a mask selects are combined with a dimension of {extent}: expected rows of the same mask"
