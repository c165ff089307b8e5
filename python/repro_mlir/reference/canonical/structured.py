# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks of the structured operations without a body: sorts, scans, scatters and random numbers (D1) to (D3), (R1)."""

from __future__ import annotations

from collections.abc import Sequence

from repro_mlir.base.numerics.formats import ElementType, element_type
from repro_mlir.reference.program import Operation, ValueType

_I64 = element_type("i64")
_FLOATS = ("f64", "f32", "bf16", "f16", "f8E4M3FN", "f8E5M2")
_DRAWN = {"bits": element_type("i32"), "uniform": element_type("f32")}


def check_elements(operation: Operation) -> None:
    """(V1) Checks that no operand has elements that only block formats use."""
    for number, kind in enumerate(operation.operand_types):
        if kind.element.is_float and kind.element.name not in _FLOATS:
            raise operation.error(
                f"(V1) expected integers, index, {', '.join(_FLOATS)} as operand #{number}, got {kind}"
            )


def check_destinations(operation: Operation) -> None:
    """Checks that each result has the type of its initial operand, which is a tensor."""
    outputs = operation.operand_types[len(operation.operand_types) - len(operation.results) :]
    for number, (init, result) in enumerate(zip(outputs, operation.result_types, strict=True)):
        if init != result or init.shape is None:
            raise operation.error(f"expected a tensor as initial operand and as result #{number}, got {init}, {result}")


def _shape(operation: Operation, number: int) -> tuple[int, ...]:
    shape = operation.operand_types[number].shape
    if shape is None:
        raise operation.error(f"expected a tensor as operand #{number}, got {operation.operand_types[number]}")
    return shape


def _expect_type(operation: Operation, number: int, element: ElementType, shape: Sequence[int]) -> None:
    found, expected = operation.operand_types[number], ValueType(element, tuple(shape))
    if found != expected:
        raise operation.error(f"expected {expected} as operand #{number}, got {found}")


def _dimension(operation: Operation, shape: Sequence[int]) -> int:
    dimension: int = operation.attributes["dimension"]
    if dimension >= len(shape):
        raise operation.error(f"expected a dimension below {len(shape)}, got {dimension}")
    return dimension


def check_arg_reduce(operation: Operation) -> None:
    check_elements(operation)
    check_destinations(operation)
    shape = _shape(operation, 0)
    dimension = _dimension(operation, shape)
    if shape[dimension] == 0:
        raise operation.error(f"(D2) expected elements along dimension {dimension} of the input, got none")
    rest = shape[:dimension] + shape[dimension + 1 :]
    _expect_type(operation, 1, operation.operand_types[0].element, rest)
    _expect_type(operation, 2, _I64, rest)


def check_scatter(operation: Operation) -> None:
    check_elements(operation)
    check_destinations(operation)
    _shape(operation, 0)
    original, indices = _shape(operation, 2), _shape(operation, 1)
    if operation.operand_types[1].element.name not in ("i32", "i64") or len(indices) != 2:
        raise operation.error(f"(D1) expected indices of i32 or i64 and rank 2, got {operation.operand_types[1]}")
    count, depth = indices
    if depth > len(original):
        raise operation.error(f"(D1) expected indices of at most {len(original)} dimensions, got {depth}")
    _expect_type(operation, 0, operation.operand_types[2].element, (count, *original[depth:]))


def check_scan(operation: Operation) -> None:
    check_elements(operation)
    check_destinations(operation)
    if operation.attributes["combine"] == "replace":
        raise operation.error("(D3) expected a reduction, got 'replace'")
    shape = _shape(operation, 0)
    _dimension(operation, shape)
    _expect_type(operation, 1, operation.operand_types[0].element, shape)


def check_sort(operation: Operation) -> None:
    check_elements(operation)
    count = len(operation.results)
    if len(operation.operands) != 2 * count:
        raise operation.error(f"(D2) expected {count} inputs and as many outputs, got {len(operation.operands)}")
    check_destinations(operation)
    shape = _shape(operation, 0)
    _dimension(operation, shape)
    for number in range(count):
        element = operation.operand_types[number].element
        _expect_type(operation, number, element, shape)
        _expect_type(operation, count + number, element, shape)


def check_random(operation: Operation) -> None:
    check_destinations(operation)
    for number, kind in enumerate(operation.operand_types[:2]):
        if kind != ValueType(_I64, None):
            raise operation.error(f"(R1) expected i64 as input #{number}, got {kind}")
    if operation.attributes["site"] >> 32:
        raise operation.error(f"(R1) expected a site of 32 bits, got {operation.attributes['site']}")
    element, found = _DRAWN[operation.attributes["distribution"]], operation.result_types[0]
    if found.element != element:
        raise operation.error(f"(R2) expected elements of {element.name} for this distribution, got {found}")
