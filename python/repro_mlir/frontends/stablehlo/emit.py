# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Helpers that create StableHLO operations at the current insertion point and location."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo


def ranked_type_of(value: ir.Value) -> ir.RankedTensorType:
    """Returns the ranked tensor type of a value."""
    return ir.RankedTensorType(value.type)


def shape_of(value: ir.Value) -> list[int]:
    """Returns the shape of a tensor."""
    return list(ranked_type_of(value).shape)


def element_of(value: ir.Value) -> ir.Type:
    """Returns the element type of a tensor."""
    return ranked_type_of(value).element_type


def is_unsigned(element: ir.Type) -> bool:
    """Whether the type is an unsigned integer type; i1 is not."""
    return isinstance(element, ir.IntegerType) and element.is_unsigned


def i64() -> ir.Type:
    """Returns the type of indices, i64."""
    return ir.IntegerType.get_signless(64)


def tensor(shape: Sequence[int], element: ir.Type) -> ir.RankedTensorType:
    """Returns the tensor type of a shape and element type."""
    return ir.RankedTensorType.get(list(shape), element)


def splat(shape: Sequence[int], element: ir.Type, number: float) -> ir.Value:
    """Creates a constant with every element equal to `number`, which the element type must represent."""
    if isinstance(element, ir.IntegerType):
        value: ir.Attribute = ir.IntegerAttr.get(element, int(number))
    else:
        value = ir.FloatAttr.get(element, number)
    return hlo.constant(ir.DenseElementsAttr.get_splat(tensor(shape, element), value))


def like(value: ir.Value, number: float) -> ir.Value:
    """Creates a constant as `splat` does, with the type of `value`."""
    return splat(shape_of(value), element_of(value), number)


def convert(value: ir.Value, element: ir.Type) -> ir.Value:
    """Converts the elements to another type."""
    if element_of(value) == element:
        return value
    return hlo.convert(tensor(shape_of(value), element), value)


def broadcast(value: ir.Value, shape: Sequence[int], dimensions: Sequence[int]) -> ir.Value:
    """Broadcasts a tensor to the shape; dimension i of `value` becomes dimension `dimensions[i]`."""
    if shape_of(value) == list(shape) and list(dimensions) == list(range(len(shape))):
        return value
    return hlo.broadcast_in_dim(tensor(shape, element_of(value)), value, ir.DenseI64ArrayAttr.get(list(dimensions)))


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Reshapes a tensor; the elements stay in row-major order."""
    if shape_of(value) == list(shape):
        return value
    return hlo.reshape(tensor(shape, element_of(value)), value)


def transpose(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Transposes a tensor: dimension i of the result is dimension `order[i]` of the tensor."""
    if list(order) == list(range(len(order))):
        return value
    return hlo.transpose(value, ir.DenseI64ArrayAttr.get(list(order)))


def cut(value: ir.Value, starts: Sequence[int], ends: Sequence[int], strides: Sequence[int] | None = None) -> ir.Value:
    """Slices a tensor from `starts` up to, but not including, `ends`."""
    strides = [1] * len(starts) if strides is None else strides
    whole = list(zip(starts, ends, strides, strict=True)) == [(0, extent, 1) for extent in shape_of(value)]
    if whole:
        return value
    parts = (ir.DenseI64ArrayAttr.get(list(each)) for each in (starts, ends, strides))
    return hlo.slice(value, *parts)


def pad(
    value: ir.Value, padding: ir.Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
) -> ir.Value:
    """Pads a tensor with the scalar `padding` at the edges and between elements; a negative edge cuts elements off."""
    interior = [0] * len(low) if interior is None else interior
    if any((*low, *high, *interior)):
        edges = [[max(each, 0) for each in low], [max(each, 0) for each in high], interior]
        if any(number for edge in edges for number in edge):
            value = hlo.pad(value, padding, *(ir.DenseI64ArrayAttr.get(list(each)) for each in edges))
        shape = shape_of(value)
        starts = [max(-each, 0) for each in low]
        value = cut(value, starts, [extent - max(-each, 0) for extent, each in zip(shape, high, strict=True)])
    return value


def concatenate(values: Sequence[ir.Value], dimension: int) -> ir.Value:
    """Concatenates tensors along a dimension."""
    return values[0] if len(values) == 1 else hlo.concatenate(list(values), dimension)


def iota(shape: Sequence[int], dimension: int, element: ir.Type | None = None) -> ir.Value:
    """Creates a tensor of positions along a dimension, of type i64 by default."""
    element = i64() if element is None else element
    return hlo.iota(tensor(shape, element), ir.IntegerAttr.get(i64(), dimension))


def compare(direction: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """Compares two tensors elementwise; `direction` is EQ, NE, LT, LE, GT or GE."""
    element = element_of(left)
    kind = "FLOAT" if not isinstance(element, ir.IntegerType) else "UNSIGNED" if is_unsigned(element) else "SIGNED"
    if isinstance(element, ir.IntegerType) and element.width == 1:
        kind = "UNSIGNED"
    return hlo.compare(
        left, right, hlo.ComparisonDirectionAttr.get(direction), compare_type=hlo.ComparisonTypeAttr.get(kind)
    )


def select(condition: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    """Selects the elements of `left` where the condition is true, else those of `right`."""
    return hlo.select(condition, left, right)


def reverse(value: ir.Value, dimensions: Sequence[int]) -> ir.Value:
    """Reverses the elements along the dimensions."""
    return hlo.reverse(value, ir.DenseI64ArrayAttr.get(list(dimensions))) if dimensions else value


def bitcast(value: ir.Value, element: ir.Type) -> ir.Value:
    """Reinterprets the bits of the elements as a type of the same width."""
    return hlo.bitcast_convert(tensor(shape_of(value), element), value)


def in_signed_order(value: ir.Value) -> ir.Value:
    """Maps unsigned integers to signed ones in the same order; returns other types unchanged."""
    element = element_of(value)
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return value
    width = element.width
    return bitcast(hlo.xor(value, like(value, 1 << (width - 1))), ir.IntegerType.get_signless(width))


def from_signed_order(value: ir.Value, element: ir.Type) -> ir.Value:
    """Inverts `in_signed_order` for elements of type `element`."""
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return value
    back = bitcast(value, element)
    return hlo.xor(back, like(back, 1 << (element.width - 1)))


def ordered(kind: str, value: ir.Value) -> ir.Value:
    """Applies `in_signed_order` if the combination compares elements: maximum or minimum."""
    return in_signed_order(value) if kind in ("maximum", "minimum") else value


def restored(kind: str, value: ir.Value, element: ir.Type) -> ir.Value:
    """Inverts `ordered`."""
    return from_signed_order(value, element) if kind in ("maximum", "minimum") else value


def size(shape: Sequence[int]) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(shape)
