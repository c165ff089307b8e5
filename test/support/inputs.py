# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Input arrays for each MLIR element type: f64, f32 and integers have NumPy's types, other floats are unsigned integers
with their bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# sign, exponent and fraction bits
_LAYOUT = {
    "f64": (1, 11, 52),
    "f32": (1, 8, 23),
    "bf16": (1, 8, 7),
    "f16": (1, 5, 10),
    "f8E4M3FN": (1, 4, 3),
    "f8E5M2": (1, 5, 2),
    "f6E3M2FN": (1, 3, 2),
    "f6E2M3FN": (1, 2, 3),
    "f4E2M1FN": (1, 2, 1),
    "f8E8M0FNU": (0, 8, 0),
}


def dtype(element: str) -> np.dtype:
    """Returns the NumPy type in which inputs of an element type are given."""
    if element in ("f64", "f32"):
        return np.dtype(f"f{int(element[1:]) // 8}")
    if element in _LAYOUT:
        return np.dtype(f"u{-(-sum(_LAYOUT[element]) // 8)}")
    if element == "i1":
        return np.dtype(np.bool_)
    return np.dtype(f"i{int(element[1:]) // 8}")


def _from_bits(bits: np.ndarray, element: str) -> np.ndarray:
    kind = dtype(element)
    unsigned = np.asarray(bits, np.uint64).astype(f"u{kind.itemsize}")
    return unsigned.view(kind) if element in ("f64", "f32") else unsigned


def special(element: str) -> np.ndarray:
    """Returns a one-dimensional array of values on which implementations often fail, such as zeros, limits and NaNs."""
    if element == "i1":
        return np.array([False, True])
    if element not in _LAYOUT:
        width = int(element[1:])
        low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
        near = [0, 1, -1, 2, -2, 3, 7, -7, 10, width - 1, width, width + 1, -width, 63, 64, 100]
        return np.array([v for v in [*near, low, low + 1, high, high - 1] if low <= v <= high], dtype(element))
    if element in ("f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "f8E8M0FNU"):
        # The type is small enough to test every value.
        return np.arange(1 << sum(_LAYOUT[element]), dtype=np.uint8)
    _, exponent, fraction = _LAYOUT[element]
    one = ((1 << (exponent - 1)) - 1) << fraction
    infinity = ((1 << exponent) - 1) << fraction
    largest = 0x7E if element == "f8E4M3FN" else infinity - 1
    least_normal = 1 << fraction
    positive = [
        0,
        1,  # the smallest subnormal
        2,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one - 1,
        one,
        one + 1,
        one + (1 << (fraction - 1)),  # 1.5
        one - (1 << fraction),  # 0.5
        one + (1 << fraction),
        one + (3 << (fraction - 1)),  # 3
        largest,
        largest - 1,
        infinity,  # an ordinary number in E4M3FN
        infinity + 1,
        infinity + (1 << (fraction - 1)),
        infinity + (1 << fraction) - 1,
    ]
    sign = 1 << (exponent + fraction)
    return _from_bits(np.array(sorted({*positive, *(bits | sign for bits in positive)}), np.uint64), element)


def random(element: str, shape: Sequence[int], seed: int, span: int = 8) -> np.ndarray:
    """Returns random values: floats of magnitude 2^-span to 2^span with a few special values, or integers from the
    whole range."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=np.int64))
    if element == "i1":
        return (rng.random(count) < 0.5).reshape(shape)
    if element not in _LAYOUT:
        return np.frombuffer(rng.bytes(count * 8), np.int64).astype(dtype(element)).reshape(shape)
    values = rng.standard_normal(count) * np.exp2(rng.uniform(-span, span, count))
    if element in ("f64", "f32"):
        result = values.astype(dtype(element))
    else:
        _, exponent, fraction = _LAYOUT[element]
        # Truncates instead of rounding, which is good enough for inputs and needs no code that is under test.
        wide = np.clip(values, -200, 200).astype(np.float32).view(np.uint32).astype(np.int64)
        magnitude = (wide & 0x7FFFFFFF) - ((127 - ((1 << (exponent - 1)) - 1)) << 23)
        result = _from_bits(
            (np.maximum(magnitude, 0) >> (23 - fraction)) | (wide >> 31 << (exponent + fraction)), element
        )
    extra = special(element)
    finite = extra[np.isfinite(extra)] if element in ("f64", "f32") else extra[:0]
    small = finite[np.abs(finite) < 1e3] if finite.size else finite
    if count and small.size:
        where = rng.random(count) < 0.02
        result[where] = rng.choice(small, int(where.sum()))
    return result.reshape(shape)


def exact(shape: Sequence[int], seed: int, span: int = 8) -> np.ndarray:
    """Returns f64 values of magnitude 2^-span to 2^span, computed with integers, so that the values have the same bits
    on every processor."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-span, span, shape, endpoint=True)
    return np.ldexp(rng.integers(-(2**53), 2**53, shape).astype(np.float64), exponents - 53)


def mixed(element: str, shape: Sequence[int], seed: int) -> np.ndarray:
    """Returns random bit patterns, mixed with special values (see `special`)."""
    if element == "i1":
        return random(element, shape, seed)
    rng = np.random.default_rng(seed)
    kind = dtype(element)
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.frombuffer(rng.bytes(count * kind.itemsize), kind).copy()
    if sum(_LAYOUT.get(element, (8,))) < 8:
        bits &= (1 << sum(_LAYOUT[element])) - 1
    where = rng.random(count) < 0.3
    bits[where] = rng.choice(special(element), int(where.sum()))
    return bits.reshape(shape)


def pairs(element: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns two one-dimensional arrays that have every pair of special values at some index."""
    values = special(element)
    a, b = np.meshgrid(np.arange(len(values)), np.arange(len(values)))
    return values[a.reshape(-1)], values[b.reshape(-1)]
