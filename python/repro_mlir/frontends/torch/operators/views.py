# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Views, copies of views and writes through views, as reshapes, slices and selections."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def _zeros(size: Sequence[int], *ignored: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    # (F6) Uninitialised memory reads as zero.
    return aten.full.default(list(size), 0, dtype=dtype or torch.get_default_dtype())


def _zeros_of(x: torch.Tensor, size: Sequence[int], *ignored: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return aten.full.default(list(size), 0, dtype=dtype or x.dtype)


def _zeros_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return aten.full.default(list(x.shape), 0, dtype=dtype or x.dtype)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    # torch-mlir's lowering of roll is not used, because it creates slices of unknown extent.
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        extent = x.shape[dim]
        if isinstance(extent, torch.SymInt) and shift < 0 and -shift < extent:
            # A shift reduced modulo the symbolic size would give extents without known bounds.
            x = torch.cat([x.narrow(dim, -shift, extent + shift), x.narrow(dim, 0, -shift)], dim)
            continue
        if not (isinstance(extent, torch.SymInt) and 0 <= shift < extent):
            shift = shift % extent if extent else 0
        if shift:
            x = torch.cat([x.narrow(dim, extent - shift, shift), x.narrow(dim, 0, extent - shift)], dim)
    return x.clone()


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
    # Drops empty tensors, which add nothing to the result, because torch-mlir's lowering keeps them.
    kept = [x for x in tensors if x.numel()]
    if len(kept) == len(tensors) or not kept:
        return NotImplemented
    kept = [x.to(torch.result_type(*tensors[:2])) for x in kept] if len({x.dtype for x in tensors}) > 1 else kept
    return kept[0].clone() if len(kept) == 1 else torch.cat(kept, dim)


def _view(x: torch.Tensor, size: Sequence[int]) -> Any:
    # A view of an empty tensor crashes torch-mlir's lowering; an unknown extent (-1) of such a view is 0.
    return NotImplemented if x.numel() else aten.full.default([max(extent, 0) for extent in size], 0, dtype=x.dtype)


def _copy_of(operator: Any) -> Callable[..., torch.Tensor]:
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return operator(x, *args, **kwargs).clone()

    return call


def _positions(size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """Returns the storage position of every element of a strided view, i64 of shape `size`."""
    positions = torch.full([1] * len(size), offset, dtype=torch.int64)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = extent
        positions = positions + (torch.arange(extent) * step).reshape(shape)
    return positions.expand(list(size))


def _as_strided(x: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> torch.Tensor:
    positions = _positions(size, stride, offset or 0).reshape(-1)
    return x.reshape(-1).index_select(0, positions).reshape(list(size))


def _as_strided_scatter(
    x: torch.Tensor, source: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> torch.Tensor:
    positions = _positions(size, stride, offset or 0).reshape(-1)
    return aten.index_put(x.reshape(-1), [positions], source.reshape(-1), False).reshape(x.shape)


def _diagonal_scatter(
    x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rest = [d for d in range(x.dim()) if d not in (dim1, dim2)]
    order = [*rest, dim1, dim2]
    moved = x.permute(order)
    rows, columns = moved.shape[-2:]
    first, length = max(-offset, 0), source.shape[-1]
    # Row i of the matrix receives element i - first of the source.
    by_row = aten.constant_pad_nd(source, [first, rows - first - length], 0).unsqueeze(-1)
    row, column = torch.arange(rows).unsqueeze(1), torch.arange(columns).unsqueeze(0)
    merged = torch.where(column - row == offset, by_row, moved)
    return merged.permute([order.index(d) for d in range(x.dim())])


def _unbind_copy(x: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    return [x.select(dim, index).clone() for index in range(x.shape[dim])]


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.empty.memory_format: _zeros,
    aten.empty_strided.default: _zeros,
    aten.empty_permuted.default: _zeros,
    aten.empty_like.default: _zeros_like,
    aten.new_empty.default: _zeros_of,
    aten.new_empty_strided.default: _zeros_of,
    aten._efficientzerotensor.default: _zeros,
    aten.roll.default: _roll,
    aten.cat.default: _cat,
    aten.view.default: _view,
    aten.view_copy.default: _copy_of(aten.view.default),
    aten.permute_copy.default: _copy_of(aten.permute.default),
    aten.unbind_copy.int: _unbind_copy,
    aten.as_strided_copy.default: _as_strided,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
}
