# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the effect of a format on an operand, from its values before and after quantization, its codes and its
scales."""

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
"""A ratio in dB; `exact` if there is no error, None if the ratio is undefined."""

_DIGITS = 6
"""The number of digits a ratio is rounded to, so that it does not depend on the platform's logarithm."""


@dataclass(frozen=True)
class Histogram:
    """Counts elements by their exponent, floor(log2 |x|).

    Attributes:
      first: the least exponent.
      counts: the number of elements with the exponent `first`, with `first` + 1, and so on.
    """

    first: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class FormatRange:
    """The exponents that a format can represent; for blocks, they depend on the scales.

    Attributes:
      least, greatest: the exponents of the least and the greatest positive value; in a block format, for a block with
        the median scale.
      lowest, highest: in a block format, the exponents of the least value with the least scale and of the greatest
        value with the greatest scale.
    """

    least: int
    greatest: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class BlockStatistics:
    """Statistics of the blocks of an operand and their scales.

    Attributes:
      count: the number of blocks.
      zero: the number of blocks that contain only zeros; `least`, `greatest` and `nan` do not count them.
      least, greatest: the numbers of blocks with the least and with the greatest scale that the rule can give.
      nan: the number of blocks with a scale of NaN.
    """

    count: int
    zero: int
    least: int
    greatest: int
    nan: int


@dataclass(frozen=True)
class OperandStatistics:
    """Statistics of the effect of a format on an operand.

    Attributes:
      elements: the number of elements; `zeros`, `infinities` and `nans` are the numbers of such elements before
        quantization.
      nans_after: the number of NaNs after quantization.
      saturated: the number of elements out of range: those whose magnitude, under the scale of their block, exceeds the
        format's greatest value by more than half of the unit in its last place; for a format with infinities, finite
        elements that become infinite.
      underflowed: the number of nonzero elements that become 0.
      sqnr_db: the signal-to-quantization-noise ratio of the values after quantization, see `sqnr_db`.
      bytes: the size of packed codes and scales; `bytes_f32` is the size of the operand in f32.
      blocks: None for formats without blocks.
      histogram: the exponents of the elements before quantization, without zeros, infinities and NaNs; None if no
        element is left.
      range: the range of the format; None if all blocks are zero or NaN.
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
    """Returns the signal-to-quantization-noise ratio in dB: the power of `reference` divided by that of the difference.
    Returns "exact" if there is no difference, and None if an element is not finite or `reference` is 0."""
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
    """Returns the 2-norm of the difference divided by that of `reference`. None if an element is not finite, or if
    `reference` is 0 and `values` is not."""
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
    """Returns the sum of the squares of all elements, added pairwise in a fixed order: the order of NumPy's own sums
    depends on the processor."""
    x = x.ravel() * x.ravel()
    while len(x) > 1:
        half = len(x) // 2
        rest = x[2 * half :]
        x = np.concatenate([x[:half] + x[half : 2 * half], rest])
    return float(x[0]) if len(x) else 0.0


# --- Operands ---


@float_environment()
def number_statistics(format: Format, before: np.ndarray, after: np.ndarray) -> OperandStatistics:
    """Returns the statistics of an operand in a format without scales.

    Args:
      before, after: the values before and after quantization, f32 of one shape.
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
    """Returns the statistics of an operand in a block format.

    Args:
      before: the f32 values that were quantized, [..., m, n].
      codes, scales, tensor: the fields of the reference interpreter's `Quantized`.
      after: the values that the codes stand for.
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
    # An element is saturated if |x| > |after| * (top + step / 2) / top. Both sides are multiplied by top, so they are
    # exact in f64.
    is_beyond = np.abs(before).astype(np.float64) * top > np.abs(after).astype(np.float64) * (top + step / 2)
    saturated = (np.abs(values) == top) & (after != 0) & is_beyond
    size = -(-codes.size * element.width // 8) + scales.size * scales.dtype.itemsize
    size += 0 if tensor is None else 4 * tensor.size
    reached = _range(element, _effective_scales(to, scales, tensor)[is_used & ~is_nan])
    return _statistics(before, after, int(saturated.sum()), size, blocks, reached)


def reference_format(format: Format) -> BlockFormat:
    """Returns the reference interpreter's `BlockFormat` for a format, without a rounding mode, since the report rounds
    no values."""
    assert format.scale is not None and format.tile is not None
    given = format.scale
    rule = SCALE_RULES["given" if given.is_delayed else given.rule]
    if isinstance(rule, Single) and given.least is not None:
        rule = dataclasses.replace(rule, least=float(given.least))
    elif isinstance(rule, TwoLevel) and given.largest is not None:
        rule = dataclasses.replace(rule, largest=given.largest)
    return BlockFormat(ELEMENT_FORMATS[format.element], format.tile, rule)


def _stored_bits(element: Element) -> int:
    """Returns the number of bits of an element in memory, where tf32 is stored as f32."""
    return 32 if element.name == "tf32" else element.width


def _extreme(element: Element, sign: int) -> float:
    """Returns the greatest value of an element if `sign` is 1, the least if it is -1."""
    if isinstance(element, FixedFormat):
        integer = element.largest_integer + (sign < 0 and not element.symmetric)
        return sign * integer * 2.0**element.least_place
    return sign * element.max_finite


def _limits(rule: ScaleRule, scales: np.ndarray, amax: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns two masks of the blocks: those with the least scale that the rule can give, and those with the
    greatest."""
    if isinstance(rule, PowerOfTwo):
        return scales == 0, scales == E8M0_NAN - 1
    if isinstance(rule, Single):
        return amax < np.float64(rule.least), np.zeros(amax.shape, np.bool_)
    if isinstance(rule, Given):
        return np.zeros(amax.shape, np.bool_), np.zeros(amax.shape, np.bool_)
    # The two quotient rules give no scale below 2^-6, whose code is 8.
    least = 8 if isinstance(rule, TwoLevelQuotient | OneLevelQuotient) else 0
    return scales == least, scales == F8E4M3FN.largest


def _effective_scales(to: BlockFormat, scales: np.ndarray, tensor: np.ndarray | None) -> np.ndarray:
    """Returns, for each block, the factor by which the values of its codes are multiplied."""
    one = round_elements(np.ones(scales.shape, np.float32), to.element)
    return dequantize(Quantized(one, scales, tensor), dataclasses.replace(to, tile=(1, 1)))


def _range(element: Element, scales: np.ndarray) -> FormatRange | None:
    found = np.sort(scales[np.isfinite(scales) & (scales != 0)].astype(np.float64))
    if not len(found):
        return None
    # These products are exact in f64. The exponent is that of the product, since a scale that is not a power of two may
    # carry the greatest value to the next exponent.
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
