# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces negative indices, which count from the end, where operators write elements."""

from typing import Any

import torch

aten = torch.ops.aten

_LISTS = {aten.index_put, aten.index_put_, aten._unsafe_index_put, aten._index_put_impl, aten._index_put_impl_}
_FLAT = {aten.put, aten.put_}
_ALONG = {aten.index_fill, aten.index_fill_}


def with_positive_indices(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments of a call after replacing each negative index by the equivalent non-negative index.

    Indices that are out of range stay unchanged, so that an error message shows what the user wrote.
    """
    packet = getattr(function, "overloadpacket", None)
    x: Any = args[0] if args else None
    if packet in _LISTS:
        return (x, _along_dimensions(x, args[1]), *args[2:])
    if packet in _FLAT:
        return (x, _wrapped(args[1], x.numel()), *args[2:])
    if packet in _ALONG and x.dim():
        return (x, args[1], _wrapped(args[2], x.shape[args[1]]), *args[3:])
    return args


def _along_dimensions(x: torch.Tensor, indices: Any) -> list[Any]:
    found, dim = [], 0
    for index in indices:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        found.append(index if index is None or is_mask else _wrapped(index, x.shape[dim]))
        # A mask indexes as many dimensions of the tensor as the mask itself has.
        dim += index.dim() if is_mask else 1
    return found


def _wrapped(index: torch.Tensor, extent: Any) -> torch.Tensor:
    return torch.where((index < 0) & (index >= -extent), index + extent, index)
