# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Affine maps and the views of operands that they stand for.

A structured operation is evaluated over a block of its iteration space, as arrays that broadcast against each
other: axis 0 numbers the reduction elements taken together, axis 1 + i is the i-th parallel dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .errors import ProgramError


@dataclass(frozen=True)
class Expression:
    """An affine expression: `kind` is "dim" or "const" with `value`, or an operator over `operands`."""

    kind: str
    value: int = 0
    operands: tuple[Expression, ...] = ()

    def evaluate(self, dims: Sequence[np.ndarray | int]) -> np.ndarray | int:
        """The value at each index, for one index (array) per dimension."""
        if self.kind == "dim":
            return dims[self.value]
        if self.kind == "const":
            return self.value
        a, b = (operand.evaluate(dims) for operand in self.operands)
        if self.kind == "+":
            return a + b
        if self.kind == "*":
            return a * b
        if self.kind == "mod":
            return a % b
        return a // b if self.kind == "floordiv" else -(-a // b)

    @cached_property
    def linear(self) -> tuple[dict[int, int], int] | None:
        """The coefficients by dimension, and the constant; None for an expression that is not linear."""
        if self.kind == "dim":
            return {self.value: 1}, 0
        if self.kind == "const":
            return {}, self.value
        a, b = (operand.linear for operand in self.operands)
        if a is None or b is None:
            return None
        if self.kind == "+":
            dims = {d: a[0].get(d, 0) + b[0].get(d, 0) for d in {*a[0], *b[0]}}
            return {d: c for d, c in dims.items() if c}, a[1] + b[1]
        if self.kind == "*":
            factor, other = (a[1], b) if not a[0] else (b[1], a)
            return {d: c * factor for d, c in other[0].items() if c * factor}, other[1] * factor
        return None


@dataclass(frozen=True)
class AffineMap:
    """A map from the dimensions of an iteration space to the indices of an operand."""

    dims: int
    results: tuple[Expression, ...]

    @cached_property
    def projection(self) -> list[int] | None:
        """The dimension that each result is, or None for a map that is not a selection of dimensions."""
        if all(result.kind == "dim" for result in self.results):
            return [result.value for result in self.results]
        return None


_TOKEN = re.compile(r"\s*(->|floordiv|ceildiv|mod|d\d+|\d+|[-+*(),])")


def parse_map(text: str) -> AffineMap:
    """Reads `affine_map<(d0, d1) -> (d0, d1 + 2)>` as MLIR prints it; symbols are an error."""
    inner = text.removeprefix("affine_map<").removesuffix(">")
    tokens = _TOKEN.findall(inner)
    if "".join(tokens) != re.sub(r"\s", "", inner) or "->" not in tokens:
        raise ProgramError(f"expected an affine map without symbols, got {text}")
    split = tokens.index("->")
    dims = sum(token.startswith("d") for token in tokens[:split])
    rest = tokens[split + 2 :]
    results = []
    while rest[0] != ")":
        results.append(_sum(rest))
        if rest[0] == ",":
            rest.pop(0)
    return AffineMap(dims, tuple(results))


def _sum(tokens: list[str]) -> Expression:
    left = _product(tokens)
    while tokens[0] in "+-":
        sign = tokens.pop(0)
        right = _product(tokens)
        if sign == "-":
            right = Expression("*", operands=(right, Expression("const", -1)))
        left = Expression("+", operands=(left, right))
    return left


def _product(tokens: list[str]) -> Expression:
    left = _atom(tokens)
    while tokens[0] in ("*", "mod", "floordiv", "ceildiv"):
        kind = tokens.pop(0)
        left = Expression(kind, operands=(left, _atom(tokens)))
    return left


def _atom(tokens: list[str]) -> Expression:
    token = tokens.pop(0)
    if token == "-":
        return Expression("*", operands=(_atom(tokens), Expression("const", -1)))
    if token == "(":
        inner = _sum(tokens)
        tokens.pop(0)
        return inner
    return Expression("dim", int(token[1:])) if token.startswith("d") else Expression("const", int(token))


@dataclass(frozen=True)
class Along:
    """The indices start, start + 1, ..., stop - 1 of a dimension, along one axis."""

    axis: int
    start: int
    stop: int


Index = int | Along | np.ndarray
"""One index of a dimension, a range of them along an axis, or an int64 array of them along axis 0."""


@dataclass(frozen=True)
class Block:
    """A part of an iteration space: an index (or indices) per dimension, and the number of axes."""

    indices: tuple[Index, ...]
    axes: int

    def grid(self, dim: int) -> np.ndarray | int:
        """The indices of a dimension as an int64 array that broadcasts over the block's axes."""
        index = self.indices[dim]
        if isinstance(index, int):
            return index
        axis = 0 if isinstance(index, np.ndarray) else index.axis
        values = index if isinstance(index, np.ndarray) else np.arange(index.start, index.stop)
        return values.reshape([-1 if a == axis else 1 for a in range(self.axes)])


def view(array: np.ndarray, access: AffineMap, block: Block) -> np.ndarray:
    """The elements of an operand that a block reads, with the block's axes (of extent 1 where the map is constant)."""
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


def _selector(result: Expression, block: Block, axes: list[int], extent: int) -> slice | int | None:
    """How basic indexing reads one dimension of an operand, or None where it cannot; notes the axis it yields."""
    if result.linear is None:
        return None
    coefficients, at = result.linear
    moving: tuple[Along, int] | None = None
    for dim, coefficient in coefficients.items():
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


def _gather(array: np.ndarray, access: AffineMap, block: Block) -> np.ndarray:
    grids = [block.grid(dim) for dim in range(access.dims)]
    indices = [np.asarray(result.evaluate(grids)) for result in access.results]
    for index, extent in zip(indices, array.shape, strict=True):
        if index.size:
            _check_range(int(index.min()), int(index.max()), extent)
    picked = array[tuple(indices)]
    return picked.reshape((1,) * (block.axes - picked.ndim) + picked.shape)
