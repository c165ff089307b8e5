# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(A1), (A2) The extents of loops, and the bounds of the indices with which operands are accessed."""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.reference.canonical.index_expressions import Expression, Expressions, evaluate_division
from repro_mlir.reference.indexing import IndexMap
from repro_mlir.reference.program import Operation, ValueType

_LARGEST = 1 << 62
"""The limit of intermediate results of an index."""

_Range = tuple[dict[int, int], int, int]
"""The values of an expression: factors of dimensions, and the least and the largest value of the rest."""


class _TooLarge(Exception):
    """Raised for an intermediate result that exceeds its limit."""


def check_stable(operation: Operation, maps: Sequence[IndexMap], expressions: Expressions) -> None:
    """(H2) Checks that each index is written as the stored sum."""
    for number, each in enumerate(maps):
        for place, index in enumerate(each.results):
            if not expressions.is_stable(index):
                raise operation.error(f"(H2) expected result #{place} of map #{number} as it is simplified")


def accesses(maps: Sequence[IndexMap], expressions: Expressions) -> list[list[Expression]]:
    """Returns the indices of each operand as expressions."""
    return [[expressions.build(index) for index in each.results] for each in maps]


def extents_of(
    operation: Operation, loops: int, indices: Sequence[Sequence[Expression]], operands: Sequence[ValueType]
) -> list[int]:
    """(A1) Returns the extents of loops: the size of each dimension that a loop alone indexes."""
    found: dict[int, int] = {}
    for number, (own, kind) in enumerate(zip(indices, operands, strict=True)):
        for place, (index, size) in enumerate(zip(own, kind.shape or (), strict=True)):
            if index.kind == "dimension" and found.setdefault(index.number, size) != size:
                raise operation.error(
                    f"(A1) expected {found[index.number]} elements in dimension {place} of operand #{number}, which is "
                    f"the extent of loop {index.number}, got {size}"
                )
    missing = [loop for loop in range(loops) if loop not in found]
    if missing:
        raise operation.error(f"(A1) expected an operand whose dimension is indexed by loop {missing[0]} alone")
    return [found[loop] for loop in range(loops)]


def check_accesses(
    operation: Operation,
    indices: Sequence[Sequence[Expression]],
    operands: Sequence[ValueType],
    extents: Sequence[int],
    *,
    checks_ends: bool = False,
) -> None:
    """(A2) Checks that each index is within its operand in every iteration.

    Args:
      checks_ends: whether loops without iterations are checked, too, as far as MLIR does it for a linalg.generic: for
        the indices 0, and the extents minus 1.
    """
    first, last = [0] * len(extents), [extent - 1 for extent in extents]
    for number, (own, kind) in enumerate(zip(indices, operands, strict=True)):
        for place, (index, size) in enumerate(zip(own, kind.shape or (), strict=True)):
            try:
                ends = _end(index, first), _end(index, last)
                if 0 in extents:
                    if checks_ends and size:
                        _check_ends(operation, min(ends), max(ends), size)
                    continue
                low, high = _bounds(_range(index, extents), extents)
            except _TooLarge:
                message = f"(A2) expected result #{place} of map #{number} below 2^62, and below 2^63 - 1 without loops"
                raise operation.error(message) from None
            if low < 0 or high >= size:
                raise operation.error(
                    f"(A2) expected result #{place} of map #{number} within 0 .. {size - 1}, got {low} .. {high}"
                )


def _check_ends(operation: Operation, low: int, high: int, size: int) -> None:
    if low < 0 or high >= size:
        raise operation.error(f"(A2) expected indices within 0 .. {size - 1}, also without loops, got {low} .. {high}")


def _end(index: Expression, dims: Sequence[int]) -> int:
    """Returns the index of the first or last iteration. MLIR computes the index plus 1 in 64 bits, too."""
    end = _evaluate(index, dims)
    if end + 1 >= 1 << 63:
        raise _TooLarge
    return end


def _evaluate(index: Expression, dims: Sequence[int]) -> int:
    total = 0
    for number, term in enumerate(index.terms()):
        if term.kind == "constant":
            value = term.number
        elif term.kind == "dimension":
            value = dims[term.number]
        else:
            assert term.left is not None
            value = _evaluate(term.left, dims)
            value = value * term.number if term.kind == "multiply" else evaluate_division(term.kind, value, term.number)
        total = value if number == 0 else total + value
        if not -(1 << 63) <= min(value, total) <= max(value, total) < 1 << 63:
            raise _TooLarge
    return total


def _bounds(values: _Range, extents: Sequence[int]) -> tuple[int, int]:
    factors, low, high = values
    for dim, factor in factors.items():
        reach = factor * (extents[dim] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    if low < -_LARGEST or high > _LARGEST or not all(-(1 << 63) <= each < 1 << 63 for each in factors.values()):
        raise _TooLarge
    return low, high


def _range(index: Expression, extents: Sequence[int]) -> _Range:
    """Returns the range of an index over loops of positive extents."""
    factors, low, high = dict[int, int](), 0, 0
    for term in index.terms():
        own, own_low, own_high = _range_of_term(term, extents)
        _bounds((own, own_low, own_high), extents)
        for dim, factor in own.items():
            factors[dim] = factors.get(dim, 0) + factor
        low, high = low + own_low, high + own_high
        _bounds((factors, low, high), extents)
    return factors, low, high


def _range_of_term(term: Expression, extents: Sequence[int]) -> _Range:
    if term.kind == "constant":
        return {}, term.number, term.number
    if term.kind == "dimension":
        return {term.number: 1}, 0, 0
    assert term.left is not None
    factors, low, high = _range(term.left, extents)
    if term.kind == "multiply":
        ends = sorted((low * term.number, high * term.number))
        return {dim: factor * term.number for dim, factor in factors.items()}, ends[0], ends[1]
    low, high = _bounds((factors, low, high), extents)
    return {}, *_divided(term.kind, low, high, term.number)


def _divided(kind: str, low: int, high: int, divisor: int) -> tuple[int, int]:
    if kind == "mod" and low // divisor != high // divisor:
        return 0, divisor - 1
    return evaluate_division(kind, low, divisor), evaluate_division(kind, high, divisor)
