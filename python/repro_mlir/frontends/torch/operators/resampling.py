# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Resizing of images: linear interpolation, and products with tables of weights for antialiasing."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from repro_mlir.frontends.torch.base import torch_internals as internals

aten = torch.ops.aten


# --- Linear interpolation ---


def linear(
    x: torch.Tensor, output_size: Sequence[int] | None, align_corners: bool, *scales: Any, **named: Any
) -> torch.Tensor:
    """Interpolates `x` [N, C, *spatial] linearly along all spatial dimensions.

    Args:
      output_size: spatial shape of the result; None if `scale_factors` determine it.
      scales, named: either the argument `scale_factors`, or the arguments `scales_d`, `scales_h` and `scales_w`, one
        per dimension; each may be None.
    """
    rank = x.dim() - 2
    factors = named["scale_factors"] if "scale_factors" in named else scales[0] if len(scales) == 1 else scales
    if named and "scale_factors" not in named:
        factors = [*scales, *(named.get(f"scales_{each}") for each in "dhw"[3 - rank + len(scales) :])]
    factors = [factors] if isinstance(factors, int | float) else factors
    if output_size is None:
        output_size = internals.upsample_compute_output_size(x.size(), None, factors)
    wide = x.float() if x.dtype.itemsize == 2 else x
    dims = [*zip(x.shape[2:], output_size, factors or [None] * rank, strict=True)]
    places = [
        _places(extent, size, factor, align_corners, wide.dtype, rank - 1 - dim)
        for dim, (extent, size, factor) in enumerate(dims)
    ]
    corners = [
        aten._unsafe_index(wide, [None, None, *indices])
        for indices in itertools.product(*((first, second) for first, second, _ in places))
    ]
    for (extent, size, _), (_, _, ratio) in zip(reversed(dims), reversed(places), strict=True):
        pairs = zip(corners[::2], corners[1::2], strict=True)
        # A comparison of symbolic sizes would restrict the program to some of the sizes.
        is_copied = statically_known_true(extent == size)
        corners = [_between(low, high, ratio, is_copied) for low, high in pairs]
    return corners[0].to(x.dtype).contiguous(memory_format=internals.suggest_memory_format(x))


def _places(
    extent: int, size: int, factor: float | None, align_corners: bool, dtype: torch.dtype, dims_after: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns, for each position of the result along a dimension, the indices of its two neighbors in the input, and
    its distance from the first neighbor."""
    scale = internals.compute_scale(extent, size, align_corners, factor)
    place = internals.compute_source_index(scale, torch.arange(size).to(dtype), align_corners).clamp(min=0.0)
    place = place.reshape(size, *[1] * dims_after)
    first = place.to(torch.int64)
    return first, (first + 1).clamp(max=extent - 1), (place - first).clamp(0.0, 1.0)


def _between(low: torch.Tensor, high: torch.Tensor, ratio: torch.Tensor, is_copied: bool) -> torch.Tensor:
    difference = high - low
    # The difference of two infinities is NaN. Along a dimension that keeps its size, PyTorch does not read the next
    # element.
    product = low * (1 - ratio) + (low if is_copied else high) * ratio
    return torch.where(difference.abs() < math.inf, low + difference * ratio, product)


# --- Antialiasing ---


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    # The cubic convolution kernel of Keys, with a = -1/2.
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def _weights(
    size: int, outputs: int, align_corners: bool, given: float | None, kernel: Callable[[float], float], reach: int
) -> np.ndarray:
    """Returns the weight of each element in each output, f64 [outputs, size]."""
    if align_corners:
        scale = (size - 1) / (outputs - 1) if outputs > 1 else 0.0
    else:
        scale = 1 / given if given else size / outputs
    spread = max(scale, 1.0)
    table = np.zeros([outputs, size])
    for row in range(outputs):
        center = scale * (row + 0.5)
        begin = max(int(center - reach * spread + 0.5), 0)
        end = min(int(center + reach * spread + 0.5), size)
        found = [kernel((column - center + 0.5) / spread) for column in range(begin, end)]
        total = sum(found)
        table[row, begin:end] = [each / total for each in found] if total else found
    return table


def _constant(values: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    # The tensor becomes a constant of the graph; `torch.tensor` would record operators that torch-mlir cannot lower.
    return torch.from_numpy(values.astype(np.float64 if dtype is torch.float64 else np.float32)).clone()


def _antialiased(kernel: Callable[[float], float], reach: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def tables(
        sizes: Sequence[int], outputs: Sequence[int], align_corners: bool, scales: Sequence[float | None], dtype: Any
    ) -> list[torch.Tensor]:
        return [
            _constant(_weights(size, output, align_corners, scale, kernel, reach), dtype)
            for size, output, scale in zip(sizes, outputs, scales, strict=True)
        ]

    def forward(
        x: torch.Tensor,
        output_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        rows, columns = tables(x.shape[-2:], output_size, align_corners, (scales_h, scales_w), x.dtype)
        # PyTorch interpolates along rows first.
        return rows @ (x @ columns.T)

    def backward(
        gradient: torch.Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        scales = scales_h, scales_w
        rows, columns = tables(input_size[-2:], output_size, align_corners, scales, gradient.dtype)
        return rows.T @ (gradient @ columns)

    return forward, backward


_bilinear, _bicubic = _antialiased(_triangle, 1), _antialiased(_cubic, 2)

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.upsample_linear1d.default: linear,
    aten.upsample_bilinear2d.default: linear,
    aten.upsample_trilinear3d.default: linear,
    aten._upsample_bilinear2d_aa.default: _bilinear[0],
    aten._upsample_bilinear2d_aa_backward.default: _bilinear[1],
    aten._upsample_bicubic2d_aa.default: _bicubic[0],
    aten._upsample_bicubic2d_aa_backward.default: _bicubic[1],
}
