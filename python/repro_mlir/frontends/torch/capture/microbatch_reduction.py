# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The reductions of a step over its microbatches (B3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_internals import BatchNormBase
from repro_mlir.frontends.torch.trace.unsigned import as_signed, is_unsigned


def _write(build: Builder, x: Any, gradient: str) -> Sequence[Any]:
    attributes = {"gradient": build.string(gradient)} if gradient else {}
    return build.create("repro.reduce_microbatches", [[x]], build.types, attributes)


_REDUCE = define(
    "reduce_microbatches(Tensor x, str gradient) -> Tensor",
    eager=lambda x, gradient: torch.clone(x),
    meta=lambda x, gradient: torch.empty_like(x),
    write=_write,
)


def reduce_microbatches(tensor: torch.Tensor, gradient: str = "") -> torch.Tensor:
    """Reduces the values of all microbatches to one value of the step: the mean of floats, and the common value of
    other types.

    Args:
      tensor: the value of one microbatch.
      gradient: the name of the parameter if `tensor` is the parameter's gradient; otherwise empty.
    """
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_complex(_REDUCE(torch.view_as_real(tensor), gradient))
    if is_unsigned(tensor):
        return _REDUCE(as_signed(tensor), gradient).view(tensor.dtype)
    return _REDUCE(tensor, gradient)


def statistics_of(model: torch.nn.Module) -> set[str]:
    """Returns the names of the buffers that are running statistics of a batch normalization.

    The mean over microbatches is meaningful only for such buffers.
    """
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, BatchNormBase)
        for name in ("running_mean", "running_var")
    }


def origin_of_values(node: torch.fx.Node) -> torch.fx.Node:
    """Returns the node that computes the values of `node`: the original if `node` is a copy, or a copy of a copy, else
    `node`.

    A reduction counts as a copy, because the compiler removes the reduction of a value that no microbatch changes.
    """
    while node.target in _COPIES:
        node = node.args[0]  # type: ignore[assignment]
    return node


_COPIES = {
    torch.ops.aten.clone.default,
    torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
    _REDUCE,
}
