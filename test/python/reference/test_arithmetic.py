# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the interpreter's scalar operations with exact arithmetic (fractions, MPFR), element by element."""

from __future__ import annotations

import math
import struct

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.formats import element_type, from_bits, round_to_format, sign_extend, to_bits
from repro_mlir.reference import arithmetic, integers

STORAGE = ["bf16", "f16", "f8E4M3FN", "f8E5M2"]


def floats(width: int) -> st.SearchStrategy[float]:
    """Returns a strategy for floats: many have equal exponents; some are special values, subnormals or halfway
    cases."""
    fmt = ELEMENTS[f"f{width}"].format
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, fmt.max_finite, -fmt.max_finite]
    special += [2.0**fmt.min_exponent, 2.0 ** (fmt.min_exponent - fmt.precision + 1)]
    close = st.builds(
        lambda m, e, s: s * math.ldexp(m, e),
        st.integers(2 ** (fmt.precision - 1), 2**fmt.precision - 1) | st.integers(0, 9).map(lambda n: 2**n),
        st.integers(-2 * fmt.precision, fmt.precision),
        st.sampled_from([1.0, -1.0]),
    )
    return st.sampled_from(special) | st.floats(width=width) | close


def same(got: float, want: float) -> bool:
    return struct.pack("<d", got) == struct.pack("<d", want) or (math.isnan(got) and math.isnan(want))


def exact_fma(a: float, b: float, c: float, width: int) -> float:
    fmt = ELEMENTS[f"f{width}"].format
    emin = fmt.min_exponent - fmt.precision + 2
    with gmpy2.context(precision=fmt.precision, emin=emin, emax=-fmt.min_exponent + 2, subnormalize=True):
        return float(gmpy2.fma(gmpy2.mpfr(a), gmpy2.mpfr(b), gmpy2.mpfr(c)))


@pytest.mark.parametrize("width", [32, 64])
@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_fma_S1(width: int, data: st.DataObject) -> None:
    dtype = np.dtype(f"f{width // 8}")
    triples = data.draw(st.lists(st.tuples(*[floats(width)] * 3), min_size=1, max_size=30))
    a, b, c = (np.array(x, dtype) for x in zip(*triples, strict=True))
    with np.errstate(all="ignore"):
        got = arithmetic.fma(a, b, c)
    assert got.dtype == dtype
    for x, y, z, g in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        assert same(g, exact_fma(x, y, z, width)), (x.hex(), y.hex(), z.hex(), g.hex())


@pytest.mark.parametrize("width", [32, 64])
def test_fma_S1_ties(width: int) -> None:
    """Covers products that are ties, with an addend so small that no wider format could represent the sum, and addends
    that are ties, with such a small product."""
    rng = np.random.default_rng(0)
    dtype = np.dtype(f"f{width // 8}")
    p = ELEMENTS[f"f{width}"].format.precision
    n = 3000
    # A product of odd factors that has p + 1 bits is a tie.
    high = rng.integers(2 ** (p // 2), 2 ** (p // 2 + 1), n) | 1
    low = rng.integers(2 ** (p - p // 2), 2 ** (p - p // 2 + 1), n) | 1
    shift = 2.0 ** rng.integers(-p, p, n)
    a, b = high * shift, low * 2.0 ** rng.integers(-p, p, n)
    c = rng.choice([-1.0, 1.0, 0.0], n) * 2.0 ** -rng.integers(2 * p, 4 * p, n) * rng.integers(1, 9, n)
    cases = [(a, b, c), (-a, b, c)]
    # 2^36 +- 1 and 2^72 +- 1 are products of two values of the format. Each is a power of two plus or minus a bit far
    # below, so that it breaks a tie by very little.
    half = 12 if width == 32 else 24
    plus = (2.0**half + 1, 2.0 ** (2 * half) - 2.0**half + 1)
    minus = (2.0 ** (3 * half // 2) - 1, 2.0 ** (3 * half // 2) + 1)
    for x, y in (plus, minus):
        down = 2.0 ** (-3 * half - p)
        even_or_odd = 1 + 2.0 ** (1 - p) * np.arange(8)
        cases += [(np.full(8, s * x * down), np.full(8, y), even_or_odd) for s in (-1, 1)]
    # Products like these also break ties of subnormal results, whose last bit is not the p-th bit of the product.
    place = ELEMENTS[f"f{width}"].format.min_exponent - p + 1
    scale = place - 1 - 3 * half
    for x, y in (plus, minus):
        big = (2 ** (p - 2) + np.arange(8)) * 2.0 ** float(place)
        factors = x * 2.0 ** float(scale // 2), y * 2.0 ** float(scale - scale // 2)
        cases += [(np.full(8, s * factors[0]), np.full(8, factors[1]), t * big) for s in (-1, 1) for t in (-1, 1)]
        top = np.array([2.0 ** float(place + p - 1), 2.0 ** float(place + p - 1) - 2.0 ** float(place)])
        cases += [(np.full(2, s * factors[0]), np.full(2, factors[1]), t * top) for s in (-1, 1) for t in (-1, 1)]
    for arrays in cases:
        x, y, z = (v.astype(dtype) for v in arrays)
        got = arithmetic.fma(x, y, z)
        if width == 32:
            chain = arithmetic.fma_chain(x[np.newaxis].astype(np.float64), y[np.newaxis].astype(np.float64), z)
            assert chain.tobytes() == got.tobytes()
        for u, v, w, g in zip(x.tolist(), y.tolist(), z.tolist(), got.tolist(), strict=True):
            assert same(g, exact_fma(u, v, w, width)), (u.hex(), v.hex(), w.hex(), g.hex())


@pytest.mark.parametrize("exponent", [-80, -62, -51, -50, -49, 0])
def test_a_chain_of_fma_S1(exponent: int) -> None:
    """Covers products below and above the magnitude under which sums may be rounded to subnormals, and ties."""
    rng = np.random.default_rng(-exponent)
    scale = 2.0 ** float(exponent)
    x = rng.integers(-(2**24), 2**24, (6, 40, 1)) * 2.0**-24 * scale
    y = rng.choice([0.0, -0.0, 1.0, 0.75, 1 + 2.0**-12, 2.0**-24 - 1], (6, 1, 30)) * scale
    acc = (rng.integers(-9, 9, (40, 30)) * 2.0 ** rng.integers(-149, -120, (40, 30))).astype(np.float32)
    acc[:5] += np.float32(scale * scale)
    x, y = x.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    want = acc.tolist()
    for i in range(6):
        want = [
            [exact_fma(u, v, w, 32) for v, w in zip(y[i, 0].tolist(), row, strict=True)]
            for u, row in zip(x[i, :, 0].tolist(), want, strict=True)
        ]
    got = arithmetic.fma_chain(x, y, acc)
    assert got.dtype == np.float32 and got.tobytes() == np.array(want, np.float32).tobytes()


def test_a_chain_of_fma_S1_has_the_special_values_of_fma() -> None:
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.0, 3e38, -3e38]
    x, y, z = (np.array(v, np.float32) for v in np.meshgrid(special, special, special))
    with np.errstate(all="ignore"):
        got = arithmetic.fma_chain(x[np.newaxis].astype(np.float64), y[np.newaxis].astype(np.float64), z)
        want = arithmetic.fma(x, y, z)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got.view(np.int32)[~np.isnan(want)], want.view(np.int32)[~np.isnan(want)])


def naive_round(x: float, name: str, saturate: bool = False) -> float:
    """Rounds x to a float type with MPFR, set to the precision and the exponent range of the type."""
    fmt = ELEMENTS[name].format
    if math.isnan(x) or math.isinf(x):
        if fmt.has_infinity or math.isnan(x):
            return x
        return math.copysign(fmt.max_finite, x) if saturate else math.nan
    with gmpy2.context(precision=fmt.precision, emin=fmt.min_exponent - fmt.precision + 2, emax=200, subnormalize=True):
        value = float(gmpy2.mpfr(x))
    if abs(value) > fmt.max_finite:
        if fmt.has_infinity:
            return math.copysign(math.inf, value)
        return math.copysign(fmt.max_finite, value) if saturate else math.nan
    return value


@pytest.mark.parametrize("name", STORAGE)
def test_storage_rounding_V1_S3(name: str) -> None:
    kind = element_type(name)
    every = from_bits(np.arange(2**kind.width), kind)
    finite = np.sort(every[np.isfinite(every)].astype(np.float64))
    ties = (finite[1:] + finite[:-1]) / 2
    beyond = np.array([kind.format.max_finite * x for x in (1.03, 1.0625, 1.07, 1.2, 4)])
    tries = np.concatenate(
        [finite, ties, ties * (1 + 2.0**-20), ties * (1 - 2.0**-20), beyond, -beyond, [np.inf, -np.inf, np.nan]]
    )
    for source in (tries, tries.astype(np.float32)):
        for saturate in (False, True):
            with np.errstate(all="ignore"):
                got = round_to_format(source, kind, saturate)
            assert got.dtype == np.float32
            step = max(1, len(source) // 5000)
            for x, g in zip(source[::step].tolist(), got[::step].tolist(), strict=True):
                assert same(g, naive_round(x, name, saturate)), (x, g)


@pytest.mark.parametrize("name", STORAGE)
def test_storage_bits_round_trip(name: str) -> None:
    kind = element_type(name)
    bits = np.arange(2**kind.width)
    values = from_bits(bits, kind)
    again = to_bits(values, kind)
    nan = np.isnan(values)
    assert np.array_equal(again[~nan], bits[~nan])
    assert (again[nan] == kind.format.nan_bits).all()
    assert nan.sum() == {"bf16": 2 * 127, "f16": 2 * 1023, "f8E4M3FN": 2, "f8E5M2": 6}[name]


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_bits_agree_with_numpy(name: str) -> None:
    kind = element_type(name)
    rng = np.random.default_rng(1)
    unsigned = np.dtype(f"u{kind.width // 8}")
    bits = np.frombuffer(rng.bytes(8 * 4096), unsigned)
    native = bits.view(f"f{kind.width // 8}")
    values = from_bits(bits, kind)
    assert np.array_equal(values, native.astype(kind.dtype), equal_nan=True)
    assert np.array_equal(to_bits(values, kind)[~np.isnan(native)], bits[~np.isnan(native)])
    assert (to_bits(np.array([-np.nan], kind.dtype), kind) == kind.format.nan_bits).all()


@given(st.lists(st.tuples(floats(32), floats(32)), min_size=1))
@settings(max_examples=200, deadline=None)
def test_max_min_S2(pairs: list[tuple[float, float]]) -> None:
    def key(x: float) -> tuple[float, float]:
        return x, math.copysign(1, x)

    a, b = (np.array(x, np.float32) for x in zip(*pairs, strict=True))
    greater, less = arithmetic.maximum(a, b).tolist(), arithmetic.minimum(a, b).tolist()
    for x, y, g, m in zip(a.tolist(), b.tolist(), greater, less, strict=True):
        if math.isnan(x) or math.isnan(y):
            assert math.isnan(g) and math.isnan(m)
        else:
            assert same(g, max(x, y, key=key)) and same(m, min(x, y, key=key))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 8, 16, 32, 33, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_float_to_integer_S3(dtype: type, width: int, signed: bool) -> None:
    edges = [0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1, -1, 1.5, -1.5, 2, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-40]
    for e in (width - 1, width):
        edges += [
            s * (2.0**e + d)
            for s in (1, -1)
            for d in (-1, -0.5, 0, 0.5, 1, 2.0 ** max(e - 20, 0), -(2.0 ** max(e - 30, 0)))
        ]
    x = np.array(edges, dtype)
    with np.errstate(all="ignore"):
        got = arithmetic.to_integer(x, width, signed)
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    for v, g in zip(x.tolist(), got.tolist(), strict=True):
        want = 0 if math.isnan(v) else (high if v > high else low) if math.isinf(v) else min(max(int(v), low), high)
        assert int(g) & (2**width - 1) == want & (2**width - 1), v


@pytest.mark.parametrize("name", ["f64", "f32", *STORAGE])
@pytest.mark.parametrize("width", [1, 8, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_integer_to_float_S3(name: str, width: int, signed: bool) -> None:
    rng = np.random.default_rng(2)
    raw = np.concatenate([np.frombuffer(rng.bytes(8 * 300), np.int64) >> s for s in (0, 7, 20, 33, 45, 56)])
    raw = np.concatenate([raw, [0, 1, -1, 2**63 - 1, -(2**63), (1 << 57) + (1 << 49), (1 << 57) + (1 << 49) + 1]])
    x = sign_extend(raw, width)
    got = arithmetic.from_integer(x, element_type(name), width, signed)
    for v, g in zip(x.tolist(), got.tolist(), strict=True):
        value = -int(v) if width == 1 else v
        value = value if signed else value & (2**width - 1)
        fmt = ELEMENTS[name].format
        with gmpy2.context(precision=fmt.precision):
            want = float(gmpy2.mpfr(value))
        if abs(want) > fmt.max_finite:
            want = math.copysign(math.inf, want) if fmt.has_infinity else math.nan
        assert same(g, want), (value, g, want)


@given(st.lists(st.tuples(floats(32), floats(32)), min_size=1))
@settings(max_examples=100, deadline=None)
def test_remainder_copysign_S4(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(x, np.float32) for x in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        rem, sign = arithmetic.remainder(a, b).tolist(), arithmetic.copysign(a, b).tolist()
    for x, y, r, s in zip(a.tolist(), b.tolist(), rem, sign, strict=True):
        invalid = math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0
        assert math.isnan(r) if invalid else same(r, math.copysign(math.fmod(x, y), x))
        assert same(s, math.copysign(x, 1.0 if math.isnan(y) else y))


def test_roundings_S4() -> None:
    x = np.array(
        [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388607.5, 8388609, 4503599627370497.5, 1e30],
        np.float32,
    )
    want_away = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        3,
        -3,
        0.0,
        -0.0,
        8388608,
        8388609,
        float(np.float32(4503599627370497.5)),
        float(np.float32(1e30)),
    ]
    for g, w in zip(arithmetic.round_half_away(x).tolist(), want_away, strict=True):
        assert same(g, w)
    for function, scalar in ((np.floor, math.floor), (np.ceil, math.ceil), (np.trunc, math.trunc), (np.rint, round)):
        for v, g in zip(x.tolist(), function(x).tolist(), strict=True):
            assert same(g, math.copysign(float(scalar(v)), v))


WIDTHS = [1, 3, 8, 16, 31, 32, 33, 63, 64]


def scalar_integer(name: str, a: int, b: int, width: int) -> int:
    """(I1) Returns the result of an operation on signed values a and b, computed with Python's integers."""
    mask = 2**width - 1
    ua, ub = a & mask, b & mask
    if name == "divide_signed":
        return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if name == "remainder_signed":
        return a if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))
    if name == "divide_unsigned":
        return mask if ub == 0 else ua // ub
    if name == "remainder_unsigned":
        return ua if ub == 0 else ua % ub
    if name == "shift_left":
        return ua << ub if ub < width else 0
    if name == "shift_right_signed":
        return a >> min(ub, width)
    if name == "shift_right_unsigned":
        return ua >> ub if ub < width else 0
    if name == "multiply_high_unsigned":
        return (ua * ub) >> width
    return (a * b) >> width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name",
    [
        "divide_signed",
        "remainder_signed",
        "divide_unsigned",
        "remainder_unsigned",
        "shift_left",
        "shift_right_signed",
        "shift_right_unsigned",
        "multiply_high_unsigned",
        "multiply_high_signed",
    ],
)
def test_integer_operations_I1(name: str, width: int) -> None:
    rng = np.random.default_rng(width)
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    edges = {0, 1, -1, 2, 7, -7, low, low + 1, high, high - 1, width, width - 1, width + 1, 63, 64, 65}
    values = sorted(
        {v for v in edges if low <= v <= high} | {int(v) for v in rng.integers(low, high, 20, endpoint=True)}
    )
    a, b = (x.reshape(-1) for x in np.meshgrid(np.array(values, np.int64), np.array(values, np.int64)))
    with np.errstate(all="ignore"):
        got = getattr(integers, name)(a, b, width)
    for x, y, g in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        assert g & (2**width - 1) == scalar_integer(name, x, y, width) & (2**width - 1), (x, y)


@pytest.mark.parametrize("width", WIDTHS)
def test_bit_counts(width: int) -> None:
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    values = sorted({v for v in (0, 1, 2, 3, -1, low, high, 5, 40, -40) if low <= v <= high})
    x = np.array(values, np.int64)
    for v, ones, lead, trail in zip(
        values,
        integers.count_ones(x, width).tolist(),
        integers.leading_zeros(x, width).tolist(),
        integers.trailing_zeros(x, width).tolist(),
        strict=True,
    ):
        text = format(v & (2**width - 1), f"0{width}b")
        assert ones == text.count("1")
        assert lead == len(text) - len(text.lstrip("0"))
        assert trail == len(text) - len(text.rstrip("0"))
