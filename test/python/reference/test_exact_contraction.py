# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares exact contractions (K4) of the interpreter with Python's integers and fractions, and measures their
accuracy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from repro_mlir.reference import folds


def nearest_even(value: Fraction) -> int:
    below = math.floor(value)
    rest = value - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def exponent(values: list[Fraction]) -> int:
    """Returns the least e with -2^e < v < 2^e for all v, or 0 if all values are zeros."""
    largest = max(abs(v) for v in values)
    if largest == 0:
        return 0
    e = -200
    while largest >= Fraction(2) ** e:
        e += 1
    return e


def rounded(value: Fraction, precision: int, least: int) -> Fraction:
    """Rounds a value to nearest even, to `precision` bits or, where this is coarser, to a multiple of 2^least."""
    unit = Fraction(2) ** max(exponent([value]) - precision, least)
    return nearest_even(value / unit) * unit


def total_K4(x: np.ndarray, y: np.ndarray, digits: int) -> np.float32:
    """Returns the exact contraction (K4) of two vectors."""
    w = 8 * digits - 2
    xs, ys = ([Fraction(float(v)) for v in column] for column in (x, y))
    e, f = exponent(xs), exponent(ys)
    q = [nearest_even(v * Fraction(2) ** (w - e)) for v in xs]
    r = [nearest_even(v * Fraction(2) ** (w - f)) for v in ys]
    total = sum(a * b for a, b in zip(q, r, strict=True))
    # Rounds the total to f64, scales it (exactly), and rounds the result to f32.
    value = rounded(rounded(Fraction(total), 53, -1074) * Fraction(2) ** (e + f - 2 * w), 24, -149)
    return np.float32(math.copysign(value, total))


@pytest.mark.parametrize("digits", [2, 3])
def test_total_K4(digits: int) -> None:
    rng = np.random.default_rng(digits)
    for n in (1, 2, 3, 17, 400):
        for spread in (0, 3, 20, 60):
            x, y = (
                (rng.standard_normal(n) * np.exp2(rng.integers(-spread, spread + 1, n))).astype(np.float32)
                for _ in range(2)
            )
            x[rng.random(n) < 0.1] = -0.0
            y[rng.random(n) < 0.1] = 3e-42
            got = folds.exact_contraction(x[:, np.newaxis], y[:, np.newaxis], digits)[0]
            assert got.tobytes() == total_K4(x, y, digits).tobytes(), (n, spread)


@pytest.mark.parametrize("digits", [2, 3])
def test_subnormal_totals_K4(digits: int) -> None:
    rng = np.random.default_rng(digits)
    for scale in (2.0**-75, 2.0**-74, 2.0**-70):
        x, y = ((rng.standard_normal(9) * scale).astype(np.float32) for _ in range(2))
        got = folds.exact_contraction(x[:, np.newaxis], y[:, np.newaxis], digits)[0]
        assert got.tobytes() == total_K4(x, y, digits).tobytes()
        assert abs(got) < 2.0**-126


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_factor_that_is_not_finite_gives_nan_K4(digits: int, value: float) -> None:
    x, y = np.ones((4, 2), np.float32), np.zeros((4, 2), np.float32)
    x[2, 0] = value
    got = folds.exact_contraction(x, y, digits)
    assert np.isnan(got[0])
    assert got[1].tobytes() == np.float32(0.0).tobytes()


def relative_error(a: np.ndarray, b: np.ndarray, got: np.ndarray) -> float:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.sqrt(np.mean((got - exact) ** 2) / np.mean(exact**2)))


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a matrix product in f32 in the order (P1) of contractions: chunks of 512 products."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for first in range(0, a.shape[1], 512):
        acc = np.zeros_like(total)
        for t in range(first, min(first + 512, a.shape[1])):
            # Products are exact in f64 and sums nearly exact, so the rounding is almost that of fma, which is enough to
            # compare errors.
            acc = (a[:, t, np.newaxis].astype(np.float64) * b[t] + acc).astype(np.float32)
        total = total + acc
    return total


def exact(a: np.ndarray, b: np.ndarray, digits: int) -> np.ndarray:
    return folds.exact_contraction(a.T[:, :, np.newaxis], b[:, np.newaxis, :], digits)


# Limits of the relative root-mean-square error: twice the values measured for K = 4096. With three digits, results are
# almost as exact as the f32 chain; with two digits, about 13 bits are right.
@pytest.mark.parametrize(
    ("name", "two", "three"),
    [("normal", 2.6e-4, 1.1e-6), ("bfloat16", 6e-5, 6e-8), ("lognormal", 2.8e-3, 1.2e-5), ("outliers", 4e-3, 1.5e-5)],
)
def test_accuracy_K4(name: str, two: float, three: float) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((16, 4096)), rng.standard_normal((4096, 16))
    if name == "lognormal":
        a, b = a * np.exp(2 * rng.standard_normal(a.shape)), b * np.exp(2 * rng.standard_normal(b.shape))
    if name == "outliers":
        a, b = (np.where(rng.random(v.shape) < 1e-3, v * 100, v) for v in (a, b))
    a, b = a.astype(np.float32), b.astype(np.float32)
    if name == "bfloat16":
        a, b = ((v.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for v in (a, b))
    errors = {digits: relative_error(a, b, exact(a, b, digits)) for digits in (2, 3)}
    print(name, {"chain": relative_error(a, b, chain(a, b)), **errors})
    assert errors[2] < two
    assert errors[3] < three
