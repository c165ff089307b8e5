# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks arguments that PyTorch's kernels refuse, but that its shape functions, which run in a trace, accept."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.errors import located
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.torch_internals import OpOverload, disable_current_modes, pytree
from repro_mlir.frontends.torch.base.value_requests import reason_of

_KEPT_DIMENSIONS = {
    "_adaptive_avg_pool3d": 3,
    "celu": 0,
    "celu_": 0,
    "im2col": 2,
    "max": 0,
    "min": 0,
    "nll_loss2d_forward": 2,
    "nll_loss_forward": 0,
    "pow": 0,
    "pow_": 0,
    "smooth_l1_loss": 0,
    "uniform": 0,
    "uniform_": 0,
}
"""The checked operators, each with the number of trailing dimensions that keep their extents in the small tensors. The
extents of the other dimensions become at most 1.
"""

_PRODUCTS = {
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "convolution",
    "dot",
    "mm",
    "mv",
    "vdot",
}
"""Operators that PyTorch refuses on mixed element types when it runs them, but not when it traces them."""

_NUMBERS = {
    "constant_pad_nd": "value",
    "fill": "value",
    "fill_": "value",
    "full": "fill_value",
    "full_like": "fill_value",
    "index_fill": "value",
    "index_fill_": "value",
    "masked_fill": "value",
    "masked_fill_": "value",
    "new_full": "fill_value",
    "scalar_tensor": "s",
    "scatter": "value",
    "scatter_": "value",
}
"""The operators that convert a number to the type of their result, each with the name of the number's argument."""


def refuse_arguments(graph: torch.fx.GraphModule) -> None:
    """Raises a CaptureError with the user's line if a kernel refuses the arguments of an operator of a graph.

    Shapes and similar arguments are checked by a call of PyTorch's kernel on small tensors of zeros.
    """
    for node in graph.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        name = node.target._schema.name.removeprefix("aten::")
        if name in _PRODUCTS:
            _refuse_types(node, name)
        if name in _NUMBERS:
            _refuse_overflow(node, _NUMBERS[name])
        elif name == "convolution" or name in _KEPT_DIMENSIONS:
            _refuse_arguments_of(node, name)


def _refuse_arguments_of(node: torch.fx.Node, name: str) -> None:
    target: Any = node.target
    try:
        args, kwargs = pytree.tree_map_only(torch.fx.Node, _value_of, (node.args, node.kwargs))
        if name == "convolution":
            args = _small_convolution(*args)
        else:
            small = partial(_small, kept=_KEPT_DIMENSIONS[name])
            args, kwargs = pytree.tree_map_only(torch.Tensor, small, (args, kwargs))
    except _Unknown:
        return
    try:
        with disable_current_modes(), torch.no_grad():
            target(*args, **kwargs)
    except Exception as error:
        raise located(origin_of_node(node), reason_of(error)) from None


def _refuse_types(node: torch.fx.Node, name: str) -> None:
    """Raises a CaptureError for a product of tensors of different element types."""
    types = {each.meta["val"].dtype for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor)}
    if len(types) > 1:
        found = " and ".join(sorted(str(each).removeprefix("torch.") for each in types))
        reason = f"aten.{name} gets tensors of {found}, expected the same type: x.float() converts to float32"
        raise located(origin_of_node(node), reason)


def _refuse_overflow(node: torch.fx.Node, name: str) -> None:
    """Raises a CaptureError for a number that the integer type of the result cannot represent."""
    target: Any = node.target
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor) or result.dtype.is_floating_point or result.dtype.is_complex:
        return
    arguments = zip((each.name for each in target._schema.arguments), node.args, strict=False)
    number = {**dict(arguments), **node.kwargs}.get(name)
    if not isinstance(number, int | float):
        return
    try:
        with disable_current_modes():
            torch.full([], number, dtype=result.dtype)
    except RuntimeError as error:
        reason = f"{target}: expected a number within the range of {result.dtype}, got {number}: {error}"
        raise located(origin_of_node(node), reason) from None


class _Unknown(Exception):
    """Raised if the trace does not know the value of an argument."""


def _value_of(node: torch.fx.Node) -> Any:
    """Returns the value of a node: a tensor, or the value that a number has in the trace."""
    if "val" not in node.meta:
        raise _Unknown
    value = node.meta["val"]
    return value if isinstance(value, torch.Tensor) else _extent(value)


def _extent(value: Any) -> Any:
    if not isinstance(value, torch.SymInt):
        return value
    if value.node.hint is None:
        raise _Unknown
    return value.node.hint


def _zeros(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    with disable_current_modes():
        return torch.zeros(shape, dtype=dtype)


def _small(x: torch.Tensor, kept: int) -> torch.Tensor:
    shape = [*map(_extent, x.shape)]
    # The first dimension always becomes 0 or 1, even for tensors with a single dimension, such as class weights.
    split = max(len(shape) - kept, 1)
    return _zeros([min(extent, 1) for extent in shape[:split]] + shape[split:], x.dtype)


def _small_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
) -> tuple[Any, ...]:
    """Returns the arguments of a convolution of zeros with at most one example and one channel. The kernel then checks
    what a trace does not: spatial extents, strides and paddings."""
    kernel, extents = [*map(_extent, weight.shape[2:])], [*map(_extent, x.shape[2:])]
    if not transposed:
        reaches = [each * (extent - 1) + 1 for each, extent in zip(dilation, kernel, strict=True)]
        extents = [max(min(extent, reach), 1) for extent, reach in zip(extents, reaches, strict=True)]
    examples, factors = ([min(_extent(extent), 1) for extent in each.shape[:2]] for each in (x, weight))
    small = (_zeros([*examples, *extents], x.dtype), _zeros([*factors, *kernel], x.dtype))
    return *small, None, stride, padding, dilation, transposed, output_padding, 1
