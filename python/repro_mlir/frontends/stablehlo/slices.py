# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Slices with dynamic starts, which are clamped so that the slice lies within the tensor."""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import rule


@rule("stablehlo.dynamic_slice")
def dynamic_slice(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to a gather of one slice; a gather clamps starts as a dynamic slice does."""
    value, *starts = operation.operands
    sizes = list(ir.DenseI64ArrayAttr(operation.attributes["slice_sizes"]))
    rank = len(sizes)
    if not rank:
        return [value]
    numbers = hlo.GatherDimensionNumbers.get(
        offset_dims=list(range(rank)),
        collapsed_slice_dims=[],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=list(range(rank)),
        index_vector_dim=0,
    )
    place = emit.concatenate([emit.reshape(start, [1]) for start in starts], 0)
    return [hlo.gather(value, place, numbers, ir.DenseI64ArrayAttr.get(sizes))]


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Selects, per element, the update inside the slice and the old element outside it."""
    value, update, *starts = operation.operands
    shape, sizes = emit.shape_of(value), emit.shape_of(update)
    if not shape:
        return [update]
    if 0 in sizes:
        return [value]
    clamped = []
    for start, extent, size in zip(starts, shape, sizes, strict=True):
        # Starts have at most 64 bits, so only an unsigned start can become negative here.
        wide = emit.convert(start, emit.i64())
        if emit.is_unsigned(emit.element_of(start)):
            wide = emit.select(emit.compare("LT", wide, emit.like(wide, 0)), emit.like(wide, extent), wide)
        clamped.append(hlo.clamp(emit.like(wide, 0), wide, emit.like(wide, extent - size)))

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        old, new, *places = operands
        index = ir.IndexType.get()
        boolean = ir.IntegerType.get_signless(1)
        identity = ir.AffineMap.get_identity(len(shape))
        scalar = ir.AffineMap.get(len(shape), 0, [])

        def compute(values: list[ir.Value]) -> list[ir.Value]:
            def number(value: int) -> ir.Value:
                return build.scalar("arith.constant", [], index, value=ir.IntegerAttr.get(index, value))

            def compare(left: ir.Value, predicate: int, right: ir.Value) -> ir.Value:
                code = ir.IntegerAttr.get(emit.i64(), predicate)
                return build.scalar("arith.cmpi", [left, right], boolean, predicate=code)

            at: list[ir.Value] = []
            inside = build.scalar("arith.constant", [], boolean, value=ir.IntegerAttr.get(boolean, 1))
            zero = number(0)
            for dim, start in enumerate(values[1:-1]):
                here = build.scalar("linalg.index", [], index, dim=ir.IntegerAttr.get(emit.i64(), dim))
                start = build.scalar("arith.index_cast", [start], index)
                offset = build.scalar("arith.subi", [here, start], index)
                last = number(sizes[dim] - 1)
                for is_within in (compare(offset, 5, zero), compare(offset, 3, last)):
                    inside = build.scalar("arith.andi", [inside, is_within], boolean)
                offset = build.scalar("arith.maxsi", [offset, zero], index)
                at.append(build.scalar("arith.minsi", [offset, last], index))
            kind = build.types[0].element_type
            taken = build.scalar("tensor.extract", [new, *at], kind)
            return [build.scalar("arith.select", [inside, taken, values[0]], kind)]

        maps = [identity, *[scalar] * len(places), identity]
        output = build.empty(build.types[0])
        return build.structured([old, *places], [output], maps, ["parallel"] * len(shape), compute)

    return calls.call([value, update, *clamped], [operation.results[0].type], write)


@rule("stablehlo.pad")
def pad(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value] | None:
    """Rewrites negative edge padding as slices after the interior padding; returns None for other paddings. Removes a
    pad that adds and removes nothing."""
    low, high, interior = (
        list(ir.DenseI64ArrayAttr(operation.attributes[name]))
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if min((*low, *high), default=0) >= 0 and any((*low, *high, *interior)):
        return None
    value, padding = operation.operands
    return [emit.pad(value, padding, low, high, interior)]


@rule("stablehlo.concatenate")
def concatenate(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to tensor.concat, because StableHLO's lowering chooses each element by conditional operations."""
    operands = [value for value in operation.operands if emit.size(emit.shape_of(value))]
    if len(operands) <= 1:
        return operands or [emit.splat(emit.shape_of(operation.results[0]), emit.element_of(operation.results[0]), 0)]
    dimension = ir.IntegerAttr(operation.attributes["dimension"])

    def write(build: Builder, values: list[ir.Value]) -> list[ir.Value]:
        return build.create("tensor.concat", [values], build.types, {"dim": dimension})

    return calls.call(operands, [operation.results[0].type], write)
