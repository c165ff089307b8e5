# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q3) Compares the rounding of elements with the rule in fractions, at all edges of every format, and with
ml_dtypes."""

from __future__ import annotations

import fraction_rules as rules
import numpy as np
import pytest
from edge_values import SPECIAL, around, edges, random_f32
from repro_mlir.base.numerics.formats import element_type, round_to_format, to_bits
from repro_mlir.base.numerics.philox import random_bits
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    ELEMENT_FORMATS,
    F4E2M1FN,
    F8E4M3FN,
    F16,
    FORMATS,
    decode,
)
from repro_mlir.reference.low_precision.block_rounding import (
    ROUNDINGS,
    Rounding,
    ptx_bits,
    ptx_site_bits,
    round_elements,
    site_bits,
    stochastic,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from test_formats import LIBRARY

NAMES = [*LIBRARY, "mxint8"]
HOW = {"rne": Direction.NEAREST_EVEN, "away": Direction.NEAREST_AWAY, "rz": Direction.TOWARD_ZERO}


def expected(x: np.ndarray, name: str, how: str, **options: object) -> np.ndarray:
    return np.array([rules.to_code(rules.from_bits(int(b)), name, how, **options) for b in x.view(np.uint32)])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", NAMES)
def test_edges_Q3(name: str, how: str) -> None:
    x = edges(FORMATS[name])
    got = round_elements(x, FORMATS[name], Rounding(HOW[how]))
    np.testing.assert_array_equal(got, expected(x, name, how))
    assert ROUNDINGS[how] == Rounding(HOW[how])


@pytest.mark.parametrize("name", NAMES)
def test_without_saturation_Q3(name: str) -> None:
    x = edges(FORMATS[name])
    got = round_elements(x, FORMATS[name], Rounding(saturate=False))
    np.testing.assert_array_equal(got, expected(x, name, "rne", saturate=False))


@pytest.mark.parametrize("name", NAMES)
def test_shift_Q3(name: str) -> None:
    """Checks that x * 2^shift is rounded once, even if f32 cannot represent it."""
    rng = np.random.default_rng(3)
    x = np.concatenate([random_f32(rng, 3000), SPECIAL])
    shift = rng.integers(-300, 300, len(x))
    got = round_elements(x, FORMATS[name], shift=shift)
    values = [rules.from_bits(int(b)) for b in x.view(np.uint32)]
    moved = [v * rules.two(int(s)) if isinstance(v, rules.Fraction) else v for v, s in zip(values, shift, strict=True)]
    np.testing.assert_array_equal(got, np.array([rules.to_code(v, name) for v in moved]))


@pytest.mark.parametrize("nan, code", [("largest", 7), ("zero", 0), ("negative_zero", 8)])
def test_nan_of_formats_without_Q3(nan: str, code: int) -> None:
    x = np.array([np.nan, -np.nan, 1.0], np.float32)
    assert list(round_elements(x, F4E2M1FN, Rounding(nan=nan))) == [code, code, 2]
    # A negative NaN gives the same code as a positive one, because the sign of a NaN carries no information (V4).
    assert list(round_elements(x, F8E4M3FN, Rounding(nan=nan))) == [0x7F, 0x7F, 0x38]


def test_signs_of_zeros_Q3() -> None:
    x = np.array([-0.0, 0.0, -(2.0**-149), -0.1], np.float32)
    assert list(round_elements(x, F4E2M1FN)) == [8, 0, 8, 8]
    # Without `signed_zero`, an element that is zero in f32 has no sign: 2^-149 * 2^-1 is an f32 tie, which becomes
    # zero.
    plus = Rounding(signed_zero=False)
    assert list(round_elements(x, F4E2M1FN, plus)) == [0, 0, 8, 8]
    assert list(round_elements(x, F4E2M1FN, plus, shift=-1)) == [0, 0, 0, 8]


def test_full_range_of_mxint8_Q3() -> None:
    x = np.array([-2.0, -3.0, -1.99, -127 / 64, 2.0, 1.99], np.float32)
    assert list(round_elements(x, ELEMENT_FORMATS["mxint8"])) == [0x81, 0x81, 0x81, 0x81, 0x7F, 0x7F]
    assert list(round_elements(x, ELEMENT_FORMATS["mxint8_full"])) == [0x80, 0x80, 0x81, 0x81, 0x7F, 0x7F]


@pytest.mark.parametrize("name", [*NAMES, "f16", "bf16"])
@pytest.mark.parametrize("bits", [1, 4, 8, 13, 16, 24, 32])
@pytest.mark.diagonal
def test_stochastic_Q3(name: str, bits: int) -> None:
    rng = np.random.default_rng(bits)
    x = random_f32(rng, 1500, 20)
    if name in NAMES:
        x = np.concatenate([x, edges(FORMATS[name])[:1500]])
    random = rng.integers(0, 2**bits, len(x))
    random[::5], random[1::5] = 2**bits - 1, 0
    got = round_elements(x, FORMATS[name], stochastic(bits), random=random)
    values = [rules.from_bits(int(b)) for b in x.view(np.uint32)]
    if name in ("f16", "bf16"):
        keep = np.isfinite(x)
        got, values, random = got[keep], [v for v, k in zip(values, keep, strict=True) if k], random[keep]
    want = [rules.to_code(v, name, "sr", bits=bits, random=int(r)) for v, r in zip(values, random, strict=True)]
    np.testing.assert_array_equal(got, np.array(want))


@pytest.mark.parametrize("name", NAMES)
def test_stochastic_by_all_bits_Q3(name: str) -> None:
    """Rounds with each of the 2^n random numbers: the number of results that round up is the remainder in units of
    2^-n. A value of the format never changes."""
    of, bits = FORMATS[name], 8
    values = decode(np.arange(of.largest), of)
    following = decode(np.arange(1, of.largest + 1), of)
    numerators = np.array([0, 1, 77, 128, 255])
    x = (values + np.multiply.outer(numerators / 256, following - values)).astype(np.float32)
    draws = np.arange(256)[:, np.newaxis, np.newaxis]
    codes = round_elements(np.broadcast_to(x, (256, *x.shape)), of, stochastic(bits), random=draws)
    up = (codes == np.arange(1, of.largest + 1)).sum(axis=0)
    np.testing.assert_array_equal(up, np.broadcast_to(numerators[:, np.newaxis], up.shape))


def test_bits_of_a_site_Q3() -> None:
    """(R1), (Q3) An element uses the highest bits of its random word, which does not depend on the shape of the
    tensor."""
    words = random_bits((3, 5), 7, 11, 13).astype(np.int64)
    for bits in (1, 8, 16, 32):
        np.testing.assert_array_equal(site_bits((3, 5), bits, 7, 11, 13), words >> (32 - bits))
    np.testing.assert_array_equal(site_bits((15,), 8, 7, 11, 13).reshape(3, 5), words >> 24)


def test_layouts_of_ptx_Q3() -> None:
    word = np.array(0x12345678)
    assert [f"{int(r):04x}" for r in ptx_bits(word, F8E4M3FN)] == ["2c48", "1234", "1e6a", "5678"]
    assert [f"{int(r):04x}" for r in ptx_bits(word, FORMATS["f6E2M3FN"])] == ["2c48", "1234", "1e6a", "5678"]
    assert [f"{int(r):04x}" for r in ptx_bits(word, F4E2M1FN)] == ["6a48", "1256", "1e2c", "3478"]
    assert [f"{int(r):04x}" for r in ptx_bits(word, F16)] == ["1234", "1678"]
    assert [f"{int(r):04x}" for r in ptx_bits(word, BF16)] == ["1234", "5678"]


def test_elements_of_ptx_Q3() -> None:
    """(Q3) Elements 4g to 4g + 3 of f8, or 2g and 2g + 1 of f16, use the random word g, its low bits first. Elements 4g
    + 1 and 4g + 3 use the bits of their predecessor in reverse order."""
    words = random_bits((2,), 1, 2, 3).astype(np.int64)
    got = ptx_site_bits((2, 3), F8E4M3FN, 1, 2, 3).ravel()
    assert got[0] == words[0] & 0xFFFF and got[2] == words[0] >> 16 and got[4] == words[1] & 0xFFFF
    assert f"{got[1]:016b}" == f"{got[0]:016b}"[::-1] and f"{got[3]:016b}" == f"{got[2]:016b}"[::-1]
    halves = ptx_site_bits((3,), F16, 1, 2, 3)
    assert list(halves) == [words[0] & 0x1FFF, words[0] >> 16 & 0x1FFF, words[1] & 0x1FFF]


def test_refuses() -> None:
    with pytest.raises(ValueError, match="random bits"):
        round_elements(np.zeros(1, np.float32), F8E4M3FN, stochastic(8))
    with pytest.raises(ValueError, match="random bits"):
        round_elements(np.zeros(1, np.float32), F8E4M3FN, random=np.zeros(1, np.int64))
    for bad in ({"direction": Direction.STOCHASTIC}, {"bits": 3}, {"nan": "three"}):
        with pytest.raises(ValueError, match="expected 1 to 32 bits"):
            Rounding(**bad)


# --- Comparison with other implementations ---


@pytest.mark.parametrize("name", LIBRARY)
def test_casts_of_ml_dtypes_Q3(name: str) -> None:
    """Compares two million values without saturation. If a format has no NaN, ml_dtypes converts NaN to -0."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    of = FORMATS[name]
    x = np.concatenate([random_f32(np.random.default_rng(1), 2_000_000, 12), edges(of)])
    with np.errstate(invalid="ignore"):
        want = x.astype(getattr(ml_dtypes, LIBRARY[name])).view(np.uint8).astype(np.int64)
    got = round_elements(x, of, Rounding(saturate=False, nan="negative_zero"))
    if of.nan is None:
        # ml_dtypes converts a negative NaN to +0. Our result does not depend on the sign of a NaN (V4).
        want = np.where(np.isnan(x), of.sign, want)
    else:
        nan = (want & (of.sign - 1)) > (of.largest if of.infinity is None else of.infinity)
        want = np.where(nan, of.nan, want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f16", "bf16"])
def test_casts_of_storage_types_S3(name: str) -> None:
    """For storage types of programs, compares with the interpreter's conversion `round_to_format`."""
    of, element = FORMATS[name], element_type(name)
    x = np.concatenate([random_f32(np.random.default_rng(2), 500_000, 20), around(decode(np.arange(200), of)[1:], 3)])
    with np.errstate(invalid="ignore"):
        want = to_bits(round_to_format(x, element), element)
    np.testing.assert_array_equal(round_elements(x, of, Rounding(saturate=False)), want)
