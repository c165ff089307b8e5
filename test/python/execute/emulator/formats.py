# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Binary floating-point formats, and exact conversions between their bit patterns and gmpy2 numbers, as a reference for
the emulator."""

from __future__ import annotations

from dataclasses import dataclass

import gmpy2


@dataclass(frozen=True)
class Format:
    """A binary floating-point format of IEEE 754 with the given numbers of exponent and fraction bits.

    `canonical_nan` is the bit pattern that every operation of the emulated GPU returns for a NaN.
    """

    exponent_bits: int
    fraction_bits: int
    canonical_nan: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def context(self) -> gmpy2.context:
        """Returns a gmpy2 context that rounds to the format, including subnormal numbers. MPFR's exponents are larger
        by one than those of IEEE 754, because its significands are below 1."""
        return gmpy2.context(
            precision=self.fraction_bits + 1,
            emax=self.bias + 1,
            emin=2 - self.bias - self.fraction_bits,
            subnormalize=True,
            round=gmpy2.RoundToNearest,
        )

    def decode(self, pattern: int) -> gmpy2.mpfr:
        """Returns the exact value of a bit pattern."""
        sign = -1 if pattern >> (self.bits - 1) else 1
        exponent = pattern >> self.fraction_bits & ((1 << self.exponent_bits) - 1)
        fraction = pattern & ((1 << self.fraction_bits) - 1)
        if exponent == (1 << self.exponent_bits) - 1:
            return gmpy2.nan() if fraction else gmpy2.mpfr(sign * float("inf"))
        if exponent:
            fraction |= 1 << self.fraction_bits
        if not fraction:
            return gmpy2.mpfr("-0" if sign < 0 else "0")
        with gmpy2.context(precision=64):
            scale = max(exponent, 1) - self.bias - self.fraction_bits
            return (
                gmpy2.mul_2exp(gmpy2.mpfr(sign * fraction), scale)
                if scale >= 0
                else gmpy2.div_2exp(gmpy2.mpfr(sign * fraction), -scale)
            )

    def encode(self, value: gmpy2.mpfr) -> int:
        """Returns the bit pattern of a value that the format can represent."""
        top = 1 << (self.bits - 1)
        if gmpy2.is_nan(value):
            return self.canonical_nan
        sign = top if gmpy2.is_signed(value) else 0
        infinity = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        if gmpy2.is_infinite(value):
            return sign | infinity
        if value == 0:
            return sign
        mantissa, exponent = (int(part) for part in value.as_mantissa_exp())
        zeros = (mantissa & -mantissa).bit_length() - 1
        mantissa, exponent = abs(mantissa) >> zeros, exponent + zeros
        place = exponent + mantissa.bit_length() - 1
        unit = max(place, 1 - self.bias) - self.fraction_bits
        assert exponent >= unit and place <= self.bias, "not a value of the format"
        significand = mantissa << (exponent - unit)
        return sign | (significand + ((max(place, 1 - self.bias) + self.bias - 1) << self.fraction_bits))

    def round(self, value: gmpy2.mpfr) -> int:
        """Returns the bit pattern of the value, rounded once to nearest even."""
        with self.context:
            return self.encode(+value)

    def round_float(self, value: float) -> int:
        """Returns the bit pattern of a Python number, rounded once to nearest even."""
        return self.round(gmpy2.mpfr(value))


FORMATS = {
    "f16": Format(5, 10, 0x7FFF),
    "bf16": Format(8, 7, 0x7FFF),
    "f32": Format(8, 23, 0x7FFFFFFF),
    "f64": Format(11, 52, 0x7FFFFFFFFFFFFFFF),
}
