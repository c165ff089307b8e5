# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adaptive pooling, padding, and gradients of pooling and padding, as gathers, slices, comparisons and convolutions."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.operators import convolutions

aten = torch.ops.aten


def _per_dimension(values: Sequence[int], count: int) -> list[int]:
    return list(values) * (count if len(values) == 1 else 1)


# --- Maximum ---


def _spread_windows(x: torch.Tensor, kernel: Sequence[int]) -> torch.Tensor:
    """Repeats each element along the trailing dimensions so that it fills a window of extents `kernel`."""
    for index, extent in enumerate(kernel):
        axis = x.dim() - len(kernel) + index
        shape = list(x.shape)
        x = x.unsqueeze(axis + 1).expand(*shape[: axis + 1], extent, *shape[axis + 1 :])
        shape[axis] *= extent
        x = x.reshape(shape)
    return x


def _max_pool_backward(spatial: int) -> Callable[..., torch.Tensor]:
    def backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
        indices: torch.Tensor,
    ) -> torch.Tensor:
        kernel = _per_dimension(kernel, spatial)
        stride = _per_dimension(stride, spatial) if stride else kernel
        size = x.shape[-spatial:]
        tiles = kernel == stride and not any(padding) and all(d == 1 for d in dilation)
        if tiles and all(extent % step == 0 for extent, step in zip(size, kernel, strict=True)):
            # Each element belongs to one window: a comparison replaces the scatter.
            position = torch.arange(math.prod(size)).view(size)
            chosen = _spread_windows(indices, kernel) == position
            return torch.where(chosen, _spread_windows(gradient, kernel), torch.zeros([], dtype=gradient.dtype))
        return _scatter_to_indices(gradient, x, indices, spatial)

    return backward


def _scatter_to_indices(gradient: torch.Tensor, x: torch.Tensor, indices: torch.Tensor, spatial: int) -> torch.Tensor:
    """Returns zeros with the shape of x, to which each element of `gradient` is added at the element's index. Indices
    are flat over the spatial dimensions."""
    planes = [math.prod(x.shape[:-spatial]), math.prod(x.shape[-spatial:])]
    zeros = torch.zeros(planes, dtype=gradient.dtype)
    flat = zeros.scatter_add(1, indices.reshape(planes[0], -1), gradient.reshape(planes[0], -1))
    return flat.reshape(x.shape)


def _adaptive_max_pool_backward(spatial: int) -> Callable[..., torch.Tensor]:
    def backward(gradient: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return _scatter_to_indices(gradient, x, indices, spatial)

    return backward


def _batched(operator: Any, spatial: int) -> Callable[..., Any]:
    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        # torch-mlir's lowering rejects inputs without a batch dimension, or crashes on them.
        if x.dim() != spatial + 1:
            return NotImplemented
        result = operator(x.unsqueeze(0), *args, **kwargs)
        return tuple(r.squeeze(0) for r in result) if isinstance(result, tuple) else result.squeeze(0)

    return call


# --- Average ---


def _counts(size: int, outputs: int, kernel: int, stride: int, padding: int, include_padding: bool) -> list[int]:
    """Returns the number of elements of each window along one dimension, by which an average divides."""
    counts = []
    for index in range(outputs):
        begin = index * stride - padding
        end = min(begin + kernel, size + padding)
        counts.append(end - begin if include_padding else min(end, size) - max(begin, 0))
    return counts


def _avg_pool_backward(spatial: int) -> Callable[..., torch.Tensor]:
    def backward(
        gradient: torch.Tensor,
        x: torch.Tensor,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> torch.Tensor:
        kernel = _per_dimension(kernel, spatial)
        stride = _per_dimension(stride, spatial) if stride else kernel
        padding = _per_dimension(padding, spatial)
        gradient = gradient / (
            divisor or _window_sizes(x, gradient, kernel, stride, padding, count_include_pad, spatial)
        )
        # A one-channel transposed convolution with ones adds each gradient to all elements of its window.
        planes = gradient.reshape(-1, 1, *gradient.shape[-spatial:])
        ones = torch.ones([1, 1, *kernel], dtype=gradient.dtype)
        size = list(x.shape[-spatial:])
        result = convolutions.transposed(planes, ones, None, stride, padding, [1] * spatial, size, 1)
        return result.reshape(x.shape)

    return backward


def _window_sizes(
    x: torch.Tensor,
    gradient: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    include_padding: bool,
    spatial: int,
) -> torch.Tensor | int:
    """Returns the divisor of every window: a number if all are equal, else a tensor with an element per window."""
    lists = [
        _counts(
            x.shape[x.dim() - spatial + i],
            gradient.shape[gradient.dim() - spatial + i],
            kernel[i],
            stride[i],
            padding[i],
            include_padding,
        )
        for i in range(spatial)
    ]
    if all(len(set(counts)) == 1 for counts in lists):
        return math.prod(counts[0] for counts in lists)
    return _outer(lists, gradient.dtype)


def _outer(lists: Sequence[Sequence[int]], dtype: torch.dtype) -> torch.Tensor:
    """Returns the outer product of the lists, with one dimension per list."""
    product = torch.ones([1] * len(lists), dtype=dtype)
    for index, counts in enumerate(lists):
        shape = [1] * len(lists)
        shape[index] = len(counts)
        runs = [torch.full([len(list(same))], count, dtype=dtype) for count, same in itertools.groupby(counts)]
        product = product * torch.cat(runs).reshape(shape)
    return product


def _adaptive_windows(size: int, outputs: int) -> list[tuple[int, int]]:
    return [(i * size // outputs, -(-(i + 1) * size // outputs)) for i in range(outputs)]


def _adaptive_max_pool(x: torch.Tensor, output_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the maximum of each window and its position; x is [*, *extents], the results are [*, *output_size].

    torch-mlir's lowering is not used, because an uninitialized flag decides whether it starts from -inf.
    """
    lead = x.dim() - len(output_size)
    # The positions of each window's elements, flat over the dimensions that are pooled so far.
    positions = torch.zeros([1], dtype=torch.int64)
    x = x.unsqueeze(-1)
    for axis, outputs in enumerate(output_size, lead):
        size = x.shape[axis]
        widest = max((end - begin for begin, end in _adaptive_windows(size, outputs)), default=1)
        numbers = torch.arange(outputs).unsqueeze(-1)
        begin = torch.div(numbers * size, outputs, rounding_mode="trunc")
        last = torch.div(numbers * size + (size - 1), outputs, rounding_mode="trunc")
        # A narrow window repeats its last element, which changes nothing: the first of equal elements wins.
        taken = torch.minimum(begin + torch.arange(widest), last)
        positions = (positions.unsqueeze(-2).unsqueeze(-1) * size + taken.unsqueeze(-2)).flatten(-2)
        x = x.index_select(axis, taken.flatten()).unflatten(axis, (outputs, widest)).movedim(axis + 1, -1).flatten(-2)
    return maxima_of_windows(x, positions.expand(x.shape))


def maxima_of_windows(windows: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the maximum over the last dimension, which contains a window, and the position: as in PyTorch's poolings,
    that of the last NaN; without a NaN, that of the first maximum."""
    values, chosen = windows.max(-1)
    if windows.is_floating_point():
        numbers = torch.arange(windows.shape[-1])
        last = torch.where(windows.isnan(), numbers, torch.full([], -1, dtype=torch.int64)).amax(-1)
        chosen = torch.where(last < 0, chosen, last)
    return values, positions.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _adaptive_avg_pool(x: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    """Sums each window one dimension at a time, from the last one, and divides by the number of its elements.

    For three dimensions, torch-mlir's lowering is invalid: the result does not depend on some of its loops.
    """
    counts = []
    for axis in reversed(range(x.dim() - len(output_size), x.dim())):
        windows = _adaptive_windows(x.shape[axis], output_size[axis - x.dim()])
        counts.append([end - begin for begin, end in windows])
        x = _window_sums(x, axis, windows)
    return x / _outer(counts[::-1], x.dtype)


def _adaptive_avg_pool_backward(spatial: int) -> Callable[..., torch.Tensor]:
    def backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        windows = [_adaptive_windows(x.shape[axis], gradient.shape[axis]) for axis in range(x.dim() - spatial, x.dim())]
        gradient = gradient / _outer([[end - begin for begin, end in w] for w in windows], gradient.dtype)
        for index, own in enumerate(windows):
            gradient = _sum_of_windows(gradient, x.dim() - spatial + index, own, x.shape[x.dim() - spatial + index])
        return gradient

    return backward


def _sum_of_windows(x: torch.Tensor, axis: int, windows: Sequence[tuple[int, int]], size: int) -> torch.Tensor:
    """Sums, for each of `size` positions along `axis`, the elements of x whose windows contain the position."""
    holders = [[i for i, (begin, end) in enumerate(windows) if begin <= p < end] for p in range(size)]
    parts = []
    position = 0
    while position < size:
        end = position
        while end < size and holders[end] == holders[position]:
            end += 1
        shape = list(x.shape)
        shape[axis] = end - position
        if holders[position]:
            part = x.narrow(axis, holders[position][0], 1)
            for window in holders[position][1:]:
                part = part + x.narrow(axis, window, 1)
            parts.append(part.expand(shape))
        else:
            parts.append(x.new_zeros(shape))
        position = end
    return torch.cat(parts, axis)


# --- Padding ---


def _constant_pad(x: torch.Tensor, pad: Sequence[int], value: float = 0) -> Any:
    # torch-mlir's lowering does not accept negative amounts.
    if all(amount >= 0 for amount in pad):
        return NotImplemented
    for index in range(0, len(pad), 2):
        axis = x.dim() - 1 - index // 2
        low, high = max(-pad[index], 0), max(-pad[index + 1], 0)
        if low or high:
            x = x.narrow(axis, low, x.shape[axis] - low - high)
    pad = [max(amount, 0) for amount in pad]
    return aten.constant_pad_nd(x, pad, value) if any(pad) else x.clone()


def _replication_pad_backward(gradient: torch.Tensor, x: torch.Tensor, pad: Sequence[int]) -> torch.Tensor:
    for index in range(0, len(pad), 2):
        axis = x.dim() - 1 - index // 2
        # The window of input position p is the range of padded positions that copy it.
        low, size = pad[index], x.shape[axis]
        padded = gradient.shape[axis]
        windows = [
            (0 if p == 0 else max(p + low, 0), padded if p == size - 1 else min(p + low + 1, padded))
            for p in range(size)
        ]
        gradient = _window_sums(gradient, axis, windows)
    return gradient


def _window_sums(x: torch.Tensor, axis: int, windows: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Sums each window along `axis`; consecutive windows of one element each become one slice."""
    parts = []
    index = 0
    while index < len(windows):
        begin, end = windows[index]
        index += 1
        if end - begin == 1:
            while index < len(windows) and windows[index] == (end, end + 1):
                end += 1
                index += 1
            parts.append(x.narrow(axis, begin, end - begin))
        elif end > begin:
            parts.append(x.narrow(axis, begin, end - begin).sum(axis, True))
        else:
            parts.append(torch.zeros_like(x.narrow(axis, 0, 1)))
    return torch.cat(parts, axis)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices_backward.default: _max_pool_backward(2),
    aten.max_pool3d_with_indices_backward.default: _max_pool_backward(3),
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool_backward(2),
    aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool_backward(3),
    aten.max_pool3d_with_indices.default: _batched(aten.max_pool3d_with_indices.default, 3),
    aten.max_pool2d_with_indices.default: _batched(aten.max_pool2d_with_indices.default, 2),
    aten.avg_pool2d.default: _batched(aten.avg_pool2d.default, 2),
    aten.avg_pool3d.default: _batched(aten.avg_pool3d.default, 3),
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool,
    aten.avg_pool2d_backward.default: _avg_pool_backward(2),
    aten.avg_pool3d_backward.default: _avg_pool_backward(3),
    aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool_backward(2),
    aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool_backward(3),
    aten.constant_pad_nd.default: _constant_pad,
    aten.replication_pad1d_backward.default: _replication_pad_backward,
    aten.replication_pad2d_backward.default: _replication_pad_backward,
    aten.replication_pad3d_backward.default: _replication_pad_backward,
}
