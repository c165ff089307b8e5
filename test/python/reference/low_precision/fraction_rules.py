# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The rules (Q1) to (Q5) and (M1) to (M3) of docs/reference/numerics.md, computed one value at a time with Python's
fractions.

Shares no code with the package: formats are tables of all their values, and rounding searches these tables. A value
is a Fraction, or one of INF, -INF, NAN, and MINUS_ZERO where the sign of a zero matters.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

INF, NAN = math.inf, math.nan
MINUS_ZERO = -0.0
Value = Fraction | float

FIELDS = {
    # exponent bits, fraction bits, bias, largest code, has infinities, has NaNs
    "f8E4M3FN": (4, 3, 7, 0x7E, False, True),
    "f8E5M2": (5, 2, 15, 0x7B, True, True),
    "f6E3M2FN": (3, 2, 3, 0x1F, False, False),
    "f6E2M3FN": (2, 3, 1, 0x1F, False, False),
    "f4E2M1FN": (2, 1, 1, 0x07, False, False),
    "f16": (5, 10, 15, 0x7BFF, True, True),
    "bf16": (8, 7, 127, 0x7F7F, True, True),
    "tf32": (8, 10, 127, 0x3FBFF, True, True),
}
EMAX = {"f8E4M3FN": 8, "f8E5M2": 15, "f6E3M2FN": 4, "f6E2M3FN": 2, "f4E2M1FN": 2, "mxint8": 0}
MAXIMUM = {
    "f8E4M3FN": Fraction(448),
    "f8E5M2": Fraction(57344),
    "f6E3M2FN": Fraction(28),
    "f6E2M3FN": Fraction(15, 2),
    "f4E2M1FN": Fraction(6),
    "mxint8": Fraction(127, 64),
}
NAN_CODES = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7E}


def two(n: int) -> Fraction:
    """Returns 2^n."""
    return Fraction(2) ** n


def value_of(code: int, name: str) -> Value:
    """(Q1) Returns the value of a code."""
    if name == "mxint8":
        return Fraction(code - 256 if code >= 128 else code, 64)
    if name == "f8E8M0FNU":
        return NAN if code == 255 else two(code - 127)
    exponent_bits, fraction_bits, bias, largest, infinities, _ = FIELDS[name]
    sign, rest = divmod(code, 2 ** (exponent_bits + fraction_bits))
    if rest > largest:
        return (-INF if sign else INF) if infinities and rest == largest + 1 else NAN
    e, f = divmod(rest, 2**fraction_bits)
    if e == 0:
        magnitude = two(1 - bias) * Fraction(f, 2**fraction_bits)
    else:
        magnitude = two(e - bias) * (1 + Fraction(f, 2**fraction_bits))
    if sign:
        return -magnitude if magnitude else MINUS_ZERO
    return magnitude


@cache
def magnitudes(name: str) -> list[Fraction]:
    """Returns the non-negative values of a format in the order of their codes, and some larger values, as if the
    exponent had a larger range."""
    if name == "mxint8":
        return [Fraction(i, 64) for i in range(2**9)]
    exponent_bits, fraction_bits, bias, *_ = FIELDS[name]
    steps = 2**fraction_bits
    values = [two(1 - bias) * Fraction(f, steps) for f in range(steps)]
    for e in range(1, 2**exponent_bits + 3):
        values += [two(e - bias) * (1 + Fraction(f, steps)) for f in range(steps)]
    return values


def to_code(
    x: Value,
    name: str,
    how: str = "rne",
    saturate: bool = True,
    bits: int = 0,
    random: int = 0,
    nan: int | None = None,
    signed_zero: bool = True,
) -> int:
    """(Q3) Returns the code to which x rounds. If the format has no NaN, a NaN becomes the code `nan`, by default that
    of the largest value."""
    table = magnitudes(name)
    top = 127 if name == "mxint8" else FIELDS[name][3]
    sign_bit = 0 if name == "mxint8" else 2 ** (FIELDS[name][0] + FIELDS[name][1])
    if x != x:
        return NAN_CODES.get(name, top if nan is None else nan)
    negative = math.copysign(1, x) < 0 if isinstance(x, float) else x < 0
    if x in (INF, -INF):
        index = len(table)
    else:
        magnitude = abs(Fraction(x))
        low = bisect.bisect_right(table, magnitude) - 1
        if low == len(table) - 1:
            index = low
        else:
            rest = (magnitude - table[low]) / (table[low + 1] - table[low])
            up = {
                "rne": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1),
                "away": rest >= Fraction(1, 2),
                "rz": False,
                "sr": math.floor(rest * 2**bits) + random >= 2**bits,
            }[how]
            index = low + up
    if not signed_zero and x not in (INF, -INF) and f32(abs(Fraction(x))) == 0:
        return 0
    if name == "mxint8":
        return (-min(index, top) if negative else min(index, top)) % 256
    if index > top:
        if saturate or not FIELDS[name][5]:
            index = top
        elif FIELDS[name][4]:
            index = top + 1
        else:
            return NAN_CODES[name]
    return index + sign_bit * negative


# --- f32 ---


def f32(x: Value) -> Value:
    """Rounds x to f32, to nearest even; overflow gives an infinity."""
    if isinstance(x, float) and (x != x or x in (INF, -INF) or x == 0):
        return x
    x = Fraction(x)
    if x == 0:
        return x
    negative, magnitude = x < 0, abs(x)
    exponent = max(exponent_of(magnitude), -126)
    unit = two(exponent - 23)
    whole, rest = divmod(magnitude, unit)
    if rest > unit / 2 or (rest == unit / 2 and whole % 2 == 1):
        whole += 1
    result = whole * unit
    if result >= two(128):
        return -INF if negative else INF
    if result == 0:
        return MINUS_ZERO if negative else Fraction(0)
    return -result if negative else result


def exponent_of(x: Fraction) -> int:
    """Returns n with 2^n <= x < 2^(n+1)."""
    n = x.numerator.bit_length() - x.denominator.bit_length()
    while two(n) > x:
        n -= 1
    while two(n + 1) <= x:
        n += 1
    return n


def bits_of(x: Value) -> int:
    """Returns the bits of an f32 value; a NaN is canonical."""
    if x != x:
        return 0x7FC00000
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def from_bits(bits: int) -> Value:
    """Returns the value of f32 bits."""
    x = struct.unpack("<f", struct.pack("<I", bits))[0]
    return x if x != x or x in (INF, -INF) or (x == 0 and math.copysign(1, x) < 0) else Fraction(x)


def _is_negative(x: Value) -> bool:
    return math.copysign(1, x) < 0 if isinstance(x, float) else x < 0


def times(x: Value, y: Value) -> Value:
    """Returns x * y in f32."""
    if x != x or y != y:
        return NAN
    if x in (INF, -INF) or y in (INF, -INF):
        if x == 0 or y == 0:
            return NAN
        return -INF if _is_negative(x) != _is_negative(y) else INF
    product = Fraction(x) * Fraction(y)
    if product == 0:
        return MINUS_ZERO if _is_negative(x) != _is_negative(y) else Fraction(0)
    return f32(product)


def over(x: Value, y: Value) -> Value:
    """Returns x / y in f32 for non-negative values."""
    if x != x or y != y or (x == 0 and y == 0) or (x == INF and y == INF):
        return NAN
    if x == INF or y == 0:
        return INF
    if y == INF:
        return Fraction(0)
    return f32(Fraction(x) / Fraction(y))


def plus(x: Value, y: Value, z: Value = Fraction(1)) -> Value:
    """Returns x * z + y, rounded once to f32, with IEEE 754's signs of zeros. If x or y is infinite or NaN, z must be
    1."""
    special = [v for v in (x, y) if v != v or v in (INF, -INF)]
    if special:
        return special[0] if len(set(special)) == 1 else NAN
    total = Fraction(x) * Fraction(z) + Fraction(y)
    if total == 0:
        zeros = Fraction(x) * Fraction(z) == 0
        both = zeros and _is_negative(x) != _is_negative(z) and _is_negative(y)
        return MINUS_ZERO if both else Fraction(0)
    return f32(total)


def at_most(x: Value, limit: Fraction) -> Value:
    """Returns the smaller of x and limit; NaN if x is NaN."""
    return x if x != x or x <= limit else limit


FLT_MAX = two(128) - two(104)


# --- (Q2) ---


def amax_of(block: Sequence[Value]) -> Value:
    """Returns the largest magnitude in a block, or NaN if the block contains one."""
    if any(x != x for x in block):
        return NAN
    return max((INF if x in (INF, -INF) else abs(Fraction(x)) for x in block), default=Fraction(0))


def power_byte(amax: Value, element: str, rule: str, infinity: str = "nan") -> int:
    """Returns the f8E8M0FNU code of a block's power-of-two scale, by the scale rule `rule`."""
    if amax != amax:
        return 255
    fraction_bits = 6 if element == "mxint8" else FIELDS[element][1]
    beyond = {"nan": 255, "largest": 254, "power": min(128 - EMAX[element], 127) + 127}[infinity]
    if amax == INF:
        return beyond
    if amax == 0:
        return 0
    if rule == "even":
        unit = two(exponent_of(amax) - fraction_bits)
        whole, rest = divmod(amax, unit)
        amax = (whole + (rest >= unit / 2)) * unit
        if amax == two(128):
            return beyond
    if rule in ("floor", "even"):
        x = exponent_of(amax) - EMAX[element]
    elif rule == "ceil":
        x = exponent_of(amax) + (amax != two(exponent_of(amax))) - EMAX[element]
    else:
        target = amax
        if rule == "rceil_product":
            target = times(amax, over(Fraction(1), MAXIMUM[element])) * MAXIMUM[element]
        x = exponent_of(target) - EMAX[element] - 2 if target else -400
        while MAXIMUM[element] * two(x) < target:
            x += 1
    return min(max(x, -127), 127) + 127


def e4m3(x: Value) -> Value:
    """Rounds x to f8E4M3FN and converts it back."""
    return value_of(to_code(x, "f8E4M3FN"), "f8E4M3FN")


def nvfp4(amax: Value, tensor: Value, largest: int = 448) -> tuple[Value, Value]:
    """Returns the scale of an nvfp4 block and the factor by which its elements are multiplied before they are
    rounded."""
    s = at_most(over(Fraction(6 * largest), tensor), FLT_MAX)
    if s == 0:
        s = Fraction(1)
    scale = e4m3(times(amax, times(s, over(Fraction(1), Fraction(6)))))
    return scale, at_most(over(Fraction(1), times(scale, over(Fraction(1), s))), FLT_MAX)


def nvfp4_quotient(amax: Value, tensor: Value | None) -> tuple[Value, Value]:
    """Returns the scale and the factor, as `nvfp4` does, for the variants that divide by the scale. The variant is
    nvfp4_single if `tensor` is None."""
    quotient = over(amax, Fraction(6))
    if tensor is not None:
        quotient = over(quotient, tensor)
    if quotient == quotient and quotient < two(-6):
        quotient = two(-6)
    scale = e4m3(quotient)
    return scale, over(Fraction(1) if tensor is None else over(Fraction(1), tensor), scale)


# --- (Q4), (Q5) ---


def contraction(dots: Sequence[Fraction], scales: Sequence[Fraction], split: bool) -> Value:
    """Multiplies the dot product of each block, rounded to f32, by the block's scale, and returns the sum. With
    `split`, each product is rounded before it is added."""
    total: Value = Fraction(0)
    for dot, scale in zip(dots, scales, strict=True):
        d = f32(dot)
        total = plus(times(d, scale), total) if split else plus(d, total, scale)
    return total


def transform(x: Sequence[Fraction], signs: Sequence[int]) -> list[Value]:
    """Returns the Hadamard transform of `x` times `signs`. Each stage of sums is rounded, and so is the final
    scaling."""
    n = len(x)
    v: list[Value] = [a * s for a, s in zip(x, signs, strict=True)]
    h = 1
    while h < n:
        for start in range(0, n, 2 * h):
            for i in range(start, start + h):
                v[i], v[i + h] = plus(v[i], v[i + h]), plus(v[i], -Fraction(v[i + h]))
        h *= 2
    factor = Fraction(1, 4) if n == 16 else from_bits(0x3E3504F3)
    return [times(a, factor) for a in v]


# --- (M1) to (M3) ---

MIN_EXPONENT = {"f8E4M3FN": -6, "f8E5M2": -14, "f16": -14, "bf16": -126, "tf32": -126, "f32": -126} | {
    "f6E3M2FN": -2,
    "f6E2M3FN": 0,
    "f4E2M1FN": 0,
    "f8E8M0FNU": -127,
}


def split_value(x: Fraction, name: str) -> tuple[Fraction, int]:
    """Returns the significand and exponent of x, Sig and Exp in (M1)."""
    exponent = max(exponent_of(abs(x)), MIN_EXPONENT[name]) if x else MIN_EXPONENT[name]
    return x / two(exponent), exponent


def cut(x: Fraction, places: int, how: Callable[[Fraction], int] = math.trunc) -> Fraction:
    """Rounds x to a multiple of 2^-places, by the function `how` (by default, toward zero)."""
    return how(x * two(places)) / two(places)


def round_sum(x: Fraction, how: str) -> Value:
    """Rounds the sum of a block by one of the rounding modes of (M1)."""
    if x == 0:
        return Fraction(0)
    if how == "rne_f32":
        return f32(x)
    least, digits, top = (-14, 10, 16) if how == "rne_f16" else (-126, 23 if how == "rz_f32" else 13, 128)
    unit = two(max(exponent_of(abs(x)), least) - digits)
    whole, rest = divmod(abs(x), unit)
    if how == "rne_f16" and (rest > unit / 2 or (rest == unit / 2 and whole % 2 == 1)):
        whole += 1
    result = whole * unit
    if result >= two(top):
        return INF if x > 0 else -INF
    if result == 0:
        return MINUS_ZERO if x < 0 and how == "rne_f16" else Fraction(0)
    return result if x > 0 else -result


def fdpa(
    a: Sequence[Fraction],
    b: Sequence[Fraction],
    c: Fraction,
    name: str | tuple[str, str],
    fraction: int | None,
    how: str,
    floor: int,
    group: int = 1,
    scales: Sequence[tuple[Fraction, Fraction]] | None = None,
    scale_name: str | tuple[str, str] = "f8E8M0FNU",
) -> Value:
    """Returns the result of one block of products (M1), with scales (M2). Each of `name` and `scale_name` is one
    element type for both operands, or a pair."""
    names = (name, name) if isinstance(name, str) else name
    scale_names = (scale_name, scale_name) if isinstance(scale_name, str) else scale_name
    terms = []
    for k in range(0, len(a), group):
        if group == 1:
            (s, e), (t, f) = split_value(a[k], names[0]), split_value(b[k], names[1])
            s, e = s * t, e + f
        else:
            s, e = sum((x * y for x, y in zip(a[k : k + group], b[k : k + group], strict=True)), Fraction(0)), 0
        for scale, of in zip(scales[k], scale_names, strict=True) if scales else ():
            t, f = split_value(scale, of)
            s, e = s * t, e + f
        terms.append((s, e))
    terms.append(split_value(c, "f16" if how == "rne_f16" else "f32"))
    if fraction is None:
        return round_sum(sum(s * two(e) for s, e in terms), how)
    top = max([floor] + [e for s, e in terms if s])
    return round_sum(sum(cut(s * two(e - top), fraction) for s, e in terms) * two(top), how)


def cdna3(a: Sequence[Fraction], b: Sequence[Fraction], c: Fraction, name: str) -> Value:
    """Returns the result of one block of products by the class cdna3 (M3)."""
    pairs = [(split_value(x, name), split_value(y, name)) for x, y in zip(a, b, strict=True)]
    terms = [(s * t, e + f) for (s, e), (t, f) in pairs if s * t]
    top = max((e for _, e in terms), default=-10000)
    total = sum((cut(s * two(e - top), 24) for s, e in terms), Fraction(0))
    s, e = split_value(c, "f32")
    last = max(top, e) if c else top
    if last == -10000:
        return Fraction(0)
    return f32((cut(total * two(top - last), 31, math.floor) + cut(s * two(e - last), 24, math.floor)) * two(last))


def flush(x: Value, name: str, signed: bool) -> Value:
    """Returns x, or zero if it is subnormal in the format; a zero keeps the sign if `signed`."""
    if x != x or x in (INF, -INF):
        return x
    if abs(Fraction(x)) >= two(MIN_EXPONENT[name]):
        return x
    return MINUS_ZERO if signed and _is_negative(x) else Fraction(0)


def cdna2(a: Sequence[Fraction], b: Sequence[Fraction], c: Fraction, name: str) -> Value:
    """Returns the result of one block of four products by the class cdna2 (M3)."""
    p = [flush(times(flush(x, name, False), flush(y, name, False)), "f32", True) for x, y in zip(a, b, strict=True)]
    left, right = (flush(plus(x, y), "f32", True) for x, y in ((p[0], p[1]), (p[2], p[3])))
    return flush(plus(flush(c, "f32", False), flush(plus(left, right), "f32", True)), "f32", True)
