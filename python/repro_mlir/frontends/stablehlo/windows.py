# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Window reductions, including prefix reductions, and their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from repro_mlir.frontends.stablehlo import emit
from repro_mlir.frontends.stablehlo.bodies import apply_elementwise, combination, is_identity
from repro_mlir.frontends.stablehlo.calls import Builder, Calls
from repro_mlir.frontends.stablehlo.rules import Unsupported, rule

_MOST_POSITIONS = 1024
"""The limit on the number of positions of a window that is unrolled position by position."""

_STEPS = {
    "add": ("arith.addf", "arith.addi"),
    "mul": ("arith.mulf", "arith.muli"),
    "maximum": ("arith.maximumf", "arith.maxsi"),
    "minimum": ("arith.minimumf", "arith.minsi"),
}
"""Maps each combination to its operation on floats and its operation on integers."""


class _Window:
    """The window of an operation: extents, strides, dilations and padding for each dimension."""

    def __init__(self, operation: ir.Operation) -> None:
        attributes = operation.attributes
        self.sizes = list(ir.DenseI64ArrayAttr(attributes["window_dimensions"]))
        rank = len(self.sizes)

        def entries(name: str) -> list[int]:
            return list(ir.DenseI64ArrayAttr(attributes[name])) if name in attributes else [1] * rank

        self.strides = entries("window_strides")
        self.base_dilations = entries("base_dilations")
        self.dilations = entries("window_dilations")
        padding = np.zeros((rank, 2), np.int64)
        if "padding" in attributes:
            padding[:] = np.array(ir.DenseElementsAttr(attributes["padding"])).reshape(rank, 2)
        self.low, self.high = ([int(each) for each in padding[:, side]] for side in (0, 1))

    def pad(self, value: ir.Value, padding: ir.Value) -> ir.Value:
        """Pads the tensor at the edges and, for a base dilation, between its elements."""
        return emit.pad(value, padding, self.low, self.high, [each - 1 for each in self.base_dilations])

    def positions(self) -> list[tuple[int, ...]]:
        """Returns all positions in a window, row-major. Raises Unsupported if there are too many."""
        count = emit.size(self.sizes)
        if count > _MOST_POSITIONS:
            raise Unsupported(f"with such a function requires at most {_MOST_POSITIONS} positions, got {count}")
        return list(itertools.product(*map(range, self.sizes)))

    def taken(self, padded: ir.Value, position: Sequence[int], results: Sequence[int]) -> ir.Value:
        """Returns, for each window, the element at one position of the window."""
        starts = [at * dilation for at, dilation in zip(position, self.dilations, strict=True)]
        ends = [
            start + (count - 1) * stride + 1 for start, count, stride in zip(starts, results, self.strides, strict=True)
        ]
        return emit.cut(padded, starts, ends, self.strides)

    def scanned(self, shape: Sequence[int]) -> tuple[int, bool] | None:
        """Returns the dimension of a prefix reduction, and whether the reduction starts at the dimension's end; None
        for other windows."""
        wide = [dim for dim, size in enumerate(self.sizes) if size != 1]
        plain = {*self.strides, *self.dilations, *self.base_dilations} <= {1}
        if not plain or len(wide) != 1:
            return None
        dim = wide[0]
        others = [(self.low[i], self.high[i]) for i in range(len(shape)) if i != dim]
        edges = self.low[dim], self.high[dim]
        last = shape[dim] - 1
        if self.sizes[dim] != shape[dim] or any(each != (0, 0) for each in others):
            return None
        return {(last, 0): (dim, False), (0, last): (dim, True)}.get(edges)


@rule("stablehlo.reduce_window")
def reduce_window(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Lowers to repro.scan, to a fold over the positions of a window, or to the body, applied to one position of the
    window after another."""
    window = _Window(operation)
    count = len(operation.results)
    values, inits = list(operation.operands)[:count], list(operation.operands)[count:]
    results = list(ir.RankedTensorType(operation.results[0].type).shape)
    if emit.size(results) == 0:
        return [emit.splat(results, emit.element_of(value), 0) for value in values]
    kind = combination(operation.regions[0])
    if kind in _STEPS and count == 1:
        element = emit.element_of(values[0])
        scanned = window.scanned(emit.shape_of(values[0]))
        if scanned is not None and is_identity(inits[0], kind):
            return [_scan(values[0], kind, *scanned, calls)]
        whole = emit.ordered(kind, window.pad(values[0], inits[0]))
        start = emit.broadcast(emit.ordered(kind, inits[0]), results, [])
        return [emit.restored(kind, _fold(whole, start, kind, window, calls), element)]
    padded = [window.pad(value, init) for value, init in zip(values, inits, strict=True)]
    totals = [emit.broadcast(init, results, []) for init in inits]
    for position in window.positions():
        taken = [window.taken(each, position, results) for each in padded]
        totals = apply_elementwise(operation.regions[0], [*totals, *taken])
    return totals


def _scan(value: ir.Value, kind: str, dimension: int, is_reversed: bool, calls: Calls) -> ir.Value:
    element = emit.element_of(value)
    along = [dimension] if is_reversed else []
    signed = emit.reverse(emit.ordered(kind, value), along)

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        described = {
            "combine": ir.Attribute.parse(f"#repro<combine {kind}>"),
            "dimension": ir.IntegerAttr.get(emit.i64(), dimension),
        }
        return build.create("repro.scan", [operands, [build.empty(build.types[0])]], build.types, described)

    result = calls.call([signed], [signed.type], write)[0]
    return emit.restored(kind, emit.reverse(result, along), element)


def _fold(padded: ir.Value, start: ir.Value, kind: str, window: _Window, calls: Calls) -> ir.Value:
    """Reduces over the dimensions in which a window has more than one position."""
    wide = [dim for dim, size in enumerate(window.sizes) if size != 1]
    element = emit.element_of(padded)
    if isinstance(element, ir.IntegerType) and element.width == 1:
        names = {"maximum": "arith.ori", "minimum": "arith.andi"}
        step = names[kind]
    else:
        step = _STEPS[kind][isinstance(element, ir.IntegerType)]
    rank = len(window.sizes)

    def write(build: Builder, operands: list[ir.Value]) -> list[ir.Value]:
        loops = [ir.AffineExpr.get_dim(dim) for dim in range(rank + len(wide))]
        places = []
        for dim in range(rank):
            place: ir.AffineExpr = loops[dim] * window.strides[dim]
            if dim in wide:
                place = place + loops[rank + wide.index(dim)] * window.dilations[dim]
            places.append(place)
        # The shape of this operand defines the number of positions in a window.
        extent = build.empty(emit.tensor([window.sizes[dim] for dim in wide], build.types[0].element_type))
        maps = [ir.AffineMap.get(len(loops), 0, each) for each in (places, loops[rank:], loops[:rank])]
        iterators = ["parallel"] * rank + ["reduction"] * len(wide)

        def compute(values: list[ir.Value]) -> list[ir.Value]:
            return [build.scalar(step, [values[2], values[0]], build.types[0].element_type)]

        return build.structured([operands[0], extent], [operands[1]], maps, iterators, compute)

    return calls.call([padded, start], [start.type], write)[0]


@rule("stablehlo.select_and_scatter")
def select_and_scatter(operation: ir.Operation, calls: Calls) -> Sequence[ir.Value]:
    """Adds each element of the source at the position selected in its window, in the order of positions."""
    value, source, init = operation.operands
    window = _Window(operation)
    select_region, scatter_region = operation.regions
    if combination(scatter_region) != "add":
        raise Unsupported("is only supported with add as its scatter function")
    shape, results = emit.shape_of(value), emit.shape_of(source)
    padded = window.pad(value, init)
    positions = window.positions()
    # Padding is never selected, whatever its value.
    boolean = ir.IntegerType.get_signless(1)
    inside = window.pad(emit.splat(shape, boolean, 1), emit.splat([], boolean, 0))
    chosen, is_chosen = (window.taken(each, positions[0], results) for each in (padded, inside))
    where = emit.splat(results, emit.i64(), 0)
    for number, position in enumerate(positions[1:], 1):
        other, is_other = (window.taken(each, position, results) for each in (padded, inside))
        keeps = apply_elementwise(select_region, [chosen, other])[0]
        keeps = hlo.or_(hlo.and_(keeps, is_chosen), hlo.not_(is_other))
        chosen = emit.select(keeps, chosen, other)
        is_chosen = hlo.or_(is_chosen, is_other)
        where = emit.select(keeps, where, emit.like(where, number))
    zero = emit.splat([], emit.element_of(source), 0)
    whole = emit.shape_of(padded)
    total = emit.broadcast(init, whole, [])
    for number, position in enumerate(positions):
        is_here = emit.compare("EQ", where, emit.like(where, number))
        part = emit.select(hlo.and_(is_here, is_chosen), source, emit.like(source, 0))
        low = [at * dilation for at, dilation in zip(position, window.dilations, strict=True)]
        spans = [(count - 1) * stride + 1 for count, stride in zip(results, window.strides, strict=True)]
        high = [extent - start - span for extent, start, span in zip(whole, low, spans, strict=True)]
        total = hlo.add(total, emit.pad(part, zero, low, high, [stride - 1 for stride in window.strides]))
    ends = [start + extent for start, extent in zip(window.low, shape, strict=True)]
    return [emit.cut(total, window.low, ends)]
