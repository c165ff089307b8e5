# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces operations that StableHLO's own lowering lacks or gets wrong.

Each such operation is a call of a private function while StableHLO lowers the rest; afterwards, operations in generic
form replace the call.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from jaxlib.mlir import ir

from repro_mlir.frontends.base.generic_form import OperationWriter

_PREFIX = "repro."

Writer = Callable[["Builder", list[ir.Value]], Sequence[ir.Value]]
"""Writes the operations that replace one call: accepts the call's operands, returns a value for each result."""


def signless(kind: ir.Type) -> ir.Type:
    """Returns the type with signless integers: after the StableHLO lowering, only operations have a signedness."""
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(kind.shape, signless(kind.element_type))
    if isinstance(kind, ir.IntegerType) and not kind.is_signless:
        return ir.IntegerType.get_signless(kind.width)
    return kind


class Builder(OperationWriter):
    """Writes operations in generic form that replace one call.

    Attributes:
      types: the types of the call's results.
    """

    def __init__(self, call: ir.Operation) -> None:
        super().__init__(ir, call)
        self.types = [ir.RankedTensorType(signless(value.type)) for value in call.results]

    def empty(self, kind: ir.Type) -> ir.Value:
        """Creates a tensor with undefined elements, as the output of an operation that does not read the output."""
        return self.create("tensor.empty", [[]], [kind])[0]

    def scalar(self, name: str, operands: Sequence[ir.Value], kind: ir.Type, **attributes: ir.Attribute) -> ir.Value:
        """Creates an operation with one result at the current insertion point, inside a body."""
        return ir.Operation.create(
            name, operands=list(operands), results=[kind], attributes=attributes, loc=self._location
        ).result

    def elementwise(self, operands: Sequence[ir.Value], compute: Callable[[list[ir.Value]], ir.Value]) -> ir.Value:
        """Computes the first result elementwise from operands of the same shape."""
        kind = self.types[0]
        identity = ir.AffineMap.get_identity(kind.rank)
        maps = [identity] * (len(operands) + 1)
        return self.structured(
            operands, [self.empty(kind)], maps, ["parallel"] * kind.rank, lambda values: [compute(values[:-1])]
        )[0]


class Calls:
    """The calls in a module that are replaced after the lowering."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._writers: dict[str, Writer] = {}

    def call(self, operands: Sequence[ir.Value], results: Sequence[ir.Type], write: Writer) -> list[ir.Value]:
        """Creates a call at the current insertion point and location; `write` replaces the call after the lowering."""
        symbol = f"{_PREFIX}{len(self._writers)}"
        self._writers[symbol] = write
        kind = ir.FunctionType.get([value.type for value in operands], list(results))
        with ir.InsertionPoint.at_block_begin(self._module.body):
            ir.Operation.create(
                "func.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "function_type": ir.TypeAttr.get(kind),
                },
            )
        return list(
            ir.Operation.create(
                "func.call",
                operands=list(operands),
                results=list(results),
                attributes={"callee": ir.FlatSymbolRefAttr.get(symbol)},
            ).results
        )

    def write(self) -> None:
        """Replaces all calls after the lowering and makes all integer types signless."""
        module = self._module
        for operation in collect(module):
            for region in operation.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        argument.set_type(signless(argument.type))
        for operation in collect(module, ("func.call", "builtin.unrealized_conversion_cast")):
            operands = list(operation.operands)
            if operation.name == "func.call":
                writer = self._writers[ir.FlatSymbolRefAttr(operation.attributes["callee"]).value]
                results = writer(Builder(operation), operands)
            else:
                results = operands
            for old, new in zip(operation.results, results, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
        for operation in collect(module):
            for result in operation.results:
                result.set_type(signless(result.type))
        for each in list(module.body.operations):
            if ir.StringAttr(each.attributes["sym_name"]).value in self._writers:
                each.operation.erase()
        for function in functions(module):
            block = function.regions[0].blocks[0]
            returned = block.operations[len(block.operations) - 1].operands
            kind = ir.FunctionType.get([each.type for each in block.arguments], [each.type for each in returned])
            function.attributes["function_type"] = ir.TypeAttr.get(kind)


def functions(module: ir.Module) -> list[ir.Operation]:
    """Returns the functions that have a body."""
    found = [each.operation for each in module.body.operations]
    return [each for each in found if each.name == "func.func" and len(each.regions[0].blocks)]


def collect(
    within: ir.Module | ir.Operation, names: Container[str] | None = None, *, is_outermost: bool = False
) -> list[ir.Operation]:
    """Returns the operations with these names, or by default all operations, in order. With `is_outermost`, leaves out
    operations inside an operation that is returned."""
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if names is None or operation.name in names:
            found.append(operation)
            return ir.WalkResult.SKIP if is_outermost else ir.WalkResult.ADVANCE
        return ir.WalkResult.ADVANCE

    within.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    return found
