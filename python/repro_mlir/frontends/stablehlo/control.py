# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Inlines calls and composites."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Calls, functions
from repro_mlir.frontends.stablehlo.errors import error_at
from repro_mlir.frontends.stablehlo.jaxlib_internals import inline_call
from repro_mlir.frontends.stablehlo.ordering import approximate_top_k
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_IDENTITIES = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"}
"""Custom calls that only describe the placement of a tensor."""

_MOST_CALLS = 100_000
"""The limit on the number of inlined calls; calls in a function count each time that the function is inlined."""


def inline(module: ir.Module) -> None:
    """Inlines the called functions and composites; only main remains.

    Raises:
      CaptureError: a function is missing, a function calls itself, or there are too many calls.
    """
    named = {ir.StringAttr(each.attributes["sym_name"]).value: each for each in functions(module)}
    main = named.pop("main")
    rounds = count = 0
    while found := _collect_calls(main):
        rounds, count = rounds + 1, count + len(found)
        if rounds > len(named) + 1:
            # Each round inlines one level of calls. Unless a function calls itself, there are no more levels than
            # functions.
            raise error_at(found[0].location, "recursive functions are not supported")
        if count > _MOST_CALLS:
            raise error_at(found[0].location, f"expected at most {_MOST_CALLS:,} function calls, got {count:,}")
        for operation in found:
            key = "callee" if operation.name == "func.call" else "decomposition"
            symbol = ir.FlatSymbolRefAttr(operation.attributes[key]).value
            if symbol not in named:
                raise error_at(operation.location, f"function {symbol} is not in the module")
            values = inline_call(operation, named[symbol])
            for old, new in zip(operation.results, values, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
    for other in [each.operation for each in module.body.operations]:
        if other != main:
            other.erase()


def _collect_calls(main: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name in ("func.call", "stablehlo.composite"):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    main.walk(look)
    return found


@rule("stablehlo.custom_call")
def custom_call(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Returns the operands of a call that only describes the placement of a tensor, or the lowered results of
    ApproxTopK; rejects any other call, because its code is outside of the module.
    """
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    if target in _IDENTITIES and len(operation.operands) == len(operation.results):
        return list(operation.operands)
    if target == "ApproxTopK":
        return approximate_top_k(operation, calls)
    raise Unsupported(f"of {target} is not supported: it is code outside of the module")


@rule("stablehlo.set_dimension_size")
def set_size(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to the operand; supported only if the size equals the dimension's extent."""
    value, size = operation.operands
    extent = emit.shape_of(value)[ir.IntegerAttr(operation.attributes["dimension"]).value]
    if isinstance(size.owner, ir.Block) or size.owner.operation.name != "stablehlo.constant":
        raise Unsupported("of a size that depends on values is not supported")
    given = ir.IntegerAttr(ir.DenseElementsAttr(size.owner.operation.attributes["value"]).get_splat_value()).value
    if given != extent:
        raise Unsupported(f"is not supported with the size {given} for the extent {extent}")
    return [value]


@rule("sdy.sharding_constraint")
def sharding(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Drops the constraint: the placement of a tensor is not part of a program."""
    return list(operation.operands)
