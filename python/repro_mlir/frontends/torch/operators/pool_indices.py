# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes the positions of maxima in pooling windows, because torch-mlir's lowering loses NaN and selects padding."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_mlir_names import ir

aten = torch.ops.aten

_SPATIAL = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}


def is_pool(function: Any) -> bool:
    """Whether `function` returns the maxima of windows and their positions."""
    return function in _SPATIAL


def call_pool(
    pool: Callable[..., tuple[torch.Tensor, torch.Tensor]], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Calls a pooling and computes the positions of the maxima as PyTorch defines them.

    Args:
      pool: computes the pooling from a tensor and the other arguments of `function`; only its maxima are used.
      function, args, kwargs: the call.
    Returns:
      the maxima, and their positions (i64, flat over the spatial dimensions). The position in a window is that of its
      last NaN; without a NaN, that of the first element that is not padding and equals the maximum.
    """
    spatial = _SPATIAL[function]
    names = ("self", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = dict(zip(names, args, strict=False)) | kwargs
    x: torch.Tensor = given.pop("self")
    # torch-mlir's lowering treats integers as unsigned, so integers of up to 32 bits, all of which f64 represents, are
    # converted to f64.
    wide = x if x.dtype.is_floating_point or x.dtype is torch.int64 else x.double()
    maxima = pool(wide, **given)[0]

    def along(name: str, default: Sequence[int]) -> list[int]:
        values = given.get(name, default)
        values = [values] if isinstance(values, int) else [*values]
        return values * spatial if len(values) == 1 else values

    kernel = along("kernel_size", [1])
    stride = along("stride", kernel) or kernel
    low, best = (each.float() if each.dtype.itemsize == 2 else each for each in (wide, maxima))
    indices = _POSITIONS(low, best, kernel, stride, along("padding", [0]), along("dilation", [1]))
    return maxima.to(x.dtype), indices


def _number(value: int) -> ir.Value:
    index = ir.IndexType.get()
    return ir.Operation.create(
        "arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, value)}
    ).result


def _wide_number(value: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return ir.Operation.create(
        "arith.constant", results=[i64], attributes={"value": ir.IntegerAttr.get(i64, value)}
    ).result


def _scalar(name: str, operands: Sequence[ir.Value], kind: ir.Type | None = None, **attributes: int) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    given = {key: ir.IntegerAttr.get(i64, value) for key, value in attributes.items()}
    kind = operands[0].type if kind is None else kind
    return ir.Operation.create(name, operands=list(operands), results=[kind], attributes=given).result


_EQUAL, _SIGNED_LESS, _SIGNED_AT_LEAST = 0, 2, 5
_ORDERED_EQUAL, _UNORDERED = 1, 14


def _write(
    build: Builder,
    x: ir.Value,
    maxima: ir.Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Sequence[ir.Value]:
    kind = ir.RankedTensorType(build.types[0])
    source = ir.RankedTensorType(x.type)
    rank, spatial = kind.rank, len(kernel)
    lead = rank - spatial
    index, bit = ir.IndexType.get(), ir.IntegerType.get_signless(1)
    extents = []
    for axis in range(lead, rank):
        number = build.create("arith.constant", [[]], [index], {"value": ir.IntegerAttr.get(index, axis)})
        extents += build.create("tensor.dim", [[x, *number]], [index])

    def is_within(axis: int) -> bool:
        # Whether every window is statically known to lie within x along this axis.
        if kind.is_dynamic_dim(lead + axis) or source.is_dynamic_dim(lead + axis) or padding[axis]:
            return False
        last = (kind.get_dim_size(lead + axis) - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis]
        return last < source.get_dim_size(lead + axis)

    def compute(values: list[ir.Value]) -> list[ir.Value]:
        best, _, found = values
        place = [_scalar("linalg.index", [], index, dim=axis) for axis in range(lead)]
        inside, flat = [], None
        for axis, extent in enumerate(extents):
            begin = _scalar("arith.muli", [_scalar("linalg.index", [], index, dim=lead + axis), _number(stride[axis])])
            tap = _scalar("arith.muli", [_scalar("linalg.index", [], index, dim=rank + axis), _number(dilation[axis])])
            at = _scalar("arith.addi", [begin, tap])
            if not is_within(axis):
                at = _scalar("arith.subi", [at, _number(padding[axis])])
                zero, last = _number(0), _scalar("arith.subi", [extent, _number(1)])
                inside.append(_scalar("arith.cmpi", [at, zero], bit, predicate=_SIGNED_AT_LEAST))
                inside.append(_scalar("arith.cmpi", [at, extent], bit, predicate=_SIGNED_LESS))
                at = _scalar("arith.minsi", [_scalar("arith.maxsi", [at, zero]), last])
            place.append(at)
            flat = at if flat is None else _scalar("arith.addi", [_scalar("arith.muli", [flat, extent]), at])
        element = _scalar("tensor.extract", [x, *place], source.element_type)
        if isinstance(source.element_type, ir.IntegerType):
            is_nan = None
            equals = _scalar("arith.cmpi", [element, best], bit, predicate=_EQUAL)
        else:
            is_nan = _scalar("arith.cmpf", [element, element], bit, predicate=_UNORDERED)
            equals = _scalar("arith.cmpf", [element, best], bit, predicate=_ORDERED_EQUAL)
        is_first = _scalar("arith.cmpi", [found, _wide_number(-1)], bit, predicate=_EQUAL)
        taken = _scalar("arith.andi", [is_first, equals])
        if is_nan is not None:
            taken = _scalar("arith.ori", [taken, is_nan])
        for each in inside:
            taken = _scalar("arith.andi", [taken, each])
        position = _scalar("arith.index_cast", [flat], found.type)
        return [_scalar("arith.select", [taken, position, found], found.type)]

    window = build.create("tensor.empty", [[]], [ir.RankedTensorType.get(list(kernel), kind.element_type)])[0]
    none = build.generic([], [], lambda _: _wide_number(-1))
    loops = rank + spatial
    outer = ir.AffineMap.get(loops, 0, [ir.AffineExpr.get_dim(d) for d in range(rank)])
    inner = ir.AffineMap.get(loops, 0, [ir.AffineExpr.get_dim(rank + d) for d in range(spatial)])
    iterators = ["parallel"] * rank + ["reduction"] * spatial
    return build.structured([maxima, window], [none], [outer, inner, outer], iterators, compute)


def _eager(x: torch.Tensor, maxima: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    pool = aten.max_pool2d_with_indices if len(kernel) == 2 else aten.max_pool3d_with_indices
    sizes = maxima.shape[-len(kernel) :]
    # ceil_mode is not an argument of this operator: infer it from the number of windows.
    for ceil_mode in (False, True):
        indices = pool(x, kernel, stride, padding, dilation, ceil_mode)[1]
        if indices.shape[-len(kernel) :] == sizes:
            break
    return indices


_POSITIONS = define(
    "pool_positions(Tensor x, Tensor maxima, int[] kernel, int[] stride, int[] padding, int[] dilation) -> Tensor",
    meta=lambda x, maxima, *_: torch.empty_like(maxima, dtype=torch.int64),
    write=_write,
    eager=_eager,
)
