# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces views of tensors with symbolic extents by custom operators.

torch-mlir infers which dimensions a view joins or splits, and infers wrong dimensions if it does not know the extents.
PyTorch knows the extents as expressions of the symbols.
"""

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
import torch.fx

from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_mlir_names import ir

aten = torch.ops.aten


def _write_reshape(build: Builder, x: Any, _: Any) -> Sequence[Any]:
    extents = [build.extent(dim) for dim in range(ir.RankedTensorType(build.types[0]).rank)]
    kind = ir.RankedTensorType.get([len(extents)], ir.IndexType.get())
    (shape,) = build.create("tensor.from_elements", [extents], [kind])
    return build.create("tensor.reshape", [[x, shape]], build.types)


def _write_expand(build: Builder, x: Any, shape: Any) -> Sequence[Any]:
    given, kind = ir.RankedTensorType(x.type), ir.RankedTensorType(build.types[0])
    if given == kind:
        return [x]
    offset = kind.rank - given.rank
    kept = [dim for dim in range(given.rank) if given.shape[dim] != 1 or kind.shape[offset + dim] == 1]
    places = ir.AffineMap.get(kind.rank, 0, [ir.AffineExpr.get_dim(offset + dim) for dim in kept])
    return [build.generic([_without_others(build, x, kept)], [places], lambda values: values[0])]


def _without_others(build: Builder, x: Any, kept: Sequence[int]) -> Any:
    """Removes the dimensions of x that are not in `kept`; each of them has extent 1."""
    given = ir.RankedTensorType(x.type)
    if len(kept) == given.rank:
        return x
    # Each group contains one kept dimension; the first group also contains the dimensions before the first kept one.
    ends = [*kept[1:], given.rank] if kept else []
    starts = [0, *kept[1:]] if kept else []
    groups = [[build.i64(dim) for dim in range(*pair)] for pair in zip(starts, ends, strict=True)]
    kind = ir.RankedTensorType.get([given.shape[dim] for dim in kept], given.element_type)
    reassociation = ir.ArrayAttr.get([ir.ArrayAttr.get(group) for group in groups])
    return build.create("tensor.collapse_shape", [[x]], [kind], {"reassociation": reassociation})[0]


_RESHAPE = define(
    "reshape(Tensor x, SymInt[] shape) -> Tensor",
    eager=lambda x, shape: x.reshape(shape).clone(),
    meta=lambda x, shape: x.new_empty(shape),
    write=_write_reshape,
)
_EXPAND = define(
    "expand(Tensor x, SymInt[] shape) -> Tensor",
    eager=lambda x, shape: x.expand(shape).clone(),
    meta=lambda x, shape: x.new_empty(shape),
    write=_write_expand,
)
_OPERATORS = {
    aten.view.default: _RESHAPE,
    aten._unsafe_view.default: _RESHAPE,
    aten.reshape.default: _RESHAPE,
    aten.expand.default: _EXPAND,
}


def replace_views(graph: torch.fx.Graph) -> None:
    """Replaces the views whose argument or result has a symbolic extent."""
    for node in graph.nodes:
        operator = _RESHAPE if _is_reshape(node) else _OPERATORS.get(node.target)
        if operator is None:
            continue
        argument: Any = node.args[0]
        shapes = [each.meta["val"].shape for each in (node, argument)]
        if any(isinstance(extent, torch.SymInt) for shape in shapes for extent in shape):
            node.target, node.args, node.kwargs = operator, node.args[:2], {}


def _is_reshape(node: torch.fx.Node) -> bool:
    """Whether a node is an `as_strided` that returns all elements of a row-major tensor in their order."""
    if node.target is not aten.as_strided.default or len(node.args) != 3 or node.kwargs:
        return False
    argument: Any = node.args[0]
    source, view = argument.meta["val"], node.meta["val"]
    same = _expression(math.prod(source.shape)) == _expression(math.prod(view.shape))
    return same and _is_row_major(source) and _is_row_major(view)


def _is_row_major(tensor: torch.Tensor) -> bool:
    expected = sympy.Integer(1)
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if _expression(extent) != 1 and _expression(stride) != expected:
            return False
        expected = sympy.expand(expected * _expression(extent))
    return True


def _expression(number: Any) -> sympy.Expr:
    return sympy.expand(number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number))
