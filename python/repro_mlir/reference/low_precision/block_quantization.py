# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1) to (Q3) Tensors in blocks: quantization of float32 values to codes and scales, and dequantization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro_mlir.reference.low_precision.binary_formats import (
    E8M0_BIAS,
    E8M0_NAN,
    F8E4M3FN,
    F32,
    Format,
    Unpacked,
    decode,
    decode_scale,
    encode,
    f32_bits,
    to_f32,
    unpack,
)
from repro_mlir.reference.low_precision.block_rounding import NEAREST_EVEN, Rounding, round_elements, round_unpacked
from repro_mlir.reference.low_precision.block_scales import (
    FourError,
    Given,
    OneLevelQuotient,
    PowerOfTwo,
    ScaleRule,
    Single,
    TwoLevel,
    TwoLevelQuotient,
    power_bytes,
    power_shift,
    quotient_scale,
    single,
    tensor_scale,
    two_level,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from repro_mlir.reference.low_precision.f32_operations import add, divide, largest_magnitude, multiply

Tile = tuple[int | None, int | None]

TILES: dict[str, Tile] = {
    "mx": (1, 32),
    "mx_square": (32, 32),
    "nvfp4": (1, 16),
    "nvfp4_square": (16, 16),
    "row": (1, None),
    "tensor": (None, None),
    "row128": (1, 128),
    "square128": (128, 128),
}
"""(Q2) Tiles by name: rows and columns of a block."""


@dataclass(frozen=True)
class BlockFormat:
    """The parameters of quantization in blocks.

    Attributes:
      element: the format of the elements.
      tile: rows and columns of a block, in the last two dimensions; None for the whole extent.
      scale: the scale rule.
      rounding: how elements are rounded.
    """

    element: Format
    tile: Tile
    scale: ScaleRule
    rounding: Rounding = NEAREST_EVEN


@dataclass(frozen=True)
class Quantized:
    """A tensor in blocks.

    Attributes:
      codes: the element codes, of the tensor's shape [..., m, n].
      scales: the block scales, of shape [..., blocks down, blocks across]: codes (uint8) of f8E8M0FNU or f8E4M3FN, or
        float32, depending on the rule.
      tensor: the amax or the scale of the whole tensor, or the amax of each row, if the scale rule reads one of these;
        else None.
    """

    codes: np.ndarray
    scales: np.ndarray
    tensor: np.ndarray | None = None


def _blocks(x: np.ndarray, tile: Tile) -> tuple[np.ndarray, tuple[int, int]]:
    """Reshapes [..., m, n] to [..., blocks down, rows, blocks across, columns], with partial blocks padded with zeros;
    also returns the rows and columns of a block."""
    *outer, m, n = x.shape
    rows, columns = tile[0] or max(m, 1), tile[1] or max(n, 1)
    down, across = -(-m // rows), -(-n // columns)
    filled = np.zeros((*outer, down * rows, across * columns), x.dtype)
    filled[..., :m, :n] = x
    return filled.reshape(*outer, down, rows, across, columns), (rows, columns)


def _whole(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    *outer, down, rows, across, columns = blocks.shape
    return blocks.reshape(*outer, down * rows, across * columns)[..., : shape[-2], : shape[-1]]


def spread(scales: np.ndarray, tile: Tile, shape: tuple[int, ...]) -> np.ndarray:
    """Returns an array of shape `shape` that contains, for each element, the scale of its block."""
    rows, columns = tile[0] or max(shape[-2], 1), tile[1] or max(shape[-1], 1)
    wide = np.repeat(np.repeat(scales, rows, axis=-2), columns, axis=-1)
    return wide[..., : shape[-2], : shape[-1]]


def block_amax(x: np.ndarray, tile: Tile) -> np.ndarray:
    """(Q2) Returns the amax of each block of a float32 tensor [..., m, n]."""
    blocks, _ = _blocks(x, tile)
    return largest_magnitude(blocks, (-3, -1))


def _rows(tensor: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Reshapes the amax of the tensor (a scalar) or of each row so that it broadcasts against `scales`, whose last
    dimension has the blocks of a row."""
    tensor = np.asarray(tensor, np.float32)
    return tensor[..., np.newaxis] if tensor.ndim and tensor.shape == scales.shape[:-1] else tensor


def quantize(
    x: np.ndarray, to: BlockFormat, tensor: np.ndarray | None = None, random: np.ndarray | None = None
) -> Quantized:
    """(Q1) to (Q3) Quantizes a float32 tensor [..., m, n] in blocks.

    Args:
      tensor: for TwoLevel: the amax of all of x (a float32 scalar, the default), or of each row ([..., m]). For
        TwoLevelQuotient and Given: the f32 scale of all of x, a scalar.
      random: for stochastic rounding: an array of x's shape with integers below 2^(to.rounding.bits).
    Raises:
      ValueError: `tensor` or `random` is missing or unexpected.
    """
    x = np.asarray(x, np.float32)
    rule = to.scale
    needed = isinstance(rule, TwoLevelQuotient | Given)
    if (tensor is None and needed) or (tensor is not None and not (needed or isinstance(rule, TwoLevel))):
        raise ValueError("expected a scale of the tensor for nvfp4_quotient and given, an amax for nvfp4, else neither")
    amax = block_amax(x, to.tile)
    match rule:
        case PowerOfTwo():
            scales = power_bytes(amax, to.element, rule)
            value = unpack(f32_bits(x), F32)
            code = spread(scales, to.tile, x.shape)
            moved = Unpacked(
                value.negative,
                value.magnitude,
                value.exponent - spread(power_shift(scales, rule), to.tile, x.shape),
                value.infinite & (code != E8M0_NAN),
                value.nan | (code == E8M0_NAN),
            )
            return Quantized(round_unpacked(moved, to.element, to.rounding, random), scales)
        case TwoLevel():
            tensor = largest_magnitude(x, tuple(range(x.ndim))) if tensor is None else np.asarray(tensor, np.float32)
            if rule.four is not None:
                return _four_over_six(x, to, rule, rule.four, amax, tensor, random)
            scales, factor = two_level(amax, _rows(tensor, amax), rule)
        case TwoLevelQuotient() | OneLevelQuotient():
            scales, factor = quotient_scale(amax, None if tensor is None else np.asarray(tensor, np.float32))
        case Single():
            scales, factor, by_quotient = single(amax, to.element, rule)
            wide = spread(factor, to.tile, x.shape)
            scaled = divide(x, wide) if by_quotient else multiply(x, wide)
            return Quantized(round_elements(scaled, to.element, to.rounding, random=random), scales)
        case Given():
            assert tensor is not None
            scaled = multiply(x, tensor)
            scales = np.broadcast_to(divide(np.float32(1), tensor), amax.shape)
            return Quantized(round_elements(scaled, to.element, to.rounding, random=random), scales)
    scaled = multiply(x, spread(factor, to.tile, x.shape))
    return Quantized(round_elements(scaled, to.element, to.rounding, random=random), scales, tensor)


def _four_over_six(
    x: np.ndarray,
    to: BlockFormat,
    rule: TwoLevel,
    error: FourError,
    amax: np.ndarray,
    tensor: np.ndarray,
    random: np.ndarray | None,
) -> Quantized:
    """(Q2) Quantizes each block with its greatest element scaled to 6, or to 4 if that has the smaller error."""
    wide_tensor = _rows(tensor, amax)
    candidates = []
    for greatest in (6, 4):
        scales, factor = two_level(amax, wide_tensor, rule, greatest)
        scaled = multiply(x, spread(factor, to.tile, x.shape))
        codes = round_elements(scaled, to.element, to.rounding, random=random)
        product = multiply(decode(codes, to.element), spread(decode(scales, F8E4M3FN), to.tile, x.shape))
        if error.scaled:
            difference = add(product, -multiply(x, _of_rows(tensor_scale(tensor, rule)[0])))
        else:
            value = divide(multiply(product, _of_rows(tensor)), np.float32(6 * rule.largest))
            difference = add(value, -x)
        measure = multiply(difference, difference) if error.squared else np.abs(difference)
        candidates.append((_block_error(measure, to.tile), scales, codes))
    (error6, scales6, codes6), (error4, scales4, codes4) = candidates
    four = error4 < error6
    codes = np.where(spread(four, to.tile, x.shape), codes4, codes6)
    return Quantized(codes, np.where(four, scales4, scales6), tensor)


def _of_rows(tensor: np.ndarray) -> np.ndarray:
    return tensor[..., np.newaxis] if tensor.ndim else tensor


def _block_error(measure: np.ndarray, tile: Tile) -> np.ndarray:
    """Adds the errors of each block: first along each row from +0, one element after the other; then row i + height / 2
    to row i, with the height halved until one row is left."""
    blocks, (rows, columns) = _blocks(measure, tile)
    total = np.zeros(blocks.shape[:-1], np.float32)
    for column in range(columns):
        total = add(total, blocks[..., column])
    while rows > 1:
        rows //= 2
        total = add(total[..., :rows, :], total[..., rows:, :])
    return total[..., 0, :]


def dequantize(q: Quantized, of: BlockFormat) -> np.ndarray:
    """(Q2) Returns the float32 values that codes and scales represent, in the shape of the codes. If all codes
    represent the number 1, the results are the factors of (Q8)."""
    shape = q.codes.shape
    rule = of.scale
    if isinstance(rule, PowerOfTwo):
        value = unpack(q.codes, of.element)
        scale = spread(q.scales, of.tile, shape)
        nan = value.nan | (scale == E8M0_NAN)
        exponent = value.exponent + scale.astype(np.int64) - E8M0_BIAS
        codes = encode(value.negative, value.magnitude, exponent, F32, Direction.NEAREST_EVEN)
        return to_f32(codes, Unpacked(value.negative, value.magnitude, exponent, value.infinite & ~nan, nan))
    values = decode(q.codes, of.element)
    if isinstance(rule, Single):
        wide = spread(q.scales, of.tile, shape)
        return divide(values, wide) if rule.inverse else multiply(values, wide)
    if isinstance(rule, Given):
        return multiply(values, spread(q.scales, of.tile, shape))
    scale = decode_scale(q.scales)
    if isinstance(rule, TwoLevel):
        assert q.tensor is not None
        inverse = divide(np.float32(1), np.float32(6 * rule.largest))
        scale = multiply(multiply(scale, _rows(q.tensor, scale)), inverse)
    elif q.tensor is not None:
        scale = multiply(q.tensor, scale)
    return multiply(values, spread(scale, of.tile, shape))
