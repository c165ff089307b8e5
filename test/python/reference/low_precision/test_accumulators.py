# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M1), (M2), (M3) Compares named accumulators, and others that no hardware has, with the rules in fractions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import fraction_rules as rules
import numpy as np
import pytest
from edge_values import bits
from repro_mlir.reference.low_precision.accumulators import (
    ACCUMULATORS,
    UNVERIFIED,
    Accumulator,
    DownFdpa,
    Fdpa,
    FlushedPairs,
    LateFdpa,
    accumulate,
    named_accumulator,
)
from repro_mlir.reference.low_precision.binary_formats import (
    BF16,
    F4E2M1FN,
    F8E4M3FN,
    F16,
    F32,
    FORMATS,
    TF32,
    BinaryFormat,
    decode,
)
from repro_mlir.reference.low_precision.block_rounding import Rounding, round_elements

NAMED = [(name, *key) for name, each in ACCUMULATORS.items() for key in each]


def values(rng: np.random.Generator, shape: tuple[int, ...], of: BinaryFormat) -> np.ndarray:
    """Returns finite values of a format, with zeros and subnormals. The exponents in a row are close together or far
    apart."""
    codes = rng.integers(0, of.largest + 1, shape) | (rng.integers(0, 2, shape) << (of.width - 1))
    free = decode(codes, of)
    spread = rng.integers(1, 9, (*shape[:-1], 1))
    near = rng.standard_normal(shape) * 2.0 ** rng.integers(-4, spread + 1, shape)
    close = decode(round_elements(near.astype(np.float32), of, Rounding()), of)
    small = decode(rng.integers(0, 1 << of.fraction_bits, shape), of)
    row = rng.integers(0, 8, (*shape[:-1], 1))
    x = np.where(row == 0, free, np.where(row == 1, small, close))
    return np.where(rng.random(shape) < 0.08, np.float32(0), x).astype(np.float32)


def addends(rng: np.random.Generator, count: int, of: BinaryFormat) -> np.ndarray:
    """Returns values for c (M1): zeros, subnormals, and small and large numbers."""
    x = rng.standard_normal(count) * 2.0 ** rng.integers(-30, 12, count)
    x[::7], x[1::7] = 0.0, rng.standard_normal(len(x[1::7])) * 2.0**-140
    return decode(round_elements(x.astype(np.float32), of, Rounding()), of)


def by_rule(
    a: Sequence[Fraction],
    b: Sequence[Fraction],
    c: Fraction,
    by: Accumulator,
    of: str,
    scales: Sequence[tuple[Fraction, Fraction]] | None = None,
    scale_name: str = "f8E8M0FNU",
) -> rules.Value:
    """Returns the result for a row of products, block after block, computed by the rule in fractions."""
    total: rules.Value = c
    for first in range(0, len(a), by.terms):
        x, y = a[first : first + by.terms], b[first : first + by.terms]
        match by:
            case Fdpa():
                own = scales[first : first + by.terms] if scales else None
                total = rules.fdpa(
                    x, y, Fraction(total), of, by.fraction, by.round, by.floor, by.group, own, scale_name
                )
            case LateFdpa():
                part: rules.Value = Fraction(0)
                for late in (False, True):
                    if part in (rules.INF, -rules.INF):
                        break
                    chosen = [k for k in range(len(x)) if (k % 4 >= 2) == late]
                    part = rules.fdpa(
                        [x[k] for k in chosen],
                        [y[k] for k in chosen],
                        Fraction(part),
                        of,
                        by.inner.fraction,
                        by.inner.round,
                        by.inner.floor,
                    )
                if {part, total} & {rules.INF, -rules.INF} or total != total:
                    total = rules.plus(part, total)
                    continue
                exact = Fraction(part) + Fraction(total)
                total = rules.round_sum(exact, "rne_f16" if by.result == F16 else "rne_f32")
            case DownFdpa():
                total = rules.cdna3(x, y, Fraction(total), of)
            case FlushedPairs():
                total = rules.cdna2(x, y, Fraction(total), of)
        if not isinstance(by, LateFdpa) and (total != total or total in (rules.INF, -rules.INF)):
            # Later blocks of finite products do not change an infinity or NaN.
            return total
    return total


def fractions(row: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in row]


def check(by: Accumulator, of: BinaryFormat, count: int, blocks: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    k = by.terms * blocks
    a, b, c = values(rng, (count, k), of), values(rng, (count, k), of), addends(rng, count, by.result)
    got = accumulate(a, b, c, by, of)
    for i in range(count):
        want = by_rule(fractions(a[i]), fractions(b[i]), Fraction(float(c[i])), by, of.name)
        assert bits(got)[i] == rules.bits_of(want), (i, by, a[i], b[i], c[i])


@pytest.mark.parametrize("name, of, result", [each for each in NAMED if "mx" not in each[0] and "nv" not in each[0]])
@pytest.mark.diagonal("name", "of", "result")
def test_named_M3(name: str, of: str, result: str) -> None:
    check(named_accumulator(name, FORMATS[of], FORMATS[result]), FORMATS[of], 250, 2)


@pytest.mark.parametrize("terms", [1, 2, 5, 16, 128])
@pytest.mark.parametrize("fraction", [10, 13, 24, 40])
@pytest.mark.diagonal
def test_made_up_M1(terms: int, fraction: int) -> None:
    for how in ("rz_f32", "rz_e8m13", "rne_f16", "rne_f32"):
        check(Fdpa(terms, fraction, how, -133), BF16, 25, 2, terms)
        check(Fdpa(terms, fraction, how, -20), F8E4M3FN, 25, 2, terms)


@pytest.mark.parametrize("floor", [-160, -133, -126, -20, 0, 3])
def test_floor_M1(floor: int) -> None:
    """Covers products so small that the smallest exponent E, `floor` (M1), determines which bits are cut."""
    rng = np.random.default_rng(7)
    by = Fdpa(8, 24, "rz_f32", floor)
    a = (rng.standard_normal((200, 8)) * 2.0 ** rng.integers(-80, -60, (200, 8))).astype(np.float32)
    b = (rng.standard_normal((200, 8)) * 2.0 ** rng.integers(-80, -60, (200, 8))).astype(np.float32)
    a, b = (decode(round_elements(x, BF16), BF16) for x in (a, b))
    c = np.where(rng.random(200) < 0.5, 0, rng.standard_normal(200) * 2.0**-145).astype(np.float32)
    got = accumulate(a, b, c, by, BF16)
    for i in range(200):
        want = rules.fdpa(fractions(a[i]), fractions(b[i]), Fraction(float(c[i])), "bf16", 24, "rz_f32", floor)
        assert bits(got)[i] == rules.bits_of(want)


def test_subnormal_addends_M1() -> None:
    """Covers subnormal c: its exponent is that of the smallest normal number of its format, f16 or f32."""
    rng = np.random.default_rng(12)
    by = Fdpa(4, 10, "rne_f16", -133)
    a, b = (rng.uniform(-1, 1, (400, 4)) * 2.0 ** rng.integers(-13, -9, (400, 4)) for _ in range(2))
    a, b = (decode(round_elements(x.astype(np.float32), BF16), BF16) for x in (a, b))
    c = (rng.integers(-1023, 1024, 400) * 2.0**-24).astype(np.float32)
    got = accumulate(a, b, c, by, BF16)
    for i in range(400):
        want = rules.fdpa(fractions(a[i]), fractions(b[i]), Fraction(float(c[i])), "bf16", 10, "rne_f16", -133)
        assert bits(got)[i] == rules.bits_of(want)


@pytest.mark.parametrize("name", ["blackwell_mx", "blackwell_mxf4", "blackwell_nvfp4"])
def test_scales_of_blocks_M2(name: str) -> None:
    rng = np.random.default_rng(8)
    scale_format, block = (F8E4M3FN, 16) if name == "blackwell_nvfp4" else (None, 32)
    for (of_name, _), by in ACCUMULATORS[name].items():
        of = FORMATS[of_name]
        assert isinstance(by, Fdpa)
        a, b, c = values(rng, (60, 128), of), values(rng, (60, 128), of), addends(rng, 60, F32)
        low, high = (0, 0x7F) if scale_format else (110, 140)
        codes = [np.repeat(rng.integers(low, high, (60, 128 // block)), block, axis=-1) for _ in range(2)]
        got = accumulate(a, b, c, by, of, (codes[0], codes[1]), scale_format)
        scale_name = "f8E4M3FN" if scale_format else "f8E8M0FNU"
        for i in range(60):
            pairs = [
                tuple(Fraction(rules.value_of(int(s), scale_name)) for s in pair)
                for pair in zip(codes[0][i], codes[1][i], strict=True)
            ]
            want = by_rule(fractions(a[i]), fractions(b[i]), Fraction(float(c[i])), by, of_name, pairs, scale_name)
            assert bits(got)[i] == rules.bits_of(want)


def test_scales_that_are_not_numbers_M2() -> None:
    one = np.ones((1, 64), np.float32)
    by = ACCUMULATORS["blackwell_nvfp4"]["f4E2M1FN", "f32"]
    good, bad = np.full((1, 64), 0x38), np.full((1, 64), 0x7F)
    assert accumulate(one, one, np.zeros(1), by, F4E2M1FN, (good, good), F8E4M3FN) == 64
    # A scale's sign bit is ignored (Q1).
    assert accumulate(one, one, np.zeros(1), by, F4E2M1FN, (good | 0x80, good), F8E4M3FN) == 64
    assert np.isnan(accumulate(one, one, np.zeros(1), by, F4E2M1FN, (good, bad), F8E4M3FN)).all()
    mx = ACCUMULATORS["blackwell_mx"]["f4E2M1FN", "f32"]
    assert np.isnan(accumulate(one, one, np.zeros(1), mx, F4E2M1FN, (np.full((1, 64), 255), good))).all()


@pytest.mark.parametrize("name, of, result", NAMED)
def test_infinities_and_nans_M1(name: str, of: str, result: str) -> None:
    by, form = ACCUMULATORS[name][of, result], FORMATS[of]
    inf, nan = np.float32(np.inf), np.float32(np.nan)
    scales = None
    if isinstance(by, Fdpa) and by.group > 1:
        scales = (np.full((1, by.terms), 0x38), np.full((1, by.terms), 0x38))

    def run(a: dict[int, float], b: dict[int, float], c: float = 0.0) -> float:
        x, y = np.ones((1, by.terms), np.float32), np.ones((1, by.terms), np.float32)
        for row, given in ((x, a), (y, b)):
            for k, v in given.items():
                row[0, k] = v
        return float(accumulate(x, y, np.array([c], np.float32), by, form, scales)[0])

    assert run({}, {}, inf) == inf and run({}, {}, -inf) == -inf and np.isnan(run({}, {}, nan))
    assert np.isnan(run({0: nan}, {}))
    assert run({1: inf}, {}) == inf and run({1: -inf}, {}, 1.0) == -inf
    assert (
        np.isnan(run({1: inf}, {1: 0.0})) and np.isnan(run({1: inf}, {}, -inf)) and np.isnan(run({0: inf, 1: -inf}, {}))
    )


def test_overflow_and_zeros_M1() -> None:
    by = Fdpa(4, 25, "rz_f32", -133)
    big = np.full((1, 4), 2.0**127, np.float32)
    one, zero = np.ones((1, 4), np.float32), np.zeros(1, np.float32)
    assert accumulate(big, one, zero, by, BF16) == np.inf
    # Products above the largest f32 are added as they are, so they can cancel each other.
    signs = np.array([[1, -1, 1, -1]], np.float32)
    cancelled = accumulate(big, big * signs, zero, by, BF16)
    assert bits(cancelled).tolist() == [0]
    assert bits(accumulate(-one, np.zeros((1, 4)), -zero, by, BF16)).tolist() == [0]
    f16 = Fdpa(4, 25, "rne_f16", -21)
    assert (
        accumulate(one * 16384, one, zero, f16, F16) == np.inf and accumulate(one * 16376, one, zero, f16, F16) == 65504
    )


def test_ragged_block_M1() -> None:
    """A partial last block acts like a block padded with zero products."""
    rng = np.random.default_rng(9)
    for by in (Fdpa(16, 25, "rz_f32", -133), ACCUMULATORS["hopper_mma"]["f8E4M3FN", "f32"], FlushedPairs(4)):
        of = F8E4M3FN if isinstance(by, LateFdpa) else F16
        a, b, c = values(rng, (50, 39), of), values(rng, (50, 39), of), addends(rng, 50, F32)
        filled = [np.pad(x, [(0, 0), (0, -39 % by.terms)]) for x in (a, b)]
        np.testing.assert_array_equal(bits(accumulate(a, b, c, by, of)), bits(accumulate(*filled, c, by, of)))


@pytest.mark.parametrize("name", [name for name in ACCUMULATORS if name not in UNVERIFIED and "_mma" not in name])
def test_every_bit_of_fraction_matters_M1(name: str) -> None:
    """Checks that 2,000 random blocks determine the number of fraction bits: one bit more or less changes a result."""
    rng = np.random.default_rng(10)
    for (of_name, result), by in ACCUMULATORS[name].items():
        if result == "f16" or of_name in ("f6E3M2FN", "f6E2M3FN", "f4E2M1FN"):
            # Results in f16 do not show the last fraction bits, and products of f6 and f4 have too few bits to reach
            # them.
            continue
        of = FORMATS[of_name]
        assert isinstance(by, Fdpa) and by.fraction is not None
        a, b = (rng.uniform(-1, 1, (2000, by.terms)).astype(np.float32) for _ in range(2))
        a, b = (decode(round_elements(x, of), of) for x in (a, b))
        c = rng.uniform(-1, 1, 2000).astype(np.float32)
        want = bits(accumulate(a, b, c, by, of))
        for bit in (-1, 1):
            other = dataclasses.replace(by, fraction=by.fraction + bit)
            assert (bits(accumulate(a, b, c, other, of)) != want).sum() > 5, (name, of_name, bit)


def test_classes_differ_M3() -> None:
    """The exact sum is -0.875; accumulator classes cut different bits of its terms, so their results differ."""
    a = np.array([[2.0**12, -(2.0**12), 0.5, 0.25]], np.float32)
    b = np.array([[2.0**11, 2.0**11, -1.0, -1.0]], np.float32)
    c = np.array([-0.125], np.float32)
    names = ("volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna1")
    got = [float(accumulate(a, b, c, named_accumulator(name, F16), F16)[0]) for name in names]
    assert got == [0.0, -0.5, -0.5, -0.5, -0.75, -0.75, -0.875]


def test_cdna1_is_exact_M3() -> None:
    """The class cdna1 cuts no bits: 1 + 2^-24 is a tie, and adding or subtracting 2^-200 breaks it."""
    a = np.array([[2.0**-12, 0.0], [2.0**-12, 2.0**-100], [2.0**-12, -(2.0**-100)]], np.float32)
    b = np.array([2.0**-12, 2.0**-100], np.float32)
    got = accumulate(a, b, np.ones(3, np.float32), named_accumulator("cdna1", BF16), BF16)
    assert got.tolist() == [1.0, 1 + 2.0**-23, 1.0]


def test_exact_sum_without_other_dimensions_M3() -> None:
    """Covers operands with a single dimension: the result is a NumPy scalar, not an array."""
    ones = np.ones(4, np.float32)
    got = accumulate(ones, ones, np.float32(1), named_accumulator("cdna1", BF16), BF16)
    assert got.shape == () and got == 5.0


def test_zeros_of_cdna2_M3() -> None:
    """If an operand or c is subnormal, it becomes +0; a subnormal product or sum becomes a zero with its sign."""
    by, zero = named_accumulator("cdna2", BF16), np.zeros((1, 4), np.float32)
    one, tiny = np.ones((1, 4), np.float32), np.full((1, 4), 2.0**-130, np.float32)
    small = np.full((1, 4), 2.0**-70, np.float32)

    def run(a: np.ndarray, b: np.ndarray, c: float) -> int:
        return int(bits(accumulate(a, b, np.array([c], np.float32), by, BF16))[0])

    assert run(one, -zero, -0.0) == 0 and run(-tiny, one, -(2.0**-130)) == 0
    # Sums of products of -2^-140, which become -0, leave c unchanged.
    assert run(-small, small, 0.0) == 0 and run(-small, small, 1.0) == 0x3F800000


def test_sum_of_cdna3_is_rounded_down_M3() -> None:
    """1 - 2^-25 is a tie. The further term -2^-33, which rounding down to 31 bits turns into -2^-31, breaks the tie."""
    a = np.zeros((2, 8), np.float32)
    a[:, 0], a[0, 1] = 2.0**-12, 2.0**-16
    b = np.full((2, 8), -(2.0**-13), np.float32)
    b[:, 1] = -(2.0**-17)
    got = accumulate(a, b, np.ones(2, np.float32), named_accumulator("cdna3", F16), F16)
    assert got.tolist() == [1 - 2.0**-24, 1.0]
    assert rules.cdna3(fractions(a[0]), fractions(b[0]), Fraction(1), "f16") == 1 - rules.two(-24)


def test_formats_and_scales_are_checked() -> None:
    with pytest.raises(ValueError, match="expected one of volta"):
        named_accumulator("pascal", F16)
    with pytest.raises(ValueError, match="volta does not multiply bf16"):
        named_accumulator("volta", BF16)
    with pytest.raises(ValueError, match="expected 1 to 128 terms"):
        Fdpa(16, 41, "rz_f32", -133)
    with pytest.raises(ValueError, match="groups that divide"):
        Fdpa(16, 25, "rz_f32", -133, 3)
    one = np.ones((1, 64), np.float32)
    with pytest.raises(ValueError, match="expected scales"):
        accumulate(one, one, np.zeros(1), ACCUMULATORS["blackwell_nvfp4"]["f4E2M1FN", "f32"], F4E2M1FN)
    with pytest.raises(ValueError, match="at most 62 bits"):
        accumulate(one, one, np.zeros(1), Fdpa(16, 40, "rz_f32", -133, 16), FORMATS["f8E5M2"], (one, one))
    for x, of in ((1 + 2.0**-11, F16), (2.0**-25, F16), (65536.0, F16), (480.0, F8E4M3FN), (1 + 2.0**-8, BF16)):
        with pytest.raises(ValueError, match=f"expected values of {of.name}, got {x}"):
            accumulate(one * np.float32(x), one, np.zeros(1), Fdpa(16, 25, "rz_f32", -133), of)
    with pytest.raises(ValueError, match="expected values of f16"):
        accumulate(one, one, np.array([2.0**-25]), Fdpa(16, 25, "rne_f16", -21), F16)
    with pytest.raises(ValueError, match="expected an fdpa accumulator for scales of blocks"):
        accumulate(one, one, np.zeros(1), FlushedPairs(4), TF32, (one, one))
    more = np.zeros((2, 1, 64), np.uint8)
    with pytest.raises(ValueError, match=r"broadcasts to \(1, 64\), got \(2, 1, 64\)"):
        accumulate(one, one, np.zeros(1), ACCUMULATORS["blackwell_nvfp4"]["f4E2M1FN", "f32"], F4E2M1FN, (more, more))
