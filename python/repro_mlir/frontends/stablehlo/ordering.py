# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Sorts and top-k (D2)."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_DIRECTIONS = {"LT": "ascending", "GT": "descending"}


@rule("stablehlo.sort")
def sort(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to one stable sort per key, starting with the last key."""
    dimension = ir.IntegerAttr(operation.attributes["dimension"]).value
    values = list(operation.operands)
    dimension %= max(len(emit.shape_of(values[0])), 1)
    keys = _keys(operation.regions[0])
    for number, direction in reversed(keys):
        order = [number, *(other for other in range(len(values)) if other != number)]
        moved = _sorted([values[other] for other in order], direction, dimension, calls)
        for place, value in zip(order, moved, strict=True):
            values[place] = value
    return values


@rule("chlo.top_k")
def top_k(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to the first elements of a descending sort, with their positions; NaN is the greatest."""
    value = operation.operands[0]
    shape = emit.shape_of(value)
    last = len(shape) - 1
    places = emit.iota(shape, last, ir.RankedTensorType(operation.results[1].type).element_type)
    found = _sorted([value, places], "descending", last, calls)
    return _first(found, operation)


def approximate_top_k(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers JAX's custom call ApproxTopK to the exact result, which the call's definition allows."""
    comparator = str(operation.attributes["called_computations"])
    settings = ir.DictAttr(operation.attributes["mhlo.backend_config"])
    if "top_k_gt_" not in comparator and "top_k_lt_" not in comparator:
        raise Unsupported(f"of ApproxTopK is only supported with JAX's comparators, got {comparator}")
    direction = "descending" if "top_k_gt_" in comparator else "ascending"
    dimension = ir.IntegerAttr(settings["reduction_dim"]).value
    return _first(_sorted(list(operation.operands)[:2], direction, dimension, calls), operation)


def _first(values: list[ir.Value], operation: ir.Operation) -> list[ir.Value]:
    """Slices each tensor to the shape of the operation's result."""
    return [
        emit.cut(value, [0] * len(emit.shape_of(value)), emit.shape_of(result))
        for value, result in zip(values, operation.results, strict=True)
    ]


def _sorted(values: list[ir.Value], direction: str, dimension: int, calls: Calls) -> list[ir.Value]:
    """Sorts all tensors by the elements of the first one, with a stable sort."""
    elements = [emit.element_of(value) for value in values]
    key = emit.in_signed_order(values[0])

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        described = {
            "direction": ir.Attribute.parse(f"#repro<direction {direction}>"),
            "dimension": ir.IntegerAttr.get(emit.i64(), dimension),
        }
        outputs = [build.empty(kind) for kind in build.types]
        return build.create("repro.sort", [operands, outputs], build.types, described)

    moved = calls.call([key, *values[1:]], [key.type, *(value.type for value in values[1:])], write)
    return [emit.from_signed_order(moved[0], elements[0]), *moved[1:]]


def _keys(region: ir.Region) -> list[tuple[int, str]]:
    """Returns the numbers of the operands that a comparator compares, most significant first, each with its direction.

    Raises:
      Unsupported: the comparator does not compare keys by less or greater, one after the other.
    """
    block = region.blocks[0]
    arguments: list[ir.Value] = list(block.arguments)
    operations = list(block.operations)
    return _compared(operations[-1].operands[0], arguments)


def _compared(value: ir.Value, arguments: list[ir.Value]) -> list[tuple[int, str]]:
    operation = _owner(value)
    if operation is not None and operation.name == "stablehlo.compare":
        number = _pair(operation, arguments)
        direction = _DIRECTIONS.get(_direction(operation))
        if number is not None and direction is not None:
            return [(number, direction)]
    if operation is not None and operation.name == "stablehlo.or":
        for first, rest in (operation.operands, reversed(list(operation.operands))):
            equal = _owner(rest)
            if equal is None or equal.name != "stablehlo.and":
                continue
            for is_equal, others in (equal.operands, reversed(list(equal.operands))):
                compared = _owner(is_equal)
                if compared is None or compared.name != "stablehlo.compare" or _direction(compared) != "EQ":
                    continue
                key = _compared(first, arguments)
                if len(key) == 1 and _pair(compared, arguments) == key[0][0]:
                    return [*key, *_compared(others, arguments)]
    raise Unsupported("is only supported with a comparator that compares one or more keys by less or greater")


def _owner(value: ir.Value) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _direction(operation: ir.Operation) -> str:
    direction: str = hlo.ComparisonDirectionAttr(operation.attributes["comparison_direction"]).value
    return direction


def _pair(operation: ir.Operation, arguments: list[ir.Value]) -> int | None:
    """Returns the number of the operand whose two elements the operation compares (see `_plain`); None if it compares
    anything else."""
    left, right = (_plain(value) for value in operation.operands)
    if left in arguments and right in arguments:
        first, second = arguments.index(left), arguments.index(right)
        if first % 2 == 0 and second == first + 1:
            return first // 2
    return None


def _plain(value: ir.Value) -> ir.Value:
    """Looks through selects that replace -0 by 0 or every NaN by one NaN, and returns the value that the first of them
    reads. These selects do not change the order that (D2) defines."""
    operation = _owner(value)
    while operation is not None and operation.name == "stablehlo.select":
        condition = _owner(operation.operands[0])
        if condition is None or condition.name != "stablehlo.compare":
            break
        rest = operation.operands[2]
        left, right = condition.operands
        is_nan = _direction(condition) == "NE" and left == right and _plain(rest) == _plain(left)
        is_zero = _direction(condition) == "EQ" and left == rest
        if not (is_nan or is_zero):
            break
        value, operation = rest, _owner(rest)
    return value
