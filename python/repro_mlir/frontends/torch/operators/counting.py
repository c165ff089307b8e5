# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators that count or collect elements; the shapes of their results do not depend on values of elements."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError

aten = torch.ops.aten


def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the most frequent value (the smallest one if several are equally frequent) and the value's last index.

    PyTorch treats NaNs as distinct values. If all elements of a slice are distinct and the first one is NaN, PyTorch
    returns this NaN. For other slices with NaN, the result of PyTorch is undefined, because its sort does not order
    NaN; here NaN sorts last.
    """
    dim %= x.dim()
    values, indices = aten.sort.default(x, dim, False)
    extent = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = extent
    position = torch.arange(extent).reshape(shape).expand(x.shape)
    if extent > 1:
        differs = values.narrow(dim, 1, extent - 1) != values.narrow(dim, 0, extent - 1)
        begins = torch.cat([torch.ones_like(differs.narrow(dim, 0, 1)), differs], dim)
    else:
        begins = torch.ones_like(values, dtype=torch.bool)
    begin = torch.cummax(torch.where(begins, position, torch.zeros_like(position)), dim).values
    length = position - begin
    chosen = length.argmax(dim, True)
    if x.dtype.is_floating_point:
        nan = torch.isnan(x)
        is_taken = nan.narrow(dim, 0, 1) & (length.amax(dim, True) == 0)
        chosen = torch.where(is_taken, extent - nan.to(torch.int64).sum(dim, True), chosen)
    found = values.gather(dim, chosen), indices.gather(dim, chosen)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    if x.dim() == 0:
        x, dims = x.reshape(1), 0
    else:
        dims = x.dim()
    chosen = (x if x.dtype == torch.bool else x != 0).reshape(-1)
    if not size or not x.numel():
        return torch.full([size, dims], fill_value, dtype=torch.int64)
    place = torch.cumsum(chosen.to(torch.int64), 0) - 1
    # Elements that are not in the result go to one extra slot after the requested slots.
    behind = torch.full([], size, dtype=torch.int64)
    target = torch.where(chosen & (place < size), place, behind)
    slots = torch.full([size + 1], -1, dtype=torch.int64).scatter(0, target, torch.arange(chosen.shape[0]))
    flat = slots.narrow(0, 0, size)
    columns, step = [], math.prod(x.shape)
    for extent in x.shape[:dims]:
        step //= extent
        column = torch.div(flat, step, rounding_mode="trunc") % extent
        columns.append(torch.where(flat < 0, torch.full([], fill_value, dtype=torch.int64), column))
    return torch.stack(columns, 1) if columns else torch.zeros([size, 0], dtype=torch.int64)


def _bins(
    x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor | None, density: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Counts the elements in each bin; adds their weights instead if `weight` is given. A bin excludes its upper edge,
    except the last bin.

    Returns:
      the counts (as a probability density if `density`), and a copy of the edges.
    """
    x = x.reshape(-1, 1)
    low, high = edges.narrow(0, 0, edges.shape[0] - 1), edges.narrow(0, 1, edges.shape[0] - 1)
    is_last = torch.arange(low.shape[0]) == low.shape[0] - 1
    inside = (x >= low) & ((x < high) | (is_last & (x == high)))
    amount = torch.ones([1, 1], dtype=edges.dtype) if weight is None else weight.reshape(-1, 1).to(edges.dtype)
    counts = torch.where(inside, amount, torch.zeros([], dtype=edges.dtype)).sum(0)
    if density:
        counts = counts / (high - low) / counts.sum()
    return counts, edges.clone()


def _edges(x: torch.Tensor, bins: int, given: Sequence[float] | None) -> torch.Tensor:
    if given is not None:
        low, high = (torch.full([], value, dtype=x.dtype) for value in given)
    elif x.numel():
        low, high = x.reshape(-1).amin(), x.reshape(-1).amax()
    else:
        low, high = torch.zeros([], dtype=x.dtype), torch.ones([], dtype=x.dtype)
    equal = low == high
    low, high = torch.where(equal, low - 0.5, low), torch.where(equal, high + 0.5, high)
    return torch.linspace(low, high, bins + 1, dtype=x.dtype)


def _histogram(
    x: torch.Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _bins(x, _edges(x, bins, range), weight, density)


def _histogram_of_edges(
    x: torch.Tensor, bins: torch.Tensor, *, weight: torch.Tensor | None = None, density: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _bins(x, bins, weight, density)


def _edges_of_columns(
    x: torch.Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, **_: Any
) -> list[torch.Tensor]:
    points = x.reshape(-1, x.shape[-1])
    limits = [None if range is None else range[2 * i : 2 * i + 2] for i, _ in enumerate(bins)]
    return [_edges(points.select(1, i), count, limits[i]) for i, count in enumerate(bins)]


def _count_points(
    x: torch.Tensor, bins: Sequence[torch.Tensor], *, weight: torch.Tensor | None = None, density: bool = False
) -> torch.Tensor:
    points = x.reshape(-1, x.shape[-1])
    counts = torch.ones([points.shape[0]], dtype=x.dtype) if weight is None else weight.reshape(-1).to(x.dtype)
    volumes = torch.ones([], dtype=x.dtype)
    for i, edges in enumerate(bins):
        count = edges.shape[0] - 1
        low, high = edges.narrow(0, 0, count), edges.narrow(0, 1, count)
        own = points.select(1, i).reshape([-1, *[1] * i, 1])
        inside = (own >= low) & ((own < high) | ((torch.arange(count) == count - 1) & (own == high)))
        counts = torch.where(inside, counts.unsqueeze(-1), torch.zeros([], dtype=x.dtype))
        volumes = volumes.unsqueeze(-1) * (high - low)
    counts = counts.sum(0)
    return counts / volumes / counts.sum() if density else counts


def _histogram_of_points(
    x: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:
    return _count_points(x, _edges_of_columns(x, bins, range=range), weight=weight, density=density)


_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def _members(
    data: torch.Tensor, lengths: torch.Tensor | None, offsets: torch.Tensor | None, axis: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns, for each segment, a mask of the elements that it contains, bool [*, segments, elements, 1, ...], and
    their number."""
    if offsets is not None:
        begins, ends = (
            offsets.narrow(axis, 0, offsets.shape[axis] - 1),
            offsets.narrow(axis, 1, offsets.shape[axis] - 1),
        )
    elif lengths is not None:
        ends = torch.cumsum(lengths, axis)
        begins = ends - lengths
    else:
        raise CaptureError("segment_reduce: expected lengths or offsets, got neither")
    position = torch.arange(data.shape[axis])
    members = (begins.unsqueeze(-1) <= position) & (position < ends.unsqueeze(-1))
    behind = [1] * (data.dim() - axis - 1)
    counts = (ends - begins).reshape([*begins.shape, *behind])
    return members.reshape([*members.shape, *behind]), counts


def _segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> torch.Tensor:
    members, counts = _members(data, lengths, offsets, axis)
    start = _NEUTRAL[reduce] if initial is None else initial
    neutral = torch.full([], _NEUTRAL[reduce], dtype=data.dtype)
    taken = torch.where(members, data.unsqueeze(axis), neutral)
    if reduce in ("max", "min"):
        found = taken.amax(axis + 1) if reduce == "max" else taken.amin(axis + 1)
        bound = torch.full([], start, dtype=data.dtype)
        return torch.maximum(found, bound) if reduce == "max" else torch.minimum(found, bound)
    found = taken.prod(axis + 1) * start if reduce == "prod" else taken.sum(axis + 1) + start
    if reduce == "mean":
        quotient = found / torch.where(counts > 0, counts, torch.ones_like(counts))
        empty = torch.full([], math.nan if initial is None else initial, dtype=data.dtype)
        found = torch.where(counts > 0, quotient, empty)
    return found


def _segment_reduce_backward(
    gradient: torch.Tensor,
    output: torch.Tensor,
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> torch.Tensor:
    members, counts = _members(data, lengths, offsets, axis)
    zero, one = torch.zeros([], dtype=data.dtype), torch.ones([], dtype=data.dtype)
    each = data.unsqueeze(axis)
    if reduce in ("max", "min"):
        hits = members & (each == output.unsqueeze(axis + 1))
        number = torch.where(hits, one, zero).sum(axis + 1)
        gradient = gradient / torch.where(number > 0, number, torch.ones_like(number))
        return torch.where(hits, gradient.unsqueeze(axis + 1), zero).sum(axis)
    if reduce == "mean":
        gradient = gradient / torch.where(counts > 0, counts, torch.ones_like(counts))
    spread = torch.where(members, gradient.unsqueeze(axis + 1), zero)
    if reduce == "prod":
        others = []
        position = torch.arange(data.shape[axis]).reshape([-1, *[1] * (data.dim() - axis - 1)])
        for index in range(data.shape[axis]):
            # Multiply the other elements: the product of all elements divided by one of them may be 0 / 0.
            taken = torch.where(members & (position != index), each, one)
            others.append(taken.prod(axis + 1))
        spread = spread * torch.stack(others, axis + 1)
        spread = spread if initial is None else spread * initial
    return spread.sum(axis)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.mode.default: _mode,
    aten.nonzero_static.default: _nonzero_static,
    aten.histogram.bin_ct: _histogram,
    aten.histogram.bins_tensor: _histogram_of_edges,
    aten._histogramdd_bin_edges.default: _edges_of_columns,
    aten._histogramdd_from_bin_cts.default: _histogram_of_points,
    aten._histogramdd_from_bin_tensors.default: _count_points,
    aten.segment_reduce.default: _segment_reduce,
    aten._segment_reduce_backward.default: _segment_reduce_backward,
}
