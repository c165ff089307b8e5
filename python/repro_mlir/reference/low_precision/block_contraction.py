# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q4), (M5) Contractions of tensors in blocks. Either the dot products of blocks are scaled and added in f32, or all
products form a single chain of an accumulator."""

from __future__ import annotations

from enum import Enum

import numpy as np

from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import (
    F32,
    BinaryFormat,
    Format,
    decode,
    decode_e8m0,
    decode_scale,
    encode,
    unpack,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from repro_mlir.reference.low_precision.f32_operations import add, divide, multiply, multiply_add


class Step(Enum):
    """(Q4) How the dot product of a block is added to the sum: by a fused multiply-add with the scale, or by a product
    and a sum."""

    FUSED = "fused"
    SPLIT = "split"


def integers(codes: np.ndarray, of: Format) -> np.ndarray:
    """Returns the finite values of codes in units of 2^least_place, as int64; 0 for codes that are not finite."""
    value = unpack(codes, of)
    signed = np.where(value.negative, -value.magnitude, value.magnitude)
    return signed << (value.exponent - of.least_place)


def block_dots(x: np.ndarray, y: np.ndarray, of: tuple[Format, Format], block: int) -> np.ndarray:
    """(Q4) Returns the exact dot products of blocks, each rounded once to f32.

    Args:
      x: codes [m, k] of the first format.
      y: codes [n, k] of the second format.
      block: the extent of a block along k; the last block may be shorter.
    Returns:
      float32 [m, n, blocks]. Rounding changes only sums of products of f8, which may have more than 24 bits.
    """
    count = -(-x.shape[-1] // block)
    filled = [np.pad(each, [(0, 0), (0, count * block - each.shape[-1])]) for each in (x, y)]
    p, q = (each.reshape(each.shape[0], count, block) for each in filled)
    i, j = integers(p, of[0]), integers(q, of[1])
    exponent = of[0].least_place + of[1].least_place
    if (of[0].largest_integer * of[1].largest_integer * block).bit_length() < 62:
        totals = np.einsum("mbk,nbk->mnb", i, j)
        magnitude, sign, place = np.abs(totals), totals < 0, np.full(totals.shape, exponent)
    else:
        # E5M2 sums exceed int64, so they use Python integers.
        wide = np.einsum("mbk,nbk->mnb", i.astype(object), j.astype(object))
        extra = np.vectorize(lambda t: max(abs(t).bit_length() - 60, 0), otypes=[np.int64])(wide)
        cut = np.vectorize(lambda t, n: abs(t) >> n | (abs(t) >> n << n != abs(t)), otypes=[np.int64])(wide, extra)
        magnitude, sign, place = cut, (wide < 0).astype(np.bool_), exponent + extra
    codes = encode(sign, magnitude, place, F32, Direction.NEAREST_EVEN)
    dots = codes.astype(np.uint32).view(np.float32).reshape(codes.shape)
    first, second = decode(p, of[0]).astype(np.float64), decode(q, of[1]).astype(np.float64)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        # Products of f8 and their sums do not overflow f64, so the result is infinite or NaN only if an operand is.
        with np.errstate(invalid="ignore"):
            special = np.einsum("mbk,nbk->mnb", first, second)
        dots = np.where(np.isfinite(special), dots, special.astype(np.float32))
    return dots


def scale_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(Q4) Returns the products of scales [m, blocks] and [n, blocks], in f32: [m, n, blocks].

    Scales are f8E8M0FNU codes (uint8) or float32 factors: those of (Q8), or the values of f8E4M3FN scales, without the
    amax of the tensor (Q9).
    """
    first, second = (decode_e8m0(each) if each.dtype == np.uint8 else each for each in (x, y))
    return multiply(first[:, np.newaxis, :], second[np.newaxis, :, :])


def block_contraction(
    x: np.ndarray,
    y: np.ndarray,
    scales: np.ndarray,
    of: tuple[Format, Format],
    block: int,
    step: Step = Step.FUSED,
    by: Fdpa | LateFdpa | None = None,
) -> np.ndarray:
    """(Q4) Returns x y^T, float32 [m, n], of the codes x [m, k] and y [n, k]. `scales` are the products of the blocks'
    scales, [m, n, blocks].

    The sum is one chain over the blocks in ascending K from +0. The dot products of blocks are exact; with `by`, this
    accumulator computes them (M5).
    """
    dots = block_dots(x, y, of, block) if by is None else chain_dots(x, y, of, block, by)
    total = np.zeros(dots.shape[:-1], np.float32)
    for index in range(dots.shape[-1]):
        dot, scale = dots[..., index], scales[..., index]
        total = multiply_add(dot, scale, total) if step is Step.FUSED else add(total, multiply(dot, scale))
    return total


def chain_dots(x: np.ndarray, y: np.ndarray, of: tuple[Format, Format], block: int, by: Fdpa | LateFdpa) -> np.ndarray:
    """(M5) Returns the dot products of blocks, each computed as a chain of the accumulator `by` from +0. For the other
    arguments and the shape of the result see `block_dots`."""
    formats = _floats(of)
    a, b = decode(x, of[0]), decode(y, of[1])
    dots = np.zeros((len(x), len(y), -(-x.shape[-1] // block)), np.float32)
    for row in range(len(x)):
        for index in range(dots.shape[-1]):
            chosen = slice(index * block, (index + 1) * block)
            zeros = np.zeros(len(y), np.float32)
            dots[row, :, index] = accumulate(a[row, chosen], b[:, chosen], zeros, by, formats)
    return dots


def scaled_contraction(
    x: tuple[np.ndarray, np.ndarray],
    y: tuple[np.ndarray, np.ndarray],
    of: tuple[Format, Format],
    of_scales: tuple[BinaryFormat | None, BinaryFormat | None],
    block: int,
    by: Fdpa,
) -> np.ndarray:
    """(M5) Returns x y^T as one chain of scaled products from +0: float32 [m, n].

    Args:
      x: the codes [m, k] of the elements, in the first format of `of`, and the codes [m, blocks] of the scales, in the
        first format of `of_scales`; None means f8E8M0FNU.
      y: the codes [n, k] and [n, blocks], in the second formats.
    """
    (codes, alpha), (others, beta) = x, y
    total = np.zeros((len(codes), len(others)), np.float32)
    length = codes.shape[-1]
    if length == 0:
        return total
    alpha, beta = (np.repeat(each, min(block, length), axis=-1)[:, :length] for each in (alpha, beta))
    formats = _floats(of)
    a, b = decode(codes, of[0]), decode(others, of[1])
    for row in range(len(codes)):
        total[row] = accumulate(a[row], b, total[row], by, formats, (alpha[row], beta), of_scales)
    return total


def _floats(of: tuple[Format, Format]) -> tuple[BinaryFormat, BinaryFormat]:
    first, second = of
    assert isinstance(first, BinaryFormat) and isinstance(second, BinaryFormat)
    return first, second


def e4m3_scales(codes: np.ndarray) -> np.ndarray:
    """Returns f8E4M3FN scales as float32."""
    return decode_scale(codes)


def tensor_factor(x_amax: np.ndarray, y_amax: np.ndarray, x_largest: int = 448, y_largest: int = 448) -> np.ndarray:
    """(Q9) Returns the factor by which the result of a contraction of two `nvfp4` operands is multiplied, from the amax
    and `TwoLevel.largest` of each operand."""
    return divide(multiply(x_amax, y_amax), np.float32(36 * x_largest * y_largest))
