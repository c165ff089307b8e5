# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1) Compares every code of the low-precision formats with the rule in fractions and with ml_dtypes."""

from __future__ import annotations

import math

import fraction_rules as rules
import numpy as np
import pytest
from edge_values import as_f32, bits
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.formats import element_type, from_bits
from repro_mlir.reference.low_precision.binary_formats import (
    ELEMENT_FORMATS,
    F32,
    FORMATS,
    BinaryFormat,
    decode,
    decode_e8m0,
    f32_bits,
    unpack,
)

LIBRARY = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f6E3M2FN": "float6_e3m2fn",
    "f6E2M3FN": "float6_e2m3fn",
    "f4E2M1FN": "float4_e2m1fn",
}


@pytest.mark.parametrize("name", [*LIBRARY, "mxint8", "f16", "bf16", "tf32"])
def test_codes_Q1(name: str) -> None:
    of = FORMATS[name]
    codes = np.arange(1 << of.width)
    if of.width > 16:
        codes = np.unique(np.concatenate([codes[:4096], codes[::97], codes[-4096:]]))
    want = [rules.bits_of(rules.value_of(int(code), name)) for code in codes]
    np.testing.assert_array_equal(bits(decode(codes, of)), np.array(want, np.uint32))


@pytest.mark.parametrize("name", LIBRARY)
def test_codes_of_ml_dtypes_Q1(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    of = FORMATS[name]
    codes = np.arange(1 << of.width, dtype=np.uint8)
    np.testing.assert_array_equal(
        bits(decode(codes, of)), bits(codes.view(getattr(ml_dtypes, LIBRARY[name])).astype(np.float32))
    )


def test_codes_of_scales_Q1() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(256, dtype=np.uint8)
    want = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(bits(decode_e8m0(codes)), bits(want))
    assert decode_e8m0(np.array(0)) == 2.0**-127 and np.isnan(decode_e8m0(np.array(255)))


@pytest.mark.parametrize("name", sorted(set(ELEMENTS) & set(FORMATS)))
def test_agrees_with_storage_types_V1(name: str) -> None:
    """If a format is also a storage type of programs, both have the same parameters, and both functions that decode
    agree."""
    of, element = FORMATS[name], ELEMENTS[name]
    assert element.format is of and isinstance(of, BinaryFormat) and of.width == element.width
    assert float(decode(np.array(of.largest), of)) == element.format.max_finite
    if of.width <= 16:
        codes = np.arange(1 << of.width)
        np.testing.assert_array_equal(bits(decode(codes, of)), bits(from_bits(codes, element_type(name))))


@pytest.mark.parametrize("name", [*LIBRARY, "mxint8"])
def test_limits_Q1(name: str) -> None:
    of = ELEMENT_FORMATS[name]
    assert of.max_exponent == rules.EMAX[name]
    assert decode(np.array(of.largest), of) == float(rules.MAXIMUM[name])
    assert of.largest_integer * 2.0**of.least_place == float(rules.MAXIMUM[name])


def test_f32_is_itself_Q1() -> None:
    codes = np.concatenate([np.arange(0, 1 << 32, 65521), [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF]])
    x = as_f32(codes)
    np.testing.assert_array_equal(bits(decode(codes, F32)), bits(x))
    value = unpack(f32_bits(x), F32)
    finite = np.isfinite(x)
    np.testing.assert_array_equal(value.finite, finite)
    back = [
        math.ldexp(-int(m) if s else int(m), int(e))
        for s, m, e in zip(value.negative[finite], value.magnitude[finite], value.exponent[finite], strict=True)
    ]
    np.testing.assert_array_equal(np.array(back), x[finite].astype(np.float64))
