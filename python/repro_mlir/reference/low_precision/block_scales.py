# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q2) Computes the scale of each block from its greatest magnitude (amax). Each rule defines the order of its
operations.

Every amax is float32, not negative, and NaN if the block contains a NaN. No rule computes a logarithm: exponents are
read from the bits.
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
    """(Q2) The rule that chooses the power of two."""

    FLOOR = "floor"
    CEIL = "ceil"
    EVEN = "even"
    RCEIL = "rceil"
    RCEIL_PRODUCT = "rceil_product"


class InfiniteAmax(Enum):
    """(Q2) The scale of a block that contains an infinity (`PowerOfTwo.infinity`)."""

    NAN = "nan"
    LARGEST = "largest"
    POWER = "power"


@dataclass(frozen=True)
class PowerOfTwo:
    """(Q2) A scale of f8E8M0FNU; elements are divided by it exactly.

    Attributes:
      rule: the rule that chooses the power of two.
      infinity: the byte for an infinite amax, and for an amax that EVEN rounds to 2^128: 255 (NAN), 254 (LARGEST), or
        the byte for an amax of 2^128 (POWER).
      nan: the byte for an amax that is NaN.
      least: the exponent of the power of two by which elements are divided if the byte is 0; None for -127, the
        exponent that the byte 0 encodes.
    """

    rule: PowerRule
    infinity: InfiniteAmax = InfiniteAmax.NAN
    nan: int = E8M0_NAN
    least: int | None = None


@dataclass(frozen=True)
class FourError:
    """(Q2) How the error of a block is measured when its greatest element may map to 4 or 6.

    Attributes:
      squared: whether the squares of the elements' rounding errors are added, rather than their magnitudes.
      scaled: whether the rounding errors are in units of the tensor's scale, rather than of the input.
    """

    squared: bool
    scaled: bool


@dataclass(frozen=True)
class TwoLevel:
    """(Q2) `nvfp4`: an f8E4M3FN scale per block, and the amax of the whole tensor or of each row.

    Attributes:
      largest: the value that the greatest scale maps to: 448, or 256.
      four: the error that decides whether the greatest element of a block maps to 4 instead of 6; None for always 6.
    """

    largest: int = 448
    four: FourError | None = None


@dataclass(frozen=True)
class TwoLevelQuotient:
    """(Q2) `nvfp4_quotient`: an f8E4M3FN scale from 2^-6 to 448 per block, and a given f32 scale for the tensor."""


@dataclass(frozen=True)
class OneLevelQuotient:
    """(Q2) `nvfp4_single`: like `nvfp4_quotient`, but without a scale of the tensor."""


class Encoding(Enum):
    """(Q2) How elements are scaled by an f32 scale (`Single.encoding`)."""

    PRODUCT = "product"
    RECIPROCAL = "reciprocal"
    QUOTIENT = "quotient"


@dataclass(frozen=True)
class Single:
    """(Q2) An f32 scale.

    Attributes:
      least: the f64 lower bound to which a smaller amax is raised.
      encoding: whether elements are multiplied by max / amax (PRODUCT), multiplied by 1 / (amax / max) (RECIPROCAL) or
        divided by amax / max (QUOTIENT), where max is the largest value of the element format.
      inverse: whether the stored scale is max / amax, the factor of the elements; requires PRODUCT.
      power: whether the scale is a power of two, chosen so that no scaled element exceeds max.
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
    """(Q2) `given`: an f32 scale for the whole tensor that does not depend on the tensor's values; the reciprocal of
    the scale is stored."""


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
    """Returns (e, m) with amax = m * 2^(e - 23) and m of 24 bits, for finite amax above 0."""
    value = unpack(f32_bits(amax), F32)
    up = 24 - bit_length(value.magnitude)
    return value.exponent - up + 23, np.where(value.magnitude == 0, 1 << 23, value.magnitude << up)


def ceil_log2(x: np.ndarray) -> np.ndarray:
    """Returns the least integer n with 2^n >= x, for finite x above 0."""
    exponent, significand = _normal(x)
    return exponent + (significand != 1 << 23)


def power_exponent(amax: np.ndarray, element: Format, rule: PowerRule) -> np.ndarray:
    """Returns the exponent of the scale, not yet clamped, for finite amax above 0; int64."""
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
            # The significand of the format's largest value is exact in 24 bits, so it can be compared with that of
            # amax.
            largest = Fraction(element.largest_integer, 1 << (element.largest_integer.bit_length() - 1))
            return exponent - element.max_exponent + (significand > int(largest * (1 << 23)))
        case PowerRule.RCEIL_PRODUCT:
            ratio = multiply(amax, divide(np.float32(1), _maximum(element)))
            return np.where(ratio == 0, -2 * E8M0_BIAS, ceil_log2(ratio))


def _maximum(element: Format) -> np.ndarray:
    return decode(np.array(element.largest), element)


def power_bytes(amax: np.ndarray, element: Format, rule: PowerOfTwo) -> np.ndarray:
    """(Q2) Returns the f8E8M0FNU codes (uint8) for amax of any shape."""
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
    """Returns, for finite scales, the exponents (int64) of the powers of two by which elements are divided."""
    exponent = codes.astype(np.int64) - E8M0_BIAS
    return exponent if rule.least is None else np.where(codes == 0, rule.least, exponent)


# --- Scales of f8E4M3FN ---


def e4m3(x: np.ndarray) -> np.ndarray:
    """Returns the codes of x rounded to f8E4M3FN, to nearest even, saturating."""
    return round_elements(x, F8E4M3FN, NEAREST_EVEN)


def tensor_scale(amax: np.ndarray, rule: TwoLevel) -> tuple[np.ndarray, np.ndarray]:
    """(Q2) Returns two factors for the whole tensor: one that encodes elements and one that decodes them."""
    encode_scale = minimum(divide(np.float32(6 * rule.largest), amax), FLT_MAX)
    encode_scale = np.where(encode_scale == 0, np.float32(1), encode_scale)
    return encode_scale, divide(np.float32(1), encode_scale)


def two_level(block: np.ndarray, tensor: np.ndarray, rule: TwoLevel, to: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """(Q2) Returns the codes of the f8E4M3FN scales, and the factors of the elements.

    Args:
      block: the amax of each block.
      tensor: the amax of the tensor; it broadcasts against `block`.
      to: the value to which the greatest element of a block is scaled: 6 or, with `rule.four`, 4.
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
    """(Q2) Returns the codes of the scales and the factors of the elements for `nvfp4_quotient`; without `tensor`, for
    `nvfp4_single`."""
    scaled = divide(block, np.float32(6))
    if tensor is not None:
        scaled = divide(scaled, tensor)
    codes = e4m3(np.where(scaled < np.float32(2.0**-6), np.float32(2.0**-6), scaled))
    one = np.float32(1) if tensor is None else divide(np.float32(1), tensor)
    return codes, divide(one, decode_scale(codes))


# --- Scales of f32 ---


def _round_fraction(x: Fraction) -> np.ndarray:
    """Rounds a positive rational to f32, to nearest even."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length() - 50
    scaled = x / Fraction(2) ** exponent
    whole = int(scaled)
    magnitude = np.int64(whole | (whole != scaled))
    none = np.zeros((), np.bool_)
    codes = encode(none, magnitude, np.int64(exponent), F32, Direction.NEAREST_EVEN)
    return to_f32(codes, unpack(codes, F32))


def single(amax: np.ndarray, element: Format, rule: Single) -> tuple[np.ndarray, np.ndarray, bool]:
    """(Q2) Returns the stored scales (float32), the factors of the elements, and whether elements are divided by these
    factors instead of multiplied."""
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
    """Rounds x up, or down if `down`, to a power of two that is a normal f32; zeros, infinities and NaNs are
    unchanged."""
    bits = f32_bits(x)
    number = (bits > 0) & (bits < 0x7F800000)
    safe = np.where(number, x, np.float32(1))
    exponent = np.clip(_normal(safe)[0] if down else ceil_log2(safe), -126, 127)
    return np.where(number, ((exponent + 127) << 23).astype(np.uint32).view(np.float32), x)
