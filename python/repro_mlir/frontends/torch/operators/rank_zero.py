# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators along a dimension of a tensor of shape [], which PyTorch treats as a tensor of shape [1]."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from repro_mlir.frontends.torch.base.torch_internals import pytree

aten = torch.ops.aten

_NAMES = """
_log_softmax _softmax all amax amin aminmax any argmax argmin cummax cummin cumprod cumsum flip gather index_add
index_copy index_fill index_reduce index_select kthvalue logcumsumexp logsumexp max median min mode nanmedian prod
roll scatter scatter_add scatter_reduce sort std sum topk var var_mean
"""


def operators() -> Iterator[Any]:
    """Yields the ATen operators that `along_one` decomposes."""
    for name in _NAMES.split():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            arguments = operator._schema.arguments
            is_along = any(each.name in ("dim", "dims") for each in arguments)
            if is_along and "dimname" not in overload and not any(each.is_out for each in arguments):
                yield operator


def along_one(operator: Any) -> Callable[..., Any]:
    """Returns a decomposition that treats a tensor of shape [] as one of shape [1] and returns NotImplemented for any
    other tensor.
    """

    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dim():
            return NotImplemented
        if operator is aten.topk.default:
            # PyTorch returns the element for any k, even for k = 0.
            args = (1, *args[1:])
        shape = args[1].shape if operator is aten.gather.default else ()
        args, kwargs = pytree.tree_map_only(torch.Tensor, _with_dimension, (args, kwargs))
        return pytree.tree_map_only(
            torch.Tensor, lambda each: each.reshape(shape), operator(x.reshape(1), *args, **kwargs)
        )

    return call


def _with_dimension(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() else x.reshape(1)
