# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q5) Hadamard transforms of 16 or 32 neighbours along the last axis."""

from __future__ import annotations

import numpy as np

from repro_mlir.reference.low_precision.binary_formats import BF16, decode
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements
from repro_mlir.reference.low_precision.f32_operations import add, multiply

SIGNS_16 = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""The signs of TransformerEngine's NVFP4 recipe."""

SIZES = (16, 32)


def _scale(size: int) -> np.float32:
    # 1 / sqrt(32) = sqrt(2) / 8, so the f32 value is that of sqrt(2) with another exponent.
    return np.float32(0.25) if size == 16 else np.float32(float.fromhex("0x1.6a09e6p-3"))


def hadamard(x: np.ndarray, signs: np.ndarray | None = None, size: int = 16, to_bf16: bool = False) -> np.ndarray:
    """(Q5) Returns the transform of each group of `size` neighbours.

    Args:
      x: float32 [..., n], where n is a multiple of `size`.
      signs: `size` factors, each 1 or -1, by which the elements are first multiplied; none by default.
      to_bf16: whether the result is rounded to bf16.
    Returns:
      float32 of x's shape.
    Raises:
      ValueError: the size is neither 16 nor 32, or does not divide n.
    """
    if size not in SIZES or x.shape[-1] % size:
        raise ValueError(f"expected a size of 16 or 32 that divides {x.shape[-1]}, got {size}")
    values = np.asarray(x, np.float32).reshape(*x.shape[:-1], -1, size)
    if signs is not None:
        values = np.where(np.asarray(signs) < 0, -values, values)
    width = 1
    while width < size:
        pairs = values.reshape(*values.shape[:-1], -1, 2, width)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        values = np.stack([add(first, second), add(first, -second)], axis=-2).reshape(values.shape)
        width *= 2
    values = multiply(values, _scale(size)).reshape(x.shape)
    return decode(round_elements(values, BF16, Rounding(saturate=False)), BF16) if to_bf16 else values
