# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M1) to (M3) Accumulators of matrix units: dot products whose products are aligned, truncated and added as integers.

A block of products and the value c determine the next c; a dot product is a chain of blocks in ascending order of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import canonical, element_type, round_to_format
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    E8M13,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E4M3FN,
    F8E5M2,
    F16,
    F32,
    TF32,
    BinaryFormat,
    Unpacked,
    decode,
    encode,
    f32_bits,
    to_f32,
    unpack,
    unpack_e8m0,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction, bit_length, shift_left
from repro_mlir.reference.low_precision.f32_operations import add, multiply

ROUNDINGS = {
    "rz_f32": (F32, Direction.TOWARD_ZERO),
    "rz_e8m13": (E8M13, Direction.TOWARD_ZERO),
    "rne_f16": (F16, Direction.NEAREST_EVEN),
    "rne_f32": (F32, Direction.NEAREST_EVEN),
}
"""(M1) The roundings of a block's sum, by name: the format and the direction."""

MAX_FRACTION = 40
MAX_TERMS = 128


@dataclass(frozen=True)
class Fdpa:
    """(M1), (M2) `fdpa<terms, fraction, round, floor, group>`: a fused dot product and addition.

    Attributes:
      terms: the number of products in a block, 1 to 128.
      fraction: the number of fraction bits that are kept, relative to the greatest exponent, 10 to 40; None keeps all
        bits.
      round: a name of ROUNDINGS.
      floor: the least exponent that products are aligned to; ignored if fraction is None.
      group: the number of neighbouring products that are first added exactly; only with block scales.
    """

    terms: int
    fraction: int | None
    round: str
    floor: int
    group: int = 1

    def __post_init__(self) -> None:
        fraction = MAX_FRACTION if self.fraction is None else self.fraction
        if not (1 <= self.terms <= MAX_TERMS and 10 <= fraction <= MAX_FRACTION and self.round in ROUNDINGS):
            raise ValueError(f"expected 1 to {MAX_TERMS} terms, 10 to {MAX_FRACTION} bits and a rounding, got {self}")
        if self.group < 1 or self.terms % self.group:
            raise ValueError(f"expected groups that divide the {self.terms} terms of a block, got {self.group}")

    @property
    def result(self) -> BinaryFormat:
        """The format of c and of the result."""
        return ROUNDINGS[self.round][0]


@dataclass(frozen=True)
class LateFdpa:
    """(M3) Adds 2 * inner.terms products as a chain of two blocks of `inner` from +0, then c with rounding to nearest
    even. The first block contains the products k with k mod 4 in {0, 1}, the second block the other products.

    Attributes:
      inner: the accumulator of the products.
      result: the format of c and of the result.
    """

    inner: Fdpa
    result: BinaryFormat

    @property
    def terms(self) -> int:
        """The number of products in a block."""
        return 2 * self.inner.terms


@dataclass(frozen=True)
class DownFdpa:
    """(M3) Truncates products, rounds their sum and c down to fixed numbers of fraction bits, and rounds the total of
    both to f32, to nearest even.

    Attributes:
      terms: the number of products in a block.
      fraction: the number of fraction bits of the truncated products and of c.
      sum_fraction: the number of fraction bits of the sum of the products.
    """

    terms: int
    fraction: int
    sum_fraction: int
    result: BinaryFormat = F32


@dataclass(frozen=True)
class FlushedPairs:
    """(M3) Computes the products of a block in f32, adds neighbouring products pairwise, and adds the total to c;
    subnormals are flushed to zero.

    Attributes:
      terms: the number of products in a block, 2 or 4.
    """

    terms: int
    result: BinaryFormat = F32


Accumulator = Fdpa | LateFdpa | DownFdpa | FlushedPairs


@dataclass(frozen=True)
class _Terms:
    """The terms of a block, with the values (-1)^negative * magnitude * 2^(exponent - fraction), as arrays of one
    shape.

    `exponent` is Exp of rule (M1); `magnitude` is an int64.
    """

    negative: np.ndarray
    magnitude: np.ndarray
    exponent: np.ndarray
    fraction: int


def _significands(value: Unpacked, of: BinaryFormat) -> _Terms:
    """(M1) Returns Sig and Exp of finite values; a subnormal has the exponent of the smallest normal."""
    exponent = np.maximum(value.exponent + bit_length(value.magnitude) - 1, of.min_exponent)
    # Shifts Sig so that it has `of.fraction_bits` fraction bits for every value, also for subnormals.
    return _Terms(
        value.negative,
        shift_left(value.magnitude, value.exponent - exponent + of.fraction_bits),
        exponent,
        of.fraction_bits,
    )


def _product(x: _Terms, y: _Terms) -> _Terms:
    return _Terms(x.negative ^ y.negative, x.magnitude * y.magnitude, x.exponent + y.exponent, x.fraction + y.fraction)


def _grouped(x: _Terms, group: int) -> _Terms:
    """Returns exact sums of `group` neighbours along the last axis, in units that the least exponent determines."""
    least = int(x.exponent.min(initial=0))
    wide = x.magnitude << (x.exponent - least)
    signed = np.where(x.negative, -wide, wide)
    total = signed.reshape(*signed.shape[:-1], -1, group).sum(axis=-1)
    return _Terms(total < 0, np.abs(total), np.zeros_like(total), x.fraction - least)


def _aligned(x: _Terms, top: np.ndarray, fraction: int, down: bool = False) -> np.ndarray:
    """Returns the values in units of 2^(top - fraction) as signed int64, rounded toward zero, or down if `down`."""
    places = x.exponent - top + fraction - x.fraction
    whole = shift_left(x.magnitude, places)
    if down:
        whole += x.negative & (shift_left(whole, -places) != x.magnitude)
    return np.where(x.negative, -whole, whole)


def _top(x: _Terms) -> np.ndarray:
    """Returns the exponents of nonzero values; zeros get an exponent that is less than any other."""
    return np.where(x.magnitude == 0, -(1 << 20), x.exponent)


def _exact_total(products: _Terms, c: _Terms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns sign, magnitude (below 2^62) and exponent of the sum of c and of all products along the last axis. Python
    integers make the sum exact; low bits of a long sum are then combined into one sticky bit."""
    last = (c.exponent - c.fraction)[..., np.newaxis]
    places = np.concatenate([products.exponent - products.fraction, last], axis=-1)
    values = np.concatenate([products.magnitude, c.magnitude[..., np.newaxis]], axis=-1).astype(object)
    negative = np.concatenate([products.negative, c.negative[..., np.newaxis]], axis=-1)
    least = places.min(axis=-1)
    shifted = np.where(negative, -values, values) << (places - least[..., np.newaxis]).astype(object)
    magnitudes, exponents, signs = [], [], []
    totals = np.array(shifted.sum(axis=-1), object)
    for total, place in zip(totals.ravel(), least.ravel(), strict=True):
        # A long sum keeps its first 60 bits and one sticky bit.
        extra = max(abs(total).bit_length() - 60, 0)
        high = abs(total) >> extra
        magnitudes.append(high | (high << extra != abs(total)))
        exponents.append(int(place) + extra)
        signs.append(total < 0)
    shape = least.shape
    return (
        np.array(signs, np.bool_).reshape(shape),
        np.array(magnitudes, np.int64).reshape(shape),
        np.array(exponents, np.int64).reshape(shape),
    )


def _finish(
    negative: np.ndarray, magnitude: np.ndarray, exponent: np.ndarray, special: Unpacked, rounding: str
) -> np.ndarray:
    to, direction = ROUNDINGS[rounding]
    values = decode(encode(negative, magnitude, exponent, to, direction), to)
    if direction == Direction.TOWARD_ZERO:
        values = np.where(values == 0, np.zeros_like(values), values)
    return to_f32(f32_bits(values), special)


def _special(x: Unpacked, y: Unpacked, scales: tuple[Unpacked, Unpacked] | None, c: Unpacked) -> Unpacked:
    """(M1) Returns which results are infinite or NaN, as IEEE 754 defines for exact products and their exact sum with
    c, and the signs of the infinite results."""
    negative, infinite, nan = x.negative ^ y.negative, x.infinite | y.infinite, x.nan | y.nan
    zero = (x.finite & (x.magnitude == 0)) | (y.finite & (y.magnitude == 0))
    for scale in scales or ():
        nan = nan | scale.nan
        zero = zero | (scale.finite & (scale.magnitude == 0))
    nan = nan | (infinite & zero)
    up = (infinite & ~negative).any(axis=-1) | (c.infinite & ~c.negative)
    down = (infinite & negative).any(axis=-1) | (c.infinite & c.negative)
    return Unpacked(down, c.magnitude, c.exponent, up | down, nan.any(axis=-1) | c.nan | (up & down))


def _block(
    x: Unpacked,
    y: Unpacked,
    of: tuple[BinaryFormat, BinaryFormat],
    c: np.ndarray,
    by: Fdpa | DownFdpa,
    scales: tuple[Unpacked, Unpacked] | None,
    scale_formats: tuple[BinaryFormat | None, BinaryFormat | None],
) -> np.ndarray:
    """Returns c plus one block of products, which are along the last axis. `scales` has a scale for each element of x
    and of y."""
    addend = unpack(f32_bits(c), F32)
    special = _special(x, y, scales, addend)
    products = _product(_significands(x, of[0]), _significands(y, of[1]))
    group = by.group if isinstance(by, Fdpa) else 1
    if group > 1:
        products = _grouped(products, group)
    if scales is not None:
        for scale, scale_format in zip(scales, scale_formats, strict=True):
            each = _take(scale, slice(None, None, group))
            if scale_format is None:
                # A scale of f8E8M0FNU is a power of two, so Sig = 1.
                factor = _Terms(each.negative, np.ones_like(each.magnitude), each.exponent, 0)
            else:
                factor = _significands(each, scale_format)
            products = _product(products, factor)
    last = _significands(addend, by.result if by.result == F16 else F32)
    if isinstance(by, DownFdpa):
        low = np.maximum(_top(products).max(axis=-1), -(1 << 10))
        high = np.maximum(low, _top(last))
        total = _aligned(products, low[..., np.newaxis], by.fraction).sum(axis=-1)
        as_terms = _Terms(total < 0, np.abs(total), low, by.fraction)
        wide = _aligned(as_terms, high, by.sum_fraction, down=True)
        rest = _aligned(last, high, by.fraction, down=True)
        wide += rest << (by.sum_fraction - by.fraction)
        return _finish(wide < 0, np.abs(wide), high - by.sum_fraction, special, "rne_f32")
    if by.fraction is None:
        return _finish(*_exact_total(products, last), special, by.round)
    top = np.maximum(np.maximum(_top(products).max(axis=-1), _top(last)), by.floor)
    total = _aligned(products, top[..., np.newaxis], by.fraction).sum(axis=-1) + _aligned(last, top, by.fraction)
    return _finish(total < 0, np.abs(total), top - by.fraction, special, by.round)


def _flushed(x: np.ndarray, of: BinaryFormat = F32, signed: bool = True) -> np.ndarray:
    small = np.abs(x) < np.float32(2.0**of.min_exponent)
    return np.where(small, np.copysign(np.float32(0), x) if signed else np.float32(0), x)


def _flushed_block(a: np.ndarray, b: np.ndarray, of: tuple[BinaryFormat, BinaryFormat], c: np.ndarray) -> np.ndarray:
    total = _flushed(multiply(_flushed(a, of[0], signed=False), _flushed(b, of[1], signed=False)))
    while total.shape[-1] > 1:
        total = _flushed(add(total[..., 0::2], total[..., 1::2]))
    return _flushed(add(_flushed(c, signed=False), total[..., 0]))


def _late_sum(total: np.ndarray, c: np.ndarray, to: BinaryFormat) -> np.ndarray:
    """Returns total + c with one rounding to nearest even."""
    if to == F32:
        return add(total, c)
    with float_environment(), np.errstate(invalid="ignore"):
        # The sum of two f16 is exact in f64.
        rounded = round_to_format(total.astype(np.float64) + c.astype(np.float64), element_type(to.name))
    return canonical(rounded, element_type(to.name))


def accumulate(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    by: Accumulator,
    of: BinaryFormat | tuple[BinaryFormat, BinaryFormat],
    scales: tuple[np.ndarray, np.ndarray] | None = None,
    scale_format: BinaryFormat | tuple[BinaryFormat | None, BinaryFormat | None] | None = None,
) -> np.ndarray:
    """(M1) to (M3) Returns c plus the sum of a[..., k] * b[..., k] over k, one block after the other.

    Args:
      a: an array [..., K] of float32 values of the format `of`, or of the first format in `of`.
      b: an array of float32 values of the format `of`, or of the second format in `of`; the shapes of `a` and `b`
        broadcast.
      c: float32 values of the result's format; the shape is that of `a`, without K.
      scales: with Fdpa: the scales of a and of b, codes [..., K] of `scale_format`, which may be a pair; None means
        f8E8M0FNU. Each product has its own scales, so the scale of a block is repeated.
    Returns:
      float32 values of the result's format.
    Raises:
      ValueError: a value that its format does not represent; scales that the accumulator does not support, or missing
        scales for groups; groups whose sums have more than 62 bits; shapes that do not broadcast.
    """
    formats = of if isinstance(of, tuple) else (of, of)
    for values, name in ((a, formats[0]), (b, formats[1]), (c, F16 if by.result == F16 else F32)):
        _check_values(np.asarray(values, np.float32), name)
    if isinstance(by, Fdpa):
        check_groups(by, formats)
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    shape = np.broadcast_shapes(a.shape, b.shape)
    c = np.broadcast_to(np.asarray(c, np.float32), shape[:-1])
    if scales is not None and not isinstance(by, Fdpa):
        raise ValueError("expected an fdpa accumulator for scales of blocks")
    if scales is None and isinstance(by, Fdpa) and by.group > 1:
        raise ValueError("expected scales of blocks for an accumulator with groups of products")
    # The last block is padded with products +0.
    missing = -shape[-1] % by.terms
    unpacked = None
    of_scales = scale_format if isinstance(scale_format, tuple) else (scale_format, scale_format)
    if scales is not None:
        wide = [_filled(np.asarray(each), shape, missing, "edge") for each in scales]
        unpacked = _unpack_scale(wide[0], of_scales[0]), _unpack_scale(wide[1], of_scales[1])
    a, b = (_filled(each, shape, missing, "constant") for each in (a, b))
    x, y = unpack(f32_bits(a), F32), unpack(f32_bits(b), F32)
    for first in range(0, shape[-1] + missing, by.terms):
        chosen = slice(first, first + by.terms)
        if isinstance(by, FlushedPairs):
            c = _flushed_block(a[..., chosen], b[..., chosen], formats, c)
        elif isinstance(by, LateFdpa):
            total = np.zeros_like(c)
            k = np.arange(first, first + by.terms)
            for part in (k[k % 4 < 2], k[k % 4 >= 2]):
                total = _block(_take(x, part), _take(y, part), formats, total, by.inner, None, of_scales)
            c = _late_sum(total, c, by.result)
        else:
            own = None if unpacked is None else (_take(unpacked[0], chosen), _take(unpacked[1], chosen))
            c = _block(_take(x, chosen), _take(y, chosen), formats, c, by, own, of_scales)
    return c


def _filled(x: np.ndarray, shape: tuple[int, ...], more: int, mode: Literal["constant", "edge"]) -> np.ndarray:
    """Returns `x` with its last dimension broadcast to that of `shape` and padded with `more` elements. The other
    dimensions are broadcast later, when products are computed.

    Raises:
      ValueError: `x` does not broadcast to `shape`.
    """
    if np.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"expected scales of a shape that broadcasts to {shape}, got {x.shape}")
    of_k = np.broadcast_to(x, (*x.shape[:-1], shape[-1]))
    return np.pad(of_k, [(0, 0)] * (of_k.ndim - 1) + [(0, more)], mode)


def _check_values(x: np.ndarray, of: BinaryFormat) -> None:
    value = unpack(f32_bits(x), F32)
    # Encoding toward zero with saturation changes exactly the numbers that the format does not represent.
    codes = encode(value.negative, value.magnitude, value.exponent, of, Direction.TOWARD_ZERO, saturate=True)
    wrong = (value.finite & (f32_bits(decode(codes, of)) != f32_bits(x))).ravel()
    if wrong.any():
        raise ValueError(f"expected values of {of.name}, got {float(x.ravel()[wrong.argmax()])!r}")


def check_groups(by: Fdpa, of: tuple[BinaryFormat, BinaryFormat]) -> None:
    """Raises ValueError if sums of groups of products of two formats have more than 62 bits."""
    if by.group == 1:
        return
    # `largest` bounds the sum of a group, in units of its last bit. `kept` bounds the bits of the sum of all groups;
    # each product is that of two significands below 2.
    largest = of[0].largest_integer * of[1].largest_integer * by.group
    kept = (of[0].max_exponent + of[1].max_exponent + 2) + (by.fraction or 0)
    if largest.bit_length() + 8 > 62 or kept + (4 * by.terms).bit_length() > 62:
        raise ValueError(
            f"expected groups of at most 62 bits, got {by.group} products of {of[0].name} and {of[1].name}"
        )


def _take(x: Unpacked, chosen: slice | np.ndarray) -> Unpacked:
    return Unpacked(*(getattr(x, name)[..., chosen] for name in Unpacked.__dataclass_fields__))


def _unpack_scale(codes: np.ndarray, of: BinaryFormat | None) -> Unpacked:
    if of is None:
        return unpack_e8m0(codes)
    # The sign bit of a scale is ignored.
    return unpack(np.asarray(codes).astype(np.int64) & (of.sign - 1), of)


# --- Named accumulators ---

F32_OUT, F16_OUT = "f32", "f16"
FLOAT8 = (F8E4M3FN.name, F8E5M2.name)
FLOAT8_TO_4 = (*FLOAT8, F6E3M2FN.name, F6E2M3FN.name, F4E2M1FN.name)

_VOLTA: dict[tuple[str, str], Accumulator] = {
    (F16.name, F32_OUT): Fdpa(4, 23, "rz_f32", -131),
    (F16.name, F16_OUT): Fdpa(4, 23, "rne_f16", -19),
}
_TURING: dict[tuple[str, str], Accumulator] = {
    (F16.name, F32_OUT): Fdpa(8, 24, "rz_f32", -132),
    (F16.name, F16_OUT): Fdpa(8, 24, "rne_f16", -20),
}
_AMPERE = _TURING | {
    (BF16.name, F32_OUT): Fdpa(8, 24, "rz_f32", -132),
    (TF32.name, F32_OUT): Fdpa(4, 24, "rz_f32", -132),
}
_ADA = (
    _AMPERE
    | {(of, F32_OUT): Fdpa(16, 13, "rz_e8m13", -132) for of in FLOAT8}
    | {(of, F16_OUT): Fdpa(16, 13, "rne_f16", -20) for of in FLOAT8}
)
_WIDE: dict[tuple[str, str], Accumulator] = {
    (F16.name, F32_OUT): Fdpa(16, 25, "rz_f32", -133),
    (F16.name, F16_OUT): Fdpa(16, 25, "rne_f16", -21),
    (BF16.name, F32_OUT): Fdpa(16, 25, "rz_f32", -133),
    (TF32.name, F32_OUT): Fdpa(8, 25, "rz_f32", -133),
}
_HOPPER = (
    _WIDE
    | {(of, F32_OUT): Fdpa(32, 13, "rz_e8m13", -132) for of in FLOAT8}
    | {(of, F16_OUT): Fdpa(32, 13, "rne_f16", -21) for of in FLOAT8}
)
_BLACKWELL = (
    _WIDE
    | {(of, F32_OUT): Fdpa(32, 25, "rz_f32", -133) for of in FLOAT8_TO_4}
    | {(of, F16_OUT): Fdpa(32, 25, "rne_f16", -21) for of in FLOAT8_TO_4}
)
_TWO_HMMA: dict[tuple[str, str], Accumulator] = {
    **{(of, F32_OUT): LateFdpa(Fdpa(16, 25, "rz_f32", -133), F32) for of in FLOAT8},
    **{(of, F16_OUT): LateFdpa(Fdpa(16, 25, "rne_f16", -21), F16) for of in FLOAT8},
}

ACCUMULATORS: dict[str, dict[tuple[str, str], Accumulator]] = {
    "volta": _VOLTA,
    "turing": _TURING,
    "ampere": _AMPERE,
    "ada": _ADA,
    "hopper": _HOPPER,
    "hopper_mma": _TWO_HMMA,
    "blackwell": _BLACKWELL,
    "blackwell_mma": _TWO_HMMA,
    "blackwell_mx": {(of, F32_OUT): Fdpa(32, 25, "rz_f32", -133) for of in FLOAT8_TO_4},
    "blackwell_mxf4": {(F4E2M1FN.name, F32_OUT): Fdpa(64, 35, "rz_f32", -133, 16)},
    "blackwell_nvfp4": {(F4E2M1FN.name, F32_OUT): Fdpa(64, 35, "rz_f32", -133, 16)},
    "cdna1": {(F16.name, F32_OUT): Fdpa(4, None, "rne_f32", 0), (BF16.name, F32_OUT): Fdpa(2, None, "rne_f32", 0)},
    "cdna2": {(F16.name, F32_OUT): FlushedPairs(4), (BF16.name, F32_OUT): FlushedPairs(4)},
    "cdna3": {
        (F16.name, F32_OUT): DownFdpa(8, 24, 31),
        (BF16.name, F32_OUT): DownFdpa(8, 24, 31),
        (TF32.name, F32_OUT): DownFdpa(4, 24, 31),
    },
}
"""(M3) For each named class, the accumulator for each pair of an operand format and a result format.

Terms, fractions and roundings: published models (MMA-Sim, arXiv 2511.10909, table 4); those of `*_mma` come from
recorded outputs. Floors of f32 and f16: published measurements (arXiv 2512.07004, 2603.20421); the floors of Volta
follow the pattern of the measured ones.
"""

UNVERIFIED = ("blackwell_mx", "blackwell_mxf4", "blackwell_nvfp4", "cdna1", "cdna2", "cdna3")
"""The classes that are not verified against recorded outputs of a device."""


def named_accumulator(name: str, of: BinaryFormat, result: BinaryFormat = F32) -> Accumulator:
    """(M3) Returns the accumulator of a class for operands and results of these formats.

    Raises:
      ValueError: an unknown class, or one that does not support these formats.
    """
    if name not in ACCUMULATORS:
        raise ValueError(f"expected one of {', '.join(ACCUMULATORS)}, got {name}")
    found = ACCUMULATORS[name].get((of.name, result.name))
    if found is None:
        raise ValueError(f"{name} does not multiply {of.name} with results of {result.name}")
    return found
