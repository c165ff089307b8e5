# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A second implementation of the rules of gradient compression, (L1) to (L6), in NumPy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from repro_mlir.base.numerics.philox import random_uniform
from repro_mlir.precision.formats import Format
from repro_mlir.precision_report.statistics import reference_format
from repro_mlir.reference.low_precision.block_quantization import dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import site_bits, stochastic

F32 = np.float32
Compress = Callable[[np.ndarray], np.ndarray]


def halved(lanes: np.ndarray) -> np.ndarray:
    """(F2) Returns the sum of the lanes (the first dimension): adds the second half of the lanes to the first half
    until one lane is left."""
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def total(values: Sequence[np.ndarray], step: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.add) -> np.ndarray:
    """(F1) to (F3) Returns the fold of a vector in the order (P2): chunks of 8192, 64 lanes, `refold`."""
    chunks = []
    for start in range(0, len(values), 8192):
        lanes = np.zeros(64, F32)
        for t, value in enumerate(values[start : start + 8192]):
            lanes[t % 64] = step(value, lanes[t % 64])
        chunks.append(halved(lanes))
    return F32(0) + (chunks[0] if len(chunks) == 1 else total(chunks))


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Returns a * b + c, rounded once to f32. The sum in f64 is rounded to odd, so that rounding the sum to f32 gives
    the correctly rounded result."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    found = product + addend
    other = found - product
    error = (product - (found - other)) + (addend - other)
    is_even = (np.asarray(found).view(np.int64) & 1) == 0
    away = np.where((error > 0), np.inf, -np.inf)
    odd = np.where(is_even & (error != 0), np.nextafter(found, away), found)
    return odd.astype(F32)


def products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(K1) Returns the matrix product in the order (P1): chunks of 512 products, one lane."""
    sums = []
    for start in range(0, left.shape[1], 512):
        chunk = np.zeros((left.shape[0], right.shape[1]), F32)
        for k in range(start, min(start + 512, left.shape[1])):
            chunk = fma(left[:, k, None], right[None, k], chunk)
        sums.append(chunk)
    found = sums[0]
    for each in sums[1:]:
        found = found + each
    return F32(0) + found


def top_k(x: np.ndarray, fraction: str) -> np.ndarray:
    flat = x.reshape(-1)
    count = math.ceil(Fraction(fraction) * len(flat))
    # Larger magnitudes come first, and NaN counts as the largest. The sort is stable, so equal magnitudes stay in index
    # order.
    order = sorted(range(len(flat)), key=lambda i: -math.inf if math.isnan(flat[i]) else -abs(float(flat[i])))
    nans = [i for i in range(len(flat)) if math.isnan(flat[i])]
    order = [*nans, *(i for i in order if i not in nans)]
    found = np.zeros_like(flat)
    found[order[:count]] = flat[order[:count]]
    return found.reshape(x.shape)


def one_bit(x: np.ndarray) -> np.ndarray:
    mean = total(np.abs(x).reshape(-1)) / F32(x.size)
    return np.where(x >= 0, mean, -mean)


def qsgd(x: np.ndarray, levels: int, bucket: int, seed: int, site: int, step: int) -> np.ndarray:
    width = min(bucket, x.size)
    count = -(-x.size // width)
    rows = np.zeros(count * width, F32)
    rows[: x.size] = x.reshape(-1)
    rows = rows.reshape(count, width)
    uniform = random_uniform(rows.shape, seed, site, step)
    found = np.zeros_like(rows)
    for i, row in enumerate(rows):
        norm = np.sqrt(total(row * row))
        if norm == 0:
            continue
        level = np.floor(np.abs(row) / norm * F32(levels) + uniform[i])
        value = norm * np.minimum(level, F32(levels)) / F32(levels)
        found[i] = np.where(row < 0, -value, value)
    return found.reshape(-1)[: x.size].reshape(x.shape)


def power_sgd(x: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    matrix = x.reshape(x.shape[0], -1)
    rest = products(matrix, right)
    columns = []
    while rest.shape[1]:
        column = rest[:, 0]
        square = total([np.stack(pair) for pair in zip(column, column, strict=True)], lambda v, lane: fma(*v, lane))
        column = column / (np.sqrt(square) + F32(1e-8))
        columns.append(column)
        rest = rest[:, 1:]
        if rest.shape[1]:
            dots = products(rest.T, column[:, None])[:, 0]
            rest = rest - dots[None, :] * column[:, None]
    left = np.stack(columns, 1)
    new = products(matrix.T, left)
    return products(left, new.T).reshape(x.shape), new


def with_feedback(gradient: np.ndarray, residual: np.ndarray, compress: Compress) -> tuple[np.ndarray, np.ndarray]:
    """(L1) Compresses the sum of gradient and residual. Returns the compressed sum and the new residual."""
    given = gradient + residual
    found = compress(given)
    return found, given - found


def blocks(x: np.ndarray, format: Format, seed: int, site: int, step: int) -> np.ndarray:
    """(L6) Returns x quantized and dequantized by the rules of blocks, which test/python/reference/low_precision
    tests."""
    row, of, random = x.reshape(1, -1), reference_format(format), None
    if format.is_stochastic:
        of = dataclasses.replace(of, rounding=stochastic(format.rounding.bits))
        random = site_bits(row.shape, format.rounding.bits, seed, site, step)
    return dequantize(quantize(row, of, random=random), of).reshape(x.shape)
