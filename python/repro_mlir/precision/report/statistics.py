# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a format does with an operand, counted from the values before and after it and from the codes and scales."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.precision.formats import Format
from repro_mlir.reference.low_precision.binary_formats import (
    E8M0_NAN,
    ELEMENT_FORMATS,
    F8E4M3FN,
    FORMATS,
    FixedFormat,
    decode,
)
from repro_mlir.reference.low_precision.binary_formats import Format as Element
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, Quantized, block_amax, dequantize
from repro_mlir.reference.low_precision.block_rounding import round_elements
from repro_mlir.reference.low_precision.block_scales import (
    SCALE_RULES,
    Given,
    OneLevelQuotient,
    PowerOfTwo,
    ScaleRule,
    Single,
    TwoLevel,
    TwoLevelQuotient,
)

Decibel = float | Literal["exact"] | None
"""A ratio in dB; `exact` where there is no error, None where it is not defined."""

_DIGITS = 6
"""Digits of a ratio, so that it is the same wherever the logarithm is computed."""


@dataclass(frozen=True)
class Histogram:
    """How many elements have which exponent, floor(log2 |x|).

    Attributes:
      first: the least exponent.
      counts: from that one on.
    """

    first: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class FormatRange:
    """Which exponents a format can hold; of blocks that depends on their scales.

    Attributes:
      least, greatest: of the least and the greatest value above 0; of blocks under the median of the scales.
      lowest, highest: of blocks: under the least scale, and under the greatest.
    """

    least: int
    greatest: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class BlockStatistics:
    """Of the blocks of an operand, and their scales.

    Attributes:
      count: how many blocks there are.
      zero: those of zeros alone, which count nowhere else.
      least, greatest: those whose scale is the least or the greatest that the rule can give.
      nan: those whose scale is NaN.
    """

    count: int
    zero: int
    least: int
    greatest: int
    nan: int


@dataclass(frozen=True)
class OperandStatistics:
    """What a format does with an operand.

    Attributes:
      elements: how many there are; `zeros`, `infinities` and `nans` of them before.
      nans_after: NaNs in what is read.
      saturated: elements that are larger than what the format holds: more than half a step above the greatest value,
        under the scale of their block; of a format with infinities, what becomes one.
      underflowed: elements that become 0, and were none.
      sqnr_db: of the values that are read, against those before.
      bytes: of codes and scales, packed; `bytes_f32` of the operand in f32.
      blocks: None for formats without.
      histogram: of the elements before, without zeros, infinities and NaNs; None where there is none.
      range: of the format; None where all blocks are zero or NaN.
    """

    elements: int
    zeros: int
    infinities: int
    nans: int
    nans_after: int
    saturated: int
    underflowed: int
    sqnr_db: Decibel
    bytes: int
    bytes_f32: int
    blocks: BlockStatistics | None
    histogram: Histogram | None
    range: FormatRange | None


@float_environment()
def sqnr_db(reference: np.ndarray, values: np.ndarray) -> Decibel:
    """The power of `reference` over that of the difference, in dB; None where an element of them is not finite, or
    `reference` is 0."""
    exact, given = np.asarray(reference, np.float64), np.asarray(values, np.float64)
    if not (np.isfinite(exact).all() and np.isfinite(given).all()):
        return None
    noise = _sum_of_squares(exact - given)
    if noise == 0:
        return "exact"
    signal = _sum_of_squares(exact)
    return None if signal == 0 else _rounded(10 * math.log10(signal / noise))


@float_environment()
def relative_error(reference: np.ndarray, values: np.ndarray) -> float | None:
    """The 2-norm of the difference over that of `reference`; None as of `sqnr_db`."""
    exact, given = np.asarray(reference, np.float64), np.asarray(values, np.float64)
    if not (np.isfinite(exact).all() and np.isfinite(given).all()):
        return None
    noise, signal = _sum_of_squares(exact - given), _sum_of_squares(exact)
    if noise == 0:
        return 0.0
    return None if signal == 0 else _rounded(math.sqrt(noise / signal))


def _rounded(x: float) -> float:
    return float(f"{x:.{_DIGITS}g}")


def _sum_of_squares(x: np.ndarray) -> float:
    """By halves, so that it is the same on every processor: the order of NumPy's own sums is not."""
    x = x.ravel() * x.ravel()
    while len(x) > 1:
        half = len(x) // 2
        rest = x[2 * half :]
        x = np.concatenate([x[:half] + x[half : 2 * half], rest])
    return float(x[0]) if len(x) else 0.0


# --- Operands ---


@float_environment()
def number_statistics(format: Format, before: np.ndarray, after: np.ndarray) -> OperandStatistics:
    """Of a format without scales.

    Args:
      before, after: f32 values of one shape.
    """
    element = FORMATS[format.element]
    saturated = np.isfinite(before) & np.isinf(after)
    least, greatest = element.least_place, element.max_exponent
    reached = FormatRange(least, greatest, least, greatest)
    size = -(-before.size * _stored_bits(element) // 8)
    return _statistics(before, after, int(saturated.sum()), size, None, reached)


@float_environment()
def block_statistics(
    format: Format,
    before: np.ndarray,
    codes: np.ndarray,
    scales: np.ndarray,
    tensor: np.ndarray | None,
    after: np.ndarray,
) -> OperandStatistics:
    """Of a format of blocks.

    Args:
      before: the f32 values that were quantized, [..., m, n].
      codes, scales, tensor: as `Quantized` has them.
      after: the values of the codes.
    """
    to = reference_format(format)
    element, rule = to.element, to.scale
    amax = block_amax(before, to.tile)
    is_used = amax != 0
    if isinstance(rule, PowerOfTwo):
        is_nan = scales == E8M0_NAN
    else:
        is_nan = np.isnan(scales if isinstance(rule, Given) else amax)
    is_least, is_greatest = _limits(rule, scales, amax)
    blocks = BlockStatistics(
        amax.size,
        int((~is_used).sum()),
        int((is_least & is_used & ~is_nan).sum()),
        int((is_greatest & is_used & ~is_nan).sum()),
        int((is_nan & is_used).sum()),
    )
    values = decode(codes, element).astype(np.float64)
    step = 2.0 ** (element.max_exponent - element.fraction_bits)
    top = np.where(values < 0, -_extreme(element, -1), _extreme(element, 1))
    # |x| against |after| * (top + step / 2) / top; both products are exact in f64.
    is_beyond = np.abs(before).astype(np.float64) * top > np.abs(after).astype(np.float64) * (top + step / 2)
    saturated = (np.abs(values) == top) & (after != 0) & is_beyond
    size = -(-codes.size * element.width // 8) + scales.size * scales.dtype.itemsize
    size += 0 if tensor is None else 4 * tensor.size
    reached = _range(element, _effective_scales(to, scales, tensor)[is_used & ~is_nan])
    return _statistics(before, after, int(saturated.sum()), size, blocks, reached)


def reference_format(format: Format) -> BlockFormat:
    """A format of blocks as the reference has it; its rounding is left out, since nothing is rounded here."""
    assert format.scale is not None and format.tile is not None
    given = format.scale
    rule = SCALE_RULES["given" if given.is_delayed else given.rule]
    if isinstance(rule, Single) and given.least is not None:
        rule = dataclasses.replace(rule, least=float(given.least))
    elif isinstance(rule, TwoLevel) and given.largest is not None:
        rule = dataclasses.replace(rule, largest=given.largest)
    return BlockFormat(ELEMENT_FORMATS[format.element], format.tile, rule)


def _stored_bits(element: Element) -> int:
    """Bits of an element in memory: tf32 is kept as f32."""
    return 32 if element.name == "tf32" else element.width


def _extreme(element: Element, sign: int) -> float:
    """The greatest value, or the least one."""
    if isinstance(element, FixedFormat):
        integer = element.largest_integer + (sign < 0 and not element.symmetric)
        return sign * integer * 2.0**element.least_place
    return sign * element.max_finite


def _limits(rule: ScaleRule, scales: np.ndarray, amax: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which blocks have the least scale that the rule gives, and which the greatest."""
    if isinstance(rule, PowerOfTwo):
        return scales == 0, scales == E8M0_NAN - 1
    if isinstance(rule, Single):
        return amax < np.float64(rule.least), np.zeros(amax.shape, np.bool_)
    if isinstance(rule, Given):
        return np.zeros(amax.shape, np.bool_), np.zeros(amax.shape, np.bool_)
    # Both rules by quotient keep a scale from 2^-6 on, which is the code 8.
    least = 8 if isinstance(rule, TwoLevelQuotient | OneLevelQuotient) else 0
    return scales == least, scales == F8E4M3FN.largest


def _effective_scales(to: BlockFormat, scales: np.ndarray, tensor: np.ndarray | None) -> np.ndarray:
    """By what the value of a code is multiplied in each block."""
    one = round_elements(np.ones(scales.shape, np.float32), to.element)
    return dequantize(Quantized(one, scales, tensor), dataclasses.replace(to, tile=(1, 1)))


def _range(element: Element, scales: np.ndarray) -> FormatRange | None:
    found = np.sort(scales[np.isfinite(scales) & (scales != 0)].astype(np.float64))
    if not len(found):
        return None
    # Products are exact in f64; a scale that is no power of two may carry the greatest value into the next exponent.
    least, greatest = _exponents(2.0**element.least_place * found), _exponents(_extreme(element, 1) * found)
    middle = len(found) // 2
    return FormatRange(int(least[middle]), int(greatest[middle]), int(least[0]), int(greatest[-1]))


def _exponents(x: np.ndarray) -> np.ndarray:
    return np.frexp(np.abs(x))[1].astype(np.int64) - 1


def _statistics(
    before: np.ndarray,
    after: np.ndarray,
    saturated: int,
    size: int,
    blocks: BlockStatistics | None,
    reached: FormatRange | None,
) -> OperandStatistics:
    exponents = _exponents(before[np.isfinite(before) & (before != 0)])
    histogram = None
    if exponents.size:
        first = int(exponents.min())
        histogram = Histogram(first, tuple(int(count) for count in np.bincount(exponents - first)))
    return OperandStatistics(
        elements=before.size,
        zeros=int((before == 0).sum()),
        infinities=int(np.isinf(before).sum()),
        nans=int(np.isnan(before).sum()),
        nans_after=int(np.isnan(after).sum()),
        saturated=saturated,
        underflowed=int(((before != 0) & (after == 0)).sum()),
        sqnr_db=sqnr_db(before, after),
        bytes=size,
        bytes_f32=4 * before.size,
        blocks=blocks,
        histogram=histogram,
        range=reached,
    )
