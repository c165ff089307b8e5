# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The scalar float operations (S1) to (S4), applied element by element to arrays, with exact bits.

NumPy's own +, -, *, /, sqrt, floor, ceil, trunc, rint and fmod on float32 and float64 are the IEEE 754 operations; this
module adds the operations that NumPy lacks or does not define for NaN and -0. Operands broadcast.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from repro_mlir.base.numerics.formats import ElementType, round_to_format, sign_extend

# The smallest normal f32. A result of at most this magnitude may be subnormal, and then has fewer than 24 significant
# bits.
_F32_TINY = np.float32(2.0**-126)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Returns a * b + c with one rounding (S1), for arrays that are all float32 or all float64."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    if not a.dtype == b.dtype == c.dtype:
        raise TypeError(f"expected operands of one dtype, got {a.dtype}, {b.dtype} and {c.dtype}")
    return _fma_f32(a, b, c) if a.dtype == np.float32 else _fma_f64(a, b, c)


def _fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    # The product of two f32 is exact in f64. Rounding the f64 sum again to f32 can be wrong only if that sum lies
    # exactly midway between two f32 values, or if the result is at most `_F32_TINY`; only these elements are
    # recomputed.
    product = np.multiply(a, b, dtype=np.float64)
    total = np.asarray(product + c)
    result = total.astype(np.float32)
    doubtful = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    small = np.abs(result) <= _F32_TINY
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        exact = _sum_to_odd(
            np.broadcast_to(product, total.shape)[doubtful],
            np.broadcast_to(c, total.shape)[doubtful].astype(np.float64),
        )
        result[doubtful] = exact.astype(np.float32)
    return result


def fma_chain(x: np.ndarray, y: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """Returns acc after acc = fma(x[i], y[i], acc) for i = 0, 1, ..., each with one rounding to f32 (S1).

    `x` and `y` are float64 arrays with f32 values, whose items broadcast to the shape of `acc`, which is float32.
    """
    # `_fma_f32` states which elements are recomputed. All f32 are multiples of 2^-149; if all products are too, small
    # sums are f32, and their rounding is not in doubt.
    least = np.multiply(*(np.where(v == 0, np.inf, np.abs(v)).min(initial=np.inf) for v in (x, y)))
    may_be_small = not least >= 2.0**-101
    result = acc.copy()
    wide, product, total = acc.astype(np.float64), np.empty(acc.shape), np.empty(acc.shape)
    bits, low, doubtful = total.view(np.int64), np.empty(acc.shape, np.int64), np.empty(acc.shape, np.bool_)
    for i in range(len(x)):
        np.multiply(x[i], y[i], out=product)
        np.add(product, wide, out=total)
        np.copyto(result, total, casting="same_kind")
        np.bitwise_and(bits, 0x1FFFFFFF, out=low)
        np.equal(low, 0x10000000, out=doubtful)
        if may_be_small:
            doubtful |= (np.abs(result) <= _F32_TINY) & (total != 0)
        if np.count_nonzero(doubtful):
            at = np.flatnonzero(doubtful)
            result.put(at, _sum_to_odd(product.take(at), wide.take(at)).astype(np.float32))
        np.copyto(wide, result)
    return result


def _two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rounded sum and its exact rounding error (Knuth's TwoSum), for sums that do not overflow."""
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def _sum_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns x + y in f64, rounded to odd: of the two neighbours of an inexact sum, the one whose last bit is 1 (Boldo
    and Melquiond).

    Rounding the result again, to a format with at least two bits fewer, gives the correctly rounded sum.
    """
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    to_odd = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    return (bits + np.where(to_odd, np.where(away, 1, -1), 0)).view(np.float64)


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits an f64 into a sum of two parts whose significands have at most 26 bits (Dekker), for magnitudes below
    2^996."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = np.broadcast_arrays(a, b, c)
    product = a * b
    plain = np.asarray(product + c)  # correct if a * b is an exact zero, or if an operand is not finite
    finite = np.isfinite(a) & np.isfinite(b)
    factors = (a != 0) & (b != 0)
    result = np.where(finite & ~np.isfinite(c), c, plain)
    work = finite & factors & np.isfinite(c)
    if not work.any():
        return result

    def within(x: np.ndarray, bound: float) -> np.ndarray:
        return (np.abs(x) <= bound) & (np.abs(x) >= 1 / bound)

    # Within these bounds, no intermediate result overflows or has bits below the least subnormal, so the error-free
    # transformations are exact.
    fast = work & within(a, 2.0**400) & within(b, 2.0**400) & ((c == 0) | within(c, 2.0**800))
    if fast.any():
        x, y, z = a[fast], b[fast], c[fast]
        high = x * y
        (xh, xl), (yh, yl) = _split(x), _split(y)
        low = ((xh * yh - high) + xh * yl + xl * yh) + xl * yl
        z_high, z_low = _two_sum(z, low)
        total, rest = _two_sum(high, z_high)
        result[fast] = total + _sum_to_odd(z_low, rest)
        # A result of zero needs no special case: it occurs only if the product and c cancel, and two-sum then gives +0,
        # as (S1) requires.
    slow = work & ~fast
    if slow.any():
        triples = zip(a[slow].tolist(), b[slow].tolist(), c[slow].tolist(), strict=True)
        result[slow] = [_fma_exact(*triple) for triple in triples]
    return result


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0  # the sum of a nonzero product and its negative
    try:
        value = float(exact)  # correctly rounded by Python, including subnormals
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
    return -0.0 if value == 0 and exact < 0 else value


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(S2) Returns the IEEE 754-2019 maximum: NaN if an operand is NaN, and -0 < +0."""
    first = (a > b) | ((a == b) & ~np.signbit(a))
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), np.where(first, a, b))


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(S2) Returns the IEEE 754-2019 minimum: NaN if an operand is NaN, and -0 < +0."""
    first = (a < b) | ((a == b) & np.signbit(a))
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), np.where(first, a, b))


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(S4) Returns the exact remainder of truncated division; the remainder has the sign of the dividend, even if the
    remainder is zero."""
    return np.copysign(np.fmod(a, b), a)


def round_half_away(x: np.ndarray) -> np.ndarray:
    """(S4) Returns the nearest integer; halfway cases round away from zero."""
    whole = np.trunc(x)
    # x - whole is exact: it is a multiple of the unit in the last place of x, and no larger than x.
    away = np.abs(x - whole) >= 0.5
    return np.where(away, whole + np.copysign(x.dtype.type(1), x), whole)


def copysign(magnitude: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """(S4) Returns the magnitude with the sign of `sign`; (V4) the sign of a NaN counts as plus."""
    return np.copysign(magnitude, np.where(np.isnan(sign), sign.dtype.type(1), sign))


def to_integer(x: np.ndarray, width: int, signed: bool) -> np.ndarray:
    """(S3) Converts floats to integers: rounds toward zero, saturates to `width` bits and maps NaN to 0. Returns
    sign-extended int64 (bool for i1)."""
    wide = np.trunc(np.asarray(x, np.float64))
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    inside = (wide >= low) & (wide < float(high + 1))
    within = np.where(inside, wide, 0.0)
    # Unsigned values from 2^63 wrap to the negative int64 with the same bits.
    upper = within >= 2.0**63
    value = np.where(upper, within - 2.0**63, within).astype(np.int64)
    value = np.where(upper, value + np.iinfo(np.int64).min, value)
    high_bits = np.array(high, np.uint64).astype(np.int64) if high > 0 else np.int64(0)
    value = np.where(wide >= float(high + 1), high_bits, np.where(wide < low, np.int64(low), value))
    return sign_extend(value, width)


def from_integer(x: np.ndarray, to: ElementType, width: int, signed: bool) -> np.ndarray:
    """(S3) Converts a `width`-bit integer (sign-extended int64, or bool) to a float, rounded once to nearest even."""
    value = -x.astype(np.int64) if x.dtype == np.bool_ else x
    if not signed and width < 64:
        value = value & np.int64((1 << width) - 1)
    unsigned = not signed and width == 64
    if to.width >= 32:
        return (value.view(np.uint64) if unsigned else value).astype(to.dtype)
    # With the low 16 bits replaced by one sticky bit, the value is exact in f64 and rounds to the same result.
    negative = (value < 0) & (not unsigned)
    magnitude = np.where(negative, -value, value).view(np.uint64)
    sticky = ((magnitude & np.uint64(0xFFFF)) != 0).astype(np.uint64) << np.uint64(16)
    squeezed = np.where(magnitude >> np.uint64(48) == 0, magnitude, (magnitude & ~np.uint64(0xFFFF)) | sticky)
    wide = squeezed.astype(np.float64)
    return round_to_format(np.where(negative, -wide, wide), to)


def convert(x: np.ndarray, source: ElementType, to: ElementType, saturate: bool = False) -> np.ndarray:
    """(S3) Converts a float to another float type: exactly if `to` is wider, else rounded once to nearest even.
    `saturate` is for types without infinity: a value beyond the largest finite value becomes that value instead of
    NaN."""
    if to.is_storage:
        return x if source == to else round_to_format(x, to, saturate)
    return x.astype(to.dtype)
