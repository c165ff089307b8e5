# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Fractional maximum pooling, whose windows begin at random positions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.operators.pooling import maxima_of_windows

aten = torch.ops.aten


def _begins(size: int, outputs: int, kernel: int, sample: torch.Tensor) -> torch.Tensor:
    """Returns the positions where the windows along a dimension begin, i64 [*, outputs].

    `sample` is one random number in [0, 1) per plane.
    """
    last = torch.full([1], size - kernel, dtype=torch.int64).expand(*sample.shape, 1)
    if outputs == 1:
        return last
    step = torch.full([], (size - kernel) / (outputs - 1), dtype=sample.dtype)
    drawn = sample.unsqueeze(-1)
    numbers = torch.arange(outputs - 1).to(sample.dtype)
    begins = ((numbers + drawn) * step).to(torch.int64) - (drawn * step).to(torch.int64)
    return torch.cat([begins, last], -1)


def _fractional_max_pool(spatial: int) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def pool(
        x: torch.Tensor, kernel: Sequence[int], outputs: Sequence[int], samples: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        sizes, lead = x.shape[-spatial:], x.shape[:-spatial]
        # In two dimensions, PyTorch uses the first random number for the last dimension.
        order = (1, 0) if spatial == 2 else (0, 1, 2)
        samples = samples.reshape(*lead, spatial)
        positions = torch.zeros([], dtype=torch.int64)
        for axis in range(spatial):
            begins = _begins(sizes[axis], outputs[axis], kernel[axis], samples.select(-1, order[axis]))
            taken = begins.unsqueeze(-1) + torch.arange(kernel[axis])
            shape = [1] * (2 * spatial)
            shape[axis], shape[spatial + axis] = outputs[axis], kernel[axis]
            positions = positions * sizes[axis] + taken.reshape(*lead, *shape)
        flat = positions.reshape(*lead, math.prod(outputs) * math.prod(kernel))
        windows = x.reshape(*lead, math.prod(sizes)).gather(-1, flat).reshape(*lead, *outputs, math.prod(kernel))
        return maxima_of_windows(windows, flat.reshape(windows.shape))

    return pool


def _backward(spatial: int) -> Callable[..., torch.Tensor]:
    def backward(
        gradient: torch.Tensor, x: torch.Tensor, kernel: Sequence[int], outputs: Sequence[int], indices: torch.Tensor
    ) -> torch.Tensor:
        planes = [math.prod(x.shape[:-spatial]), math.prod(x.shape[-spatial:])]
        zeros = torch.zeros(planes, dtype=gradient.dtype)
        flat = zeros.scatter_add(1, indices.reshape(planes[0], -1), gradient.reshape(planes[0], -1))
        return flat.reshape(x.shape)

    return backward


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.fractional_max_pool2d.default: _fractional_max_pool(2),
    aten.fractional_max_pool3d.default: _fractional_max_pool(3),
    aten.fractional_max_pool2d_backward.default: _backward(2),
    aten.fractional_max_pool3d_backward.default: _backward(3),
}
