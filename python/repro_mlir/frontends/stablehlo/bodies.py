# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Analyzes and applies the regions of reductions, scatters and windows."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.rules import Unsupported

COMBINATIONS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "maximum",
    "stablehlo.minimum": "minimum",
}


def combination(region: ir.Region) -> str | None:
    """Returns what a body with two arguments computes: add, mul, maximum, minimum or replace (the second argument);
    None for any other body."""
    block = region.blocks[0]
    operations = list(block.operations)
    returned = operations[-1].operands
    if len(block.arguments) != 2 or len(returned) != 1:
        return None
    old, new = block.arguments
    if len(operations) == 1:
        return "replace" if returned[0] == new else None
    operation = operations[0].operation
    if len(operations) != 2 or list(operation.results) != list(returned) or len(operation.operands) != 2:
        return None
    if {operation.operands[0] == old, operation.operands[1] == old} != {True, False}:
        return None
    if {operation.operands[0] == new, operation.operands[1] == new} != {True, False}:
        return None
    is_truth = ir.RankedTensorType(old.type).element_type == ir.IntegerType.get_signless(1)
    if operation.name in ("stablehlo.and", "stablehlo.or") and is_truth:
        return "minimum" if operation.name == "stablehlo.and" else "maximum"
    if is_truth and operation.name in ("stablehlo.add", "stablehlo.multiply"):
        return "maximum" if operation.name == "stablehlo.add" else "minimum"
    return COMBINATIONS.get(operation.name)


def apply_elementwise(region: ir.Region, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Applies a body written for scalars to the elements of tensors of the same shape."""
    shape = emit.shape_of(values[0])
    block = region.blocks[0]
    known: dict[ir.Value, ir.Value] = dict(zip(block.arguments, values, strict=True))
    for each in block.operations:
        operation = each.operation
        if operation.name == "stablehlo.return":
            return [_whole(known, value, shape) for value in operation.operands]
        if operation.name == "stablehlo.constant":
            result = operation.clone().results[0]
            known[operation.results[0]] = emit.broadcast(result, shape, [])
            continue
        if len(operation.regions):
            raise Unsupported(f"with {operation.name} in its body is not supported")
        kinds = [emit.tensor(shape, emit.element_of(result)) for result in operation.results]
        made = ir.Operation.create(
            operation.name,
            results=kinds,
            operands=[_whole(known, value, shape) for value in operation.operands],
            attributes=dict(operation.attributes.items()),
        )
        known |= dict(zip(operation.results, made.results, strict=True))
    raise AssertionError("a body ends with its return")


def _whole(known: dict[ir.Value, ir.Value], value: ir.Value, shape: Sequence[int]) -> ir.Value:
    # A value defined outside the body is a scalar, so it is broadcast.
    return known[value] if value in known else emit.broadcast(value, shape, [])


def is_identity(init: ir.Value, kind: str) -> bool:
    """Whether an initial value is a constant that is the identity of the combination, such as 0 for add."""
    owner = init.owner
    while not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.broadcast_in_dim":
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        return False
    attribute = ir.DenseElementsAttr(owner.operation.attributes["value"])
    if not attribute.is_splat:
        return False
    splat = attribute.get_splat_value()
    element = emit.element_of(init)
    if isinstance(element, ir.IntegerType):
        number = ir.IntegerAttr(splat).value
        low = 0 if emit.is_unsigned(element) else -(1 << (element.width - 1))
        high = low + (1 << element.width) - 1
        return bool(number == {"add": 0, "mul": 1, "maximum": low, "minimum": high}[kind])
    expected = {"add": 0.0, "mul": 1.0, "maximum": float("-inf"), "minimum": float("inf")}[kind]
    return bool(ir.FloatAttr(splat).value == expected)
