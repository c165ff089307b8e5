# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks numbers that operators convert to an integer type: PyTorch raises if the type cannot represent the number."""

import torch
import torch.fx
from torch.utils._python_dispatch import _disable_current_modes

from repro_mlir.frontends.torch.base.errors import located
from repro_mlir.frontends.torch.base.source_lines import origin_of_node

_ARGUMENTS = {
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
"""The operators, each with the argument that it converts to the type of its result."""


def refuse_overflows(graph: torch.fx.GraphModule) -> None:
    """Raises a CaptureError with the user's line if a number in a graph of ATen operators does not fit its type."""
    for node in graph.graph.nodes:
        result = node.meta.get("val")
        if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(result, torch.Tensor):
            continue
        name = _ARGUMENTS.get(node.target._schema.name.removeprefix("aten::"))
        if name is None or result.dtype.is_floating_point or result.dtype.is_complex:
            continue
        arguments = zip((each.name for each in node.target._schema.arguments), node.args, strict=False)
        number = {**dict(arguments), **node.kwargs}.get(name)
        if not isinstance(number, int | float):
            continue
        try:
            with _disable_current_modes():
                torch.full([], number, dtype=result.dtype)
        except RuntimeError as error:
            reason = f"{node.target}: expected a number that {result.dtype} holds, got {number}: {error}"
            raise located(origin_of_node(node), reason) from None
