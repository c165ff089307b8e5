# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of the operations on scalars: arithmetic, comparisons, conversions and elementary functions (V1), (S5)."""

from __future__ import annotations

from collections.abc import Callable

from repro_mlir.base.numerics.formats import ElementType
from repro_mlir.reference.program import Operation

Kind = Callable[[ElementType], bool]
"""Whether operands of an operation may have an element type."""


def is_float(element: ElementType) -> bool:
    return element.is_float


def is_integer(element: ElementType) -> bool:
    return not element.is_float and element.name != "index"


def is_integer_or_index(element: ElementType) -> bool:
    return not element.is_float


def _is_single(element: ElementType) -> bool:
    return element.name == "f32"


def _is_single_or_double(element: ElementType) -> bool:
    return element.name in ("f32", "f64")


def _scalars(operation: Operation) -> tuple[list[ElementType], list[ElementType]]:
    """Returns the element types of operands and results, all of which must be scalars."""
    types = operation.operand_types, operation.result_types
    for kind in (*types[0], *types[1]):
        if kind.shape is not None:
            raise operation.error(f"expected scalars: arithmetic on tensors is a linalg.generic, got {kind}")
    return [kind.element for kind in types[0]], [kind.element for kind in types[1]]


def _expect(operation: Operation, holds: bool, expected: str) -> None:
    if not holds:
        types = ", ".join(map(str, operation.operand_types)), ", ".join(map(str, operation.result_types))
        raise operation.error(f"expected {expected}, got ({types[0]}) -> ({types[1]})")


def same(kind: Kind, what: str) -> Callable[[Operation], None]:
    """Returns the check of an operation whose operands and results have one type."""

    def check(operation: Operation) -> None:
        operands, results = _scalars(operation)
        _expect(operation, len({*operands, *results}) == 1 and kind(operands[0]), f"one type of {what}")

    return check


FLOATS = same(is_float, "floats")
INTEGERS = same(is_integer_or_index, "integers or index")
FUNCTION = same(_is_single_or_double, "f32 or f64")
BINARY_FUNCTION = same(_is_single, "f32")


def check_power(operation: Operation) -> None:
    (base, exponent), (result,) = _scalars(operation)
    fits = _is_single_or_double(base) and base == result and is_integer(exponent)
    _expect(operation, fits, "(S5) an f32 or f64 and an integer exponent")


def check_carry(operation: Operation) -> None:
    operands, (total, carry) = _scalars(operation)
    fits = len({*operands, total}) == 1 and is_integer_or_index(total) and carry.name == "i1"
    _expect(operation, fits, "integers of one type and i1")


def comparison(kind: Kind) -> Callable[[Operation], None]:
    """Returns the check of a comparison."""

    def check(operation: Operation) -> None:
        (left, right), (result,) = _scalars(operation)
        _expect(operation, left == right and kind(left) and result.name == "i1", "operands of one type and i1")

    return check


def check_select(operation: Operation) -> None:
    (condition, left, right), (result,) = _scalars(operation)
    _expect(operation, condition.name == "i1" and left == right == result, "an i1, and values of one type")


def check_assertion(operation: Operation) -> None:
    (condition,), _ = _scalars(operation)
    _expect(operation, condition.name == "i1", "an i1")


def conversion(source: Kind, target: Kind, grows: bool | None) -> Callable[[Operation], None]:
    """Returns the check of a conversion.

    Args:
      grows: whether the result must have more bits than the operand (True), or fewer (False).
    """

    def check(operation: Operation) -> None:
        (given,), (result,) = _scalars(operation)
        _expect(operation, source(given) and target(result), "other types of operand and result")
        if grows is not None:
            fits = result.width > given.width if grows else result.width < given.width
            _expect(operation, fits, f"a {'wider' if grows else 'narrower'} result")
        if result.is_float and result.format.is_scale:
            raise operation.error(f"(V1) expected a type to which a rule converts, got {result.name}")
        if (given.name, result.name) in _INEXACT:
            raise operation.error(f"(V1) expected an exact extension, got {given.name} to {result.name}")

    return check


_INEXACT = {("f8E8M0FNU", "f16"), ("f6E2M3FN", "f8E5M2")}
"""The types of which the second is wider, but lacks values of the first."""


def check_index_cast(operation: Operation) -> None:
    (given,), (result,) = _scalars(operation)
    fits = (given.name == "index" and is_integer(result)) or (is_integer(given) and result.name == "index")
    _expect(operation, fits, "an index and an integer")


def check_bitcast_types(operation: Operation) -> None:
    (given,), (result,) = _scalars(operation)
    _expect(operation, "index" not in (given.name, result.name) and given.width == result.width, "types of one width")


_ON_STORAGE = {
    *("arith.bitcast", "arith.constant", "arith.extf", "arith.select", "arith.sitofp", "arith.truncf", "arith.uitofp"),
}
"""The operations on scalars that may have operands or results of storage types."""


def check_storage(operation: Operation) -> None:
    """(V1) Checks that an operation on scalars computes with no storage type. The step of a fold is not checked."""
    types = *operation.operand_types, *operation.result_types
    if operation.name not in _ON_STORAGE and any(kind.element.is_storage for kind in types):
        raise operation.error(f"(V1) expected a computation in f32 or f64, got {', '.join(map(str, types))}")
