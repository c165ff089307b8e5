# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""StableHLO operations, written at the present insertion point and location."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo


def kind_of(value: ir.Value) -> ir.RankedTensorType:
    """The type of a tensor."""
    return ir.RankedTensorType(value.type)


def shape_of(value: ir.Value) -> list[int]:
    """The extents of a tensor."""
    return list(kind_of(value).shape)


def element_of(value: ir.Value) -> ir.Type:
    """The element type of a tensor."""
    return kind_of(value).element_type


def is_unsigned(element: ir.Type) -> bool:
    """Whether integers of the type are unsigned; i1 is not."""
    return isinstance(element, ir.IntegerType) and element.is_unsigned


def i64() -> ir.Type:
    """The type of indices."""
    return ir.IntegerType.get_signless(64)


def tensor(shape: Sequence[int], element: ir.Type) -> ir.RankedTensorType:
    """The type of a tensor."""
    return ir.RankedTensorType.get(list(shape), element)


def splat(shape: Sequence[int], element: ir.Type, number: float) -> ir.Value:
    """A constant, each of whose elements is the number, which the type holds."""
    if isinstance(element, ir.IntegerType):
        value: ir.Attribute = ir.IntegerAttr.get(element, int(number))
    else:
        value = ir.FloatAttr.get(element, number)
    return hlo.constant(ir.DenseElementsAttr.get_splat(tensor(shape, element), value))


def like(value: ir.Value, number: float) -> ir.Value:
    """As `splat`, of the type of a tensor."""
    return splat(shape_of(value), element_of(value), number)


def convert(value: ir.Value, element: ir.Type) -> ir.Value:
    """The elements in another type."""
    if element_of(value) == element:
        return value
    return hlo.convert(tensor(shape_of(value), element), value)


def broadcast(value: ir.Value, shape: Sequence[int], dimensions: Sequence[int]) -> ir.Value:
    """A tensor of the shape, whose `dimensions` are those of `value`."""
    if shape_of(value) == list(shape) and list(dimensions) == list(range(len(shape))):
        return value
    return hlo.broadcast_in_dim(tensor(shape, element_of(value)), value, ir.DenseI64ArrayAttr.get(list(dimensions)))


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The elements, row-major, in another shape."""
    if shape_of(value) == list(shape):
        return value
    return hlo.reshape(tensor(shape, element_of(value)), value)


def transpose(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Dimension i of the result is dimension `order[i]` of the tensor."""
    if list(order) == list(range(len(order))):
        return value
    return hlo.transpose(value, ir.DenseI64ArrayAttr.get(list(order)))


def cut(value: ir.Value, starts: Sequence[int], ends: Sequence[int], strides: Sequence[int] | None = None) -> ir.Value:
    """The elements from `starts` to before `ends`."""
    strides = [1] * len(starts) if strides is None else strides
    whole = list(zip(starts, ends, strides, strict=True)) == [(0, extent, 1) for extent in shape_of(value)]
    if whole:
        return value
    parts = (ir.DenseI64ArrayAttr.get(list(each)) for each in (starts, ends, strides))
    return hlo.slice(value, *parts)


def pad(
    value: ir.Value, padding: ir.Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
) -> ir.Value:
    """The tensor with elements of `padding`, of shape [], around and between its elements; a negative number cuts."""
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
    """The tensors one after the other."""
    return values[0] if len(values) == 1 else hlo.concatenate(list(values), dimension)


def iota(shape: Sequence[int], dimension: int, element: ir.Type | None = None) -> ir.Value:
    """The position along a dimension; of type i64 where no other is given."""
    element = i64() if element is None else element
    return hlo.iota(tensor(shape, element), ir.IntegerAttr.get(i64(), dimension))


def compare(direction: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """A comparison by elements: EQ, NE, LT, LE, GT or GE."""
    element = element_of(left)
    kind = "FLOAT" if not isinstance(element, ir.IntegerType) else "UNSIGNED" if is_unsigned(element) else "SIGNED"
    if isinstance(element, ir.IntegerType) and element.width == 1:
        kind = "UNSIGNED"
    return hlo.compare(
        left, right, hlo.ComparisonDirectionAttr.get(direction), compare_type=hlo.ComparisonTypeAttr.get(kind)
    )


def select(condition: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
    """The elements of `left` where the condition holds, else those of `right`."""
    return hlo.select(condition, left, right)


def reverse(value: ir.Value, dimensions: Sequence[int]) -> ir.Value:
    """The tensor with its elements in the opposite order along the dimensions."""
    return hlo.reverse(value, ir.DenseI64ArrayAttr.get(list(dimensions))) if dimensions else value


def bitcast(value: ir.Value, element: ir.Type) -> ir.Value:
    """The bits of the elements in a type of the same width."""
    return hlo.bitcast_convert(tensor(shape_of(value), element), value)


def in_signed_order(value: ir.Value) -> ir.Value:
    """Unsigned integers as signed ones in the same order; others as they are."""
    element = element_of(value)
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return value
    width = element.width
    return bitcast(hlo.xor(value, like(value, 1 << (width - 1))), ir.IntegerType.get_signless(width))


def from_signed_order(value: ir.Value, element: ir.Type) -> ir.Value:
    """What `in_signed_order` has made of integers of `element`, as they were."""
    if not isinstance(element, ir.IntegerType) or not element.is_unsigned:
        return value
    back = bitcast(value, element)
    return hlo.xor(back, like(back, 1 << (element.width - 1)))


def ordered(kind: str, value: ir.Value) -> ir.Value:
    """As `in_signed_order` for what a combination compares: maximum and minimum."""
    return in_signed_order(value) if kind in ("maximum", "minimum") else value


def restored(kind: str, value: ir.Value, element: ir.Type) -> ir.Value:
    """As `from_signed_order`, for what `ordered` has made."""
    return from_signed_order(value, element) if kind in ("maximum", "minimum") else value


def size(shape: Sequence[int]) -> int:
    """The number of elements."""
    return math.prod(shape)
