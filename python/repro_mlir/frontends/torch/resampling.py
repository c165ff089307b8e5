# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Images of other sizes with antialiasing: products with tables of weights."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

aten = torch.ops.aten


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    # Keys' kernel with a = -1/2.
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def _weights(
    size: int, outputs: int, align_corners: bool, given: float | None, kernel: Callable[[float], float], reach: int
) -> np.ndarray:
    """[outputs, size]: the weight of each element in each output, in f64."""
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
    # A constant of the graph; `torch.tensor` would leave operators that the lowering does not know.
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
        # (PyTorch) along rows first.
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
    aten._upsample_bilinear2d_aa.default: _bilinear[0],
    aten._upsample_bilinear2d_aa_backward.default: _bilinear[1],
    aten._upsample_bicubic2d_aa.default: _bicubic[0],
    aten._upsample_bicubic2d_aa_backward.default: _bicubic[1],
}
