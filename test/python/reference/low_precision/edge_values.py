# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""f32 values at which roundings and scales change: ties, values one ulp from a tie, subnormals, infinities and NaNs."""

from __future__ import annotations

import numpy as np
from repro_mlir.reference.low_precision.binary_formats import Format, decode

_NOT_NUMBERS = (0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF)
_ENDS = (0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF)
SPECIAL = np.array([*_ENDS, *_NOT_NUMBERS], np.uint32).view(np.float32)


def as_f32(bits: np.ndarray) -> np.ndarray:
    """Returns the float32 values with the given bits."""
    return np.asarray(bits).astype(np.uint32).view(np.float32)


def bits(x: np.ndarray) -> np.ndarray:
    """Returns the bits of float32 values as uint32; the bits of a NaN are those of the canonical NaN."""
    x = np.asarray(x, np.float32, order="C")
    return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))


def around(x: np.ndarray, ulps: int) -> np.ndarray:
    """Returns the positive float32 values that are at most `ulps` ulps from a value of `x`."""
    wide = np.asarray(x, np.float32).view(np.uint32).astype(np.int64)
    return as_f32(np.clip(wide[..., np.newaxis] + np.arange(-ulps, ulps + 1), 1, 0x7F7FFFFF)).ravel()


def edges(of: Format) -> np.ndarray:
    """Returns values near which rounding to a format changes: all values of the format, the ties between them, and
    three points above the largest value. Includes the values within 3 ulps of these, with both signs, and `SPECIAL`."""
    values = decode(np.arange(of.largest + 1), of).astype(np.float64)
    step = values[-1] - values[-2]
    ties = (values[1:] + values[:-1]) / 2
    beyond = [values[-1] + step / 2, values[-1] + step, 2 * values[-1]]
    positive = around(np.concatenate([values[1:], ties, beyond]).astype(np.float32), 3)
    return np.concatenate([positive, -positive, SPECIAL])


def random_f32(rng: np.random.Generator, count: int, spread: int = 30) -> np.ndarray:
    """Returns random f32 values: half have random bits, half have exponents near that of 1."""
    free = rng.integers(0, 2**32, count // 2, dtype=np.uint32)
    near = rng.standard_normal(count - count // 2) * 2.0 ** rng.integers(-spread, spread, count - count // 2)
    return np.concatenate([free.view(np.float32), near.astype(np.float32)])
