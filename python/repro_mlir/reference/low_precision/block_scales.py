# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q2) Scales of blocks out of their greatest magnitude (amax), each rule in the order of its operations.

All amax are float32, not negative, with NaN where the block has one. No rule takes a logarithm: exponents are read from
the bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from repro_mlir.reference.low_precision.binary_formats import (
    E8M0_BIAS,
    E8M0_NAN,
    F8E4M3FN,
    F32,
    Format,
    decode,
    decode_scale,
    encode,
    f32_bits,
    to_f32,
    unpack,
)
from repro_mlir.reference.low_precision.block_rounding import NEAREST_EVEN, round_elements
from repro_mlir.reference.low_precision.exact_rounding import Direction, bit_length
from repro_mlir.reference.low_precision.f32_operations import divide, minimum, multiply

FLT_MAX = float(np.finfo(np.float32).max)


class PowerRule(Enum):
    """Which power of two."""

    FLOOR = "floor"
    CEIL = "ceil"
    EVEN = "even"
    RCEIL = "rceil"
    RCEIL_PRODUCT = "rceil_product"


class InfiniteAmax(Enum):
    """What the scale of a block with an infinity is."""

    NAN = "nan"
    LARGEST = "largest"
    POWER = "power"


@dataclass(frozen=True)
class PowerOfTwo:
    """(Q2) A scale of f8E8M0FNU, and elements that are divided by it exactly.

    Attributes:
      rule: which power of two.
      infinity: the byte of an infinite amax, and of one that EVEN rounds to 2^128: 255, 254, or as if it were 2^128.
      nan: the byte of an amax that is NaN.
      least: the exponent by which elements are divided where the byte is 0; None for 2^-127, which the byte means.
    """

    rule: PowerRule
    infinity: InfiniteAmax = InfiniteAmax.NAN
    nan: int = E8M0_NAN
    least: int | None = None


@dataclass(frozen=True)
class FourError:
    """(Q2) How the error of a block is measured where its greatest element may become 4 or 6.

    Attributes:
      squared: whether squares are added, or magnitudes.
      scaled: whether in units of the tensor's scale, or of the input.
    """

    squared: bool
    scaled: bool


@dataclass(frozen=True)
class TwoLevel:
    """(Q2) `nvfp4`: a scale of f8E4M3FN for each block, and the amax of the whole tensor or of each row.

    Attributes:
      largest: what the greatest scale is aimed at: 448, or 256.
      four: the error by which a block is quantized to a greatest element of 4 instead of 6; None for always 6.
    """

    largest: int = 448
    four: FourError | None = None


@dataclass(frozen=True)
class TwoLevelQuotient:
    """(Q2) `nvfp4_quotient`: a scale of f8E4M3FN from 2^-6 to 448 for each block, and a given f32 for the tensor."""


@dataclass(frozen=True)
class OneLevelQuotient:
    """(Q2) `nvfp4_single`: the same without a scale of the tensor."""


class Encoding(Enum):
    """By what an element is scaled under a scale of f32."""

    PRODUCT = "product"
    RECIPROCAL = "reciprocal"
    QUOTIENT = "quotient"


@dataclass(frozen=True)
class Single:
    """(Q2) A scale of f32.

    Attributes:
      least: an amax below it counts as it; a value of f64.
      encoding: x is multiplied by max / amax, by 1 / (amax / max), or divided by amax / max.
      inverse: whether what is stored is max / amax, by which elements were multiplied; with PRODUCT.
      power: whether the scale is a power of two, the one that keeps every element below the maximum.
    """

    least: float
    encoding: Encoding
    inverse: bool = False
    power: bool = False

    def __post_init__(self) -> None:
        product = self.encoding is Encoding.PRODUCT
        if (self.inverse and not product) or (self.power and product and not self.inverse):
            raise ValueError(f"expected a product for an inverse scale, and no product by a power of two, got {self}")


@dataclass(frozen=True)
class Given:
    """(Q2) `given`: a scale of f32 for the whole tensor, whatever is in it; its reciprocal is stored."""


ScaleRule = PowerOfTwo | TwoLevel | TwoLevelQuotient | OneLevelQuotient | Single | Given

SCALE_RULES: dict[str, ScaleRule] = {
    **{rule.value: PowerOfTwo(rule) for rule in PowerRule},
    "nvfp4": TwoLevel(),
    "nvfp4_four_over_six": TwoLevel(four=FourError(squared=False, scaled=False)),
    "nvfp4_quotient": TwoLevelQuotient(),
    "nvfp4_single": OneLevelQuotient(),
    "float8": Single(1e-12, Encoding.PRODUCT, inverse=True),
    "float8_power": Single(1e-12, Encoding.PRODUCT, inverse=True, power=True),
    "f32_product": Single(1e-4, Encoding.PRODUCT),
    "f32_reciprocal": Single(1e-4, Encoding.RECIPROCAL),
    "f32_power": Single(1e-4, Encoding.RECIPROCAL, power=True),
    "f32_quotient": Single(1e-4, Encoding.QUOTIENT),
    "given": Given(),
}
"""(Q2) Rules by name, with their default parameters.

1e-12 is EPS of torchao's float8, 1e-4 the bound of DeepGEMM's casts.
"""


# --- Powers of two ---


def _normal(amax: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e, m) with amax = m * 2^(e - 23) and m of 24 bits, for finite amax above 0."""
    value = unpack(f32_bits(amax), F32)
    up = 24 - bit_length(value.magnitude)
    return value.exponent - up + 23, np.where(value.magnitude == 0, 1 << 23, value.magnitude << up)


def ceil_log2(x: np.ndarray) -> np.ndarray:
    """The least integer n with 2^n >= x, of finite x above 0."""
    exponent, significand = _normal(x)
    return exponent + (significand != 1 << 23)


def power_exponent(amax: np.ndarray, element: Format, rule: PowerRule) -> np.ndarray:
    """The exponent of the scale, not yet clamped, of finite amax above 0; int64."""
    exponent, significand = _normal(amax)
    match rule:
        case PowerRule.FLOOR:
            return exponent - element.max_exponent
        case PowerRule.CEIL:
            return ceil_log2(amax) - element.max_exponent
        case PowerRule.EVEN:
            half = 1 << (22 - element.fraction_bits)
            return exponent + (significand + half >> 24) - element.max_exponent
        case PowerRule.RCEIL:
            # The largest element has few bits: as a significand of 24 bits, like that of amax, it is exact.
            largest = Fraction(element.largest_integer, 1 << (element.largest_integer.bit_length() - 1))
            return exponent - element.max_exponent + (significand > int(largest * (1 << 23)))
        case PowerRule.RCEIL_PRODUCT:
            ratio = multiply(amax, divide(np.float32(1), _maximum(element)))
            return np.where(ratio == 0, -2 * E8M0_BIAS, ceil_log2(ratio))


def _maximum(element: Format) -> np.ndarray:
    return decode(np.array(element.largest), element)


def power_bytes(amax: np.ndarray, element: Format, rule: PowerOfTwo) -> np.ndarray:
    """(Q2) The codes (uint8) of f8E8M0FNU for amax of any shape."""
    bits = f32_bits(amax)
    infinite, nan, zero = bits == 0x7F800000, bits > 0x7F800000, bits == 0
    finite = np.where(infinite | nan | zero, np.float32(1), amax)
    exponent = power_exponent(finite, element, rule.rule)
    if rule.rule is PowerRule.EVEN:
        infinite = infinite | (~nan & ~zero & (exponent + element.max_exponent == 128))
    codes = np.clip(exponent, -E8M0_BIAS, E8M0_BIAS) + E8M0_BIAS
    beyond = {
        InfiniteAmax.NAN: E8M0_NAN,
        InfiniteAmax.LARGEST: 2 * E8M0_BIAS,
        InfiniteAmax.POWER: min(128 - element.max_exponent + E8M0_BIAS, 2 * E8M0_BIAS),
    }[rule.infinity]
    codes = np.where(infinite, beyond, np.where(zero, 0, codes))
    return np.where(nan, rule.nan, codes).astype(np.uint8)


def power_shift(codes: np.ndarray, rule: PowerOfTwo) -> np.ndarray:
    """The exponent by which elements are divided under finite scales; int64."""
    exponent = codes.astype(np.int64) - E8M0_BIAS
    return exponent if rule.least is None else np.where(codes == 0, rule.least, exponent)


# --- Scales of f8E4M3FN ---


def e4m3(x: np.ndarray) -> np.ndarray:
    """x to f8E4M3FN, to nearest even, saturating; codes."""
    return round_elements(x, F8E4M3FN, NEAREST_EVEN)


def tensor_scale(amax: np.ndarray, rule: TwoLevel) -> tuple[np.ndarray, np.ndarray]:
    """(Q2) The factors of the whole tensor for encoding and decoding."""
    encode_scale = minimum(divide(np.float32(6 * rule.largest), amax), FLT_MAX)
    encode_scale = np.where(encode_scale == 0, np.float32(1), encode_scale)
    return encode_scale, divide(np.float32(1), encode_scale)


def two_level(block: np.ndarray, tensor: np.ndarray, rule: TwoLevel, to: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """(Q2) The codes of the scales of f8E4M3FN, and the factors of the elements.

    Args:
      block: the amax of each block.
      tensor: the amax of the tensor, broadcast against it.
      to: the greatest element: 6 or, with `rule.four`, 4.
    """
    encode_scale, inverse = tensor_scale(tensor, rule)
    if rule.four is None:
        scaled = multiply(block, multiply(encode_scale, divide(np.float32(1), np.float32(6))))
    else:
        scaled = multiply(divide(block, np.float32(6)), encode_scale)
        if to == 4:
            scaled = multiply(scaled, np.float32(1.5))
    codes = e4m3(scaled)
    factor = divide(np.float32(1), multiply(decode_scale(codes), inverse))
    return codes, minimum(factor, FLT_MAX)


def quotient_scale(block: np.ndarray, tensor: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(Q2) `nvfp4_quotient`, or without `tensor` `nvfp4_single`: the codes of the scales and the elements' factors."""
    scaled = divide(block, np.float32(6))
    if tensor is not None:
        scaled = divide(scaled, tensor)
    codes = e4m3(np.where(scaled < np.float32(2.0**-6), np.float32(2.0**-6), scaled))
    one = np.float32(1) if tensor is None else divide(np.float32(1), tensor)
    return codes, divide(one, decode_scale(codes))


# --- Scales of f32 ---


def _round_fraction(x: Fraction) -> np.ndarray:
    """A positive rational to f32, to nearest even."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length() - 50
    scaled = x / Fraction(2) ** exponent
    whole = int(scaled)
    magnitude = np.int64(whole | (whole != scaled))
    none = np.zeros((), np.bool_)
    codes = encode(none, magnitude, np.int64(exponent), F32, Direction.NEAREST_EVEN)
    return to_f32(codes, unpack(codes, F32))


def single(amax: np.ndarray, element: Format, rule: Single) -> tuple[np.ndarray, np.ndarray, bool]:
    """(Q2) The stored scales (float32), and by what elements are multiplied, or divided where the third is true."""
    maximum = _maximum(element)
    exact = Fraction(element.largest_integer) * Fraction(2) ** element.least_place
    small = amax.astype(np.float64) < rule.least
    if rule.inverse:
        up = np.where(small, _round_fraction(exact / Fraction(rule.least)), divide(maximum, amax))
        if rule.power:
            up = _to_power(up, down=True)
        return up, up, False
    least = np.float32(rule.least)
    bounded = np.where(amax < least, least, amax)
    scale = divide(bounded, maximum)
    if rule.power:
        scale = _to_power(scale, down=False)
    match rule.encoding:
        case Encoding.PRODUCT:
            return scale, divide(maximum, bounded), False
        case Encoding.RECIPROCAL:
            return scale, divide(np.float32(1), scale), False
        case Encoding.QUOTIENT:
            return scale, scale, True


def _to_power(x: np.ndarray, down: bool) -> np.ndarray:
    """The power of two at most x, or at least x, within f32's normal numbers; zeros, infinities and NaNs stay."""
    bits = f32_bits(x)
    number = (bits > 0) & (bits < 0x7F800000)
    safe = np.where(number, x, np.float32(1))
    exponent = np.clip(_normal(safe)[0] if down else ceil_log2(safe), -126, 127)
    return np.where(number, ((exponent + 127) << 23).astype(np.uint32).view(np.float32), x)
