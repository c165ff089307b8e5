# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reductions that are not folds: arg-max and arg-min (D2), reductions of empty tensors, and reductions over no
dimension."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.bodies import is_identity
from repro_mlir.frontends.stablehlo.calls import Builder, Calls, collect
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_KINDS = {"GT": "max", "LT": "min"}


@rule("stablehlo.reduce")
def reduce(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value] | None:
    """Lowers arg-max and arg-min to repro.arg_reduce. Reductions of an empty tensor or over no dimension need no
    operation; all others become folds."""
    count = len(operation.operands) // 2
    if not emit.size(emit.shape_of(operation.operands[0])):
        # The reduction of an empty tensor is the initial value.
        pairs = zip(list(operation.operands)[count:], operation.results, strict=True)
        return [emit.broadcast(value, emit.shape_of(result), []) for value, result in pairs]
    if not len(ir.DenseI64ArrayAttr(operation.attributes["dimensions"])):
        # As in XLA, each initial value is assumed to be an identity, so the results are the operands.
        return list(operation.operands)[:count]
    kind = _arg_kind(operation)
    if kind is None:
        for inner in collect(operation):
            if inner.name.startswith("chlo."):
                raise Unsupported(f"is not supported with {inner.name} in its body")
        return None
    value, places, *_ = operation.operands
    (dimension,) = ir.DenseI64ArrayAttr(operation.attributes["dimensions"])
    element = emit.element_of(value)
    key = emit.in_signed_order(value)
    shape = emit.shape_of(operation.results[0])

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        described = {
            "kind": ir.Attribute.parse(f"#repro<arg_kind {kind}>"),
            "dimension": ir.IntegerAttr.get(emit.i64(), dimension),
        }
        return build.create(
            "repro.arg_reduce", [operands, [build.empty(each) for each in build.types]], build.types, described
        )

    kinds = [emit.tensor(shape, emit.element_of(key)), emit.tensor(shape, emit.i64())]
    found, at = calls.call([key], kinds, write)
    return [emit.from_signed_order(found, element), emit.convert(at, emit.element_of(places))]


def _arg_kind(operation: ir.Operation) -> str | None:
    """Returns max or min if the body is JAX's for arg-max or arg-min of elements and positions; else None."""
    if len(operation.operands) != 4 or len(ir.DenseI64ArrayAttr(operation.attributes["dimensions"])) != 1:
        return None
    value, places, first, at = operation.operands
    (dimension,) = ir.DenseI64ArrayAttr(operation.attributes["dimensions"])
    source = places.owner
    if isinstance(source, ir.Block) or source.operation.name != "stablehlo.iota" or not emit.shape_of(value)[dimension]:
        return None
    if ir.IntegerAttr(source.operation.attributes["iota_dimension"]).value != dimension:
        return None
    steps = _steps(operation.regions[0].blocks[0])
    for direction, kind in _KINDS.items():
        if steps == _arg_steps(direction) and is_identity(first, f"{kind}imum") and is_identity(at, "add"):
            return kind
    return None


def _steps(block: ir.Block) -> list[tuple[str, ...]]:
    """Returns the operations of a body, each as its name and the numbers of its operands. The arguments of the body are
    numbered first, then the results in order."""
    numbers: dict[ir.Value, str] = {value: str(number) for number, value in enumerate(block.arguments)}
    steps = []
    for each in block.operations:
        operation = each.operation
        name = operation.name.removeprefix("stablehlo.")
        if name == "compare":
            name = hlo.ComparisonDirectionAttr(operation.attributes["comparison_direction"]).value
        steps.append((name, *(numbers.get(value, "") for value in operation.operands)))
        for result in operation.results:
            numbers[result] = str(len(numbers))
    return steps


def _arg_steps(direction: str) -> list[tuple[str, ...]]:
    """Returns the body of JAX's arg-max or arg-min in the format of `_steps`. Operands 0 and 2 are elements, 1 and 3
    their positions. Element 0 is selected if it is NaN, if it wins by `direction`, or if the elements are equal and its
    position comes first."""
    return [
        (direction, "0", "2"),
        ("NE", "0", "0"),
        ("or", "4", "5"),
        ("EQ", "0", "2"),
        ("LT", "1", "3"),
        ("and", "7", "8"),
        ("or", "6", "9"),
        ("select", "6", "0", "2"),
        ("select", "10", "1", "3"),
        ("return", "11", "12"),
    ]
