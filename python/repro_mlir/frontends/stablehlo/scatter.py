# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Scatter (D1). As in XLA, an update whose window does not lie within the operand is dropped."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.bodies import combination
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule


@rule("stablehlo.scatter")
def scatter(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to repro.scatter over the dimensions that windows do not fill."""
    if len(operation.operands) != 3:
        raise Unsupported("of several tensors is not supported")
    kind = combination(operation.regions[0])
    if kind is None:
        raise Unsupported("is only supported with a function that is add, mul, max, min or returns the update")
    operand, indices, updates = operation.operands
    if emit.size(emit.shape_of(operand)) == 0 or emit.size(emit.shape_of(updates)) == 0:
        return [operand]
    windows = _Windows.of(operation, emit.shape_of(operand))
    shape = windows.shape
    order = [*windows.indexed, *windows.filled]
    places, points = windows.points(indices, updates)
    source = emit.transpose(emit.reshape(operand, shape), order)
    element = emit.element_of(operand)
    source, points = (emit.ordered(kind, each) for each in (source, points))
    rank = len(order)
    # Dropped updates go to an extra element at the end, because they must not even add 0 to an element.
    padded = emit.pad(source, emit.splat([], emit.element_of(source), 0), [0] * rank, [1] + [0] * (rank - 1))

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        combine = {"combine": ir.Attribute.parse(f"#repro<combine {kind}>")}
        return build.create("repro.scatter", [operands[:2], operands[2:]], build.types, combine)

    result = calls.call([points, places, padded], [padded.type], write)[0]
    result = emit.restored(kind, emit.cut(result, [0] * rank, emit.shape_of(source)), element)
    result = emit.transpose(result, [order.index(dim) for dim in range(rank)])
    return [emit.reshape(result, emit.shape_of(operand))]


@dataclass(frozen=True)
class _Windows:
    """The windows of a scatter's updates.

    Attributes:
      shape: the operand's shape, with at least one dimension.
      sizes: the extents of a window, one per dimension of the operand.
      starts: per dimension of the operand, the position of the window's start in the index vector, or None.
      batching: per dimension of the operand, the batch dimension that selects each window's slice, or None.
      window_dims: per dimension of the operand, the dimension of the updates; None if windows have extent 1 there.
      batch_dims: the other dimensions of the updates.
      index_vector_dim: the dimension of the indices that contains the index vector.
      indexed, filled: the dimensions in which windows are smaller than the operand, and the others.
    """

    shape: list[int]
    sizes: list[int]
    starts: list[int | None]
    batching: list[int | None]
    window_dims: list[int | None]
    batch_dims: list[int]
    index_vector_dim: int
    indexed: list[int]
    filled: list[int]

    @staticmethod
    def of(operation: ir.Operation, shape: list[int]) -> _Windows:
        numbers = hlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
        extents = emit.shape_of(operation.operands[2])
        inserted = {*numbers.inserted_window_dims, *numbers.input_batching_dims} if shape else {0}
        shape = shape or [1]
        rank = len(shape)
        remaining = iter(numbers.update_window_dims)
        window_dims = [None if dim in inserted else next(remaining) for dim in range(rank)]
        sizes = [1 if dim is None else extents[dim] for dim in window_dims]
        starts: list[int | None] = [None] * rank
        for position, dim in enumerate(numbers.scattered_dims_to_operand_dims):
            starts[dim] = position
        batching: list[int | None] = [None] * rank
        for dim, of_indices in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
            batching[dim] = of_indices - (of_indices > numbers.index_vector_dim)
        indexed = [dim for dim in range(rank) if sizes[dim] < shape[dim]] or [0]
        return _Windows(
            shape,
            sizes,
            starts,
            batching,
            window_dims,
            [dim for dim in range(len(extents)) if dim not in numbers.update_window_dims],
            numbers.index_vector_dim,
            indexed,
            [dim for dim in range(rank) if dim not in indexed],
        )

    def points(self, indices: ir.Value, updates: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns indices [n, k] in the k indexed dimensions, and updates [n, ...] with the filled dimensions. Each
        window has one row per position that it covers in the indexed dimensions. The first index of a dropped update is
        the extent."""
        extents = emit.shape_of(updates)
        batch = [extents[dim] for dim in self.batch_dims]
        spread = [dim for dim in self.indexed if self.window_dims[dim] is not None]
        points = [*batch, *(self.sizes[dim] for dim in spread)]
        starts = [self._start(indices, batch, dim) for dim in range(len(self.shape))]
        limits = [
            emit.compare(direction, start, emit.like(start, limit))
            for dim, start in enumerate(starts)
            if start is not None and self.starts[dim] is not None
            for direction, limit in (("GE", 0), ("LE", self.shape[dim] - self.sizes[dim]))
        ]
        within = functools.reduce(hlo.and_, limits) if limits else None
        columns = []
        for dim in self.indexed:
            start = starts[dim]
            column = emit.splat(points, emit.i64(), 0)
            if start is not None:
                column = emit.broadcast(start, points, range(len(batch)))
            if dim in spread:
                column = hlo.add(column, emit.iota(points, len(batch) + spread.index(dim)))
            if within is not None:
                dropped = emit.like(column, self.shape[dim] if dim == self.indexed[0] else 0)
                column = emit.select(emit.broadcast(within, points, range(len(batch))), column, dropped)
            columns.append(emit.reshape(column, [emit.size(points), 1]))
        order = [*self.batch_dims, *(self.window_dims[dim] for dim in (*spread, *self.filled))]
        moved = emit.transpose(updates, [dim for dim in order if dim is not None])
        filled = [self.sizes[dim] for dim in self.filled]
        return emit.concatenate(columns, 1), emit.reshape(moved, [emit.size(points), *filled])

    def _start(self, indices: ir.Value, batch: list[int], dim: int) -> ir.Value | None:
        """Returns the start of each window in a dimension, i64 with the batch's shape; None if all starts are 0."""
        along, position = self.batching[dim], self.starts[dim]
        if along is not None:
            return emit.iota(batch, along)
        if position is None:
            return None
        shape = emit.shape_of(indices)
        if self.index_vector_dim < len(shape):
            low, high = [0] * len(shape), list(shape)
            low[self.index_vector_dim], high[self.index_vector_dim] = position, position + 1
            indices = emit.cut(indices, low, high)
        return emit.convert(emit.reshape(indices, batch), emit.i64())
