# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Triangular solves and Cholesky factors of small matrices, unrolled over the rows in a fixed order.

Matrices have shape [*, n, n]; each unrolled operation processes whole rows or columns of the entire batch. Where a
matrix is singular or not positive definite, results are infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_LIMIT = 64


@rule("stablehlo.triangular_solve")
def triangular_solve(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers a triangular solve to a substitution, row by row."""
    a, b = operation.operands
    is_left, is_lower, is_unit = (
        ir.BoolAttr(operation.attributes[name]).value for name in ("left_side", "lower", "unit_diagonal")
    )
    transposition = hlo.TransposeAttr(operation.attributes["transpose_a"]).value
    if transposition != "NO_TRANSPOSE":
        a, is_lower = _transposed(a), not is_lower
    if is_left:
        return [_substitute(a, b, is_lower, is_unit)]
    return [_transposed(_substitute(_transposed(a), _transposed(b), not is_lower, is_unit))]


@rule("stablehlo.cholesky")
def cholesky(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers a Cholesky factorization column by column. The triangle that has no part of the factor keeps its elements,
    as in LAPACK."""
    a = operation.operands[0]
    is_lower = "lower" in operation.attributes and ir.BoolAttr(operation.attributes["lower"]).value
    rest = a if is_lower else _transposed(a)
    shape = emit.shape_of(rest)
    batch, count = shape[:-2], _order(rest)
    columns = []
    for position in range(count):
        column = _column(rest, position)
        pivot = hlo.sqrt(_row(column, position))
        at = emit.iota(emit.shape_of(column), len(batch))
        divided = hlo.divide(column, emit.broadcast(pivot, emit.shape_of(column), range(len(shape))))
        column = emit.select(emit.compare("GE", at, emit.like(at, position)), divided, emit.like(column, 0))
        columns.append(column)
        rest = hlo.subtract(rest, _product(column, _transposed(column), shape))
    if not columns:
        return [a]
    down, along = (emit.iota(shape, len(batch) + number) for number in (0, 1))
    factor = emit.concatenate(columns, len(shape) - 1)
    factor = emit.select(emit.compare("GE", down, along), factor, a if is_lower else _transposed(a))
    return [factor if is_lower else _transposed(factor)]


def _substitute(a: ir.Value, b: ir.Value, is_lower: bool, is_unit: bool) -> ir.Value:
    """Solves a x = b for triangular `a`."""
    count = _order(a)
    shape = emit.shape_of(b)
    rows: list[ir.Value] = []
    for position in range(count) if is_lower else reversed(range(count)):
        row = _row(b, position)
        if not is_unit:
            pivot = _row(_column(a, position), position)
            row = hlo.divide(row, emit.broadcast(pivot, emit.shape_of(row), range(len(shape))))
        rows.append(row)
        b = hlo.subtract(b, _product(_column(a, position), row, shape))
    return emit.concatenate(rows if is_lower else rows[::-1], len(shape) - 2) if rows else b


def _order(matrix: ir.Value) -> int:
    """Returns the number of rows, over which the computation is unrolled; raises Unsupported above the limit."""
    count = emit.shape_of(matrix)[-1]
    if count > _LIMIT:
        raise Unsupported(f"is unrolled: expected matrices of at most {_LIMIT} rows, got {count}")
    return count


def _transposed(matrix: ir.Value) -> ir.Value:
    rank = len(emit.shape_of(matrix))
    return emit.transpose(matrix, [*range(rank - 2), rank - 1, rank - 2])


def _part(matrix: ir.Value, dimension: int, position: int) -> ir.Value:
    shape = emit.shape_of(matrix)
    starts, ends = [0] * len(shape), list(shape)
    starts[dimension], ends[dimension] = position, position + 1
    return emit.cut(matrix, starts, ends)


def _row(matrix: ir.Value, position: int) -> ir.Value:
    """Returns a row, of shape [*, 1, n]."""
    return _part(matrix, len(emit.shape_of(matrix)) - 2, position)


def _column(matrix: ir.Value, position: int) -> ir.Value:
    """Returns a column, of shape [*, n, 1]."""
    return _part(matrix, len(emit.shape_of(matrix)) - 1, position)


def _product(column: ir.Value, row: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Returns the outer product of a column and a row."""
    whole = range(len(shape))
    return hlo.multiply(emit.broadcast(column, shape, whole), emit.broadcast(row, shape, whole))
