# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(S5) Tests the elementary functions of the reference interpreter, and their errors, against C23 Annex F and MPFR."""

from __future__ import annotations

import math

import gmpy2
import numpy as np
import pytest
from objects import UNARY, reference

INF, NAN = math.inf, math.nan

#: Function, operands, result: the special cases of C23 Annex F.
SPECIAL = [
    ("acos", (1.0,), 0.0),
    ("acos", (1.5,), NAN),
    ("acosh", (1.0,), 0.0),
    ("acosh", (0.5,), NAN),
    ("acosh", (INF,), INF),
    ("asin", (-0.0,), -0.0),
    ("asin", (-2.0,), NAN),
    ("asinh", (-0.0,), -0.0),
    ("asinh", (-INF,), -INF),
    ("atan", (-0.0,), -0.0),
    ("atan", (INF,), np.float32(math.pi / 2)),
    ("atanh", (-0.0,), -0.0),
    ("atanh", (1.0,), INF),
    ("atanh", (-1.0,), -INF),
    ("atanh", (1.5,), NAN),
    ("atan2", (0.0, -0.0), np.float32(math.pi)),
    ("atan2", (-0.0, -0.0), -np.float32(math.pi)),
    ("atan2", (-0.0, 0.0), -0.0),
    ("atan2", (INF, -INF), np.float32(3 * math.pi / 4)),
    ("atan2", (1.0, INF), 0.0),
    ("atan2", (INF, NAN), NAN),
    ("cbrt", (-0.0,), -0.0),
    ("cbrt", (-27.0,), -3.0),
    ("cbrt", (-INF,), -INF),
    ("cos", (INF,), NAN),
    ("cos", (-0.0,), 1.0),
    ("cosh", (-INF,), INF),
    ("erf", (-0.0,), -0.0),
    ("erf", (-INF,), -1.0),
    ("erfc", (-INF,), 2.0),
    ("erfc", (INF,), 0.0),
    ("exp", (-INF,), 0.0),
    ("exp", (89.0,), INF),
    ("exp2", (-149.0,), 2.0**-149),
    ("exp2", (-150.0,), 0.0),
    ("exp10", (10.0,), 1e10),
    ("expm1", (-0.0,), -0.0),
    ("expm1", (-INF,), -1.0),
    ("hypot", (INF, NAN), INF),
    ("hypot", (NAN, 1.0), NAN),
    ("hypot", (-0.0, -0.0), 0.0),
    ("hypot", (3.0, -4.0), 5.0),
    ("log", (-0.0,), -INF),
    ("log", (1.0,), 0.0),
    ("log", (-1.0,), NAN),
    ("log2", (2.0**-149,), -149.0),
    ("log10", (1000.0,), 3.0),
    ("log1p", (-0.0,), -0.0),
    ("log1p", (-1.0,), -INF),
    ("log1p", (-1.5,), NAN),
    ("pow", (NAN, 0.0), 1.0),
    ("pow", (1.0, NAN), 1.0),
    ("pow", (-1.0, INF), 1.0),
    ("pow", (-0.0, -3.0), -INF),
    ("pow", (-0.0, -2.0), INF),
    ("pow", (-0.0, 3.0), -0.0),
    ("pow", (-8.0, 1.0 / 3.0), NAN),
    ("pow", (-INF, 3.0), -INF),
    ("pow", (-INF, 0.5), INF),
    ("pow", (0.5, INF), 0.0),
    ("pow", (0.5, -INF), INF),
    ("pow", (2.0**-75, 2.0), 0.0),
    ("rsqrt", (-0.0,), -INF),
    ("rsqrt", (INF,), 0.0),
    ("rsqrt", (-1.0,), NAN),
    ("rsqrt", (2.0**-148,), 2.0**74),
    ("sin", (-0.0,), -0.0),
    ("sin", (INF,), NAN),
    ("sinh", (-0.0,), -0.0),
    ("tan", (-0.0,), -0.0),
    ("tan", (-INF,), NAN),
    ("tanh", (-0.0,), -0.0),
    ("tanh", (INF,), 1.0),
]


def same(x: np.float32, y: np.float32) -> bool:
    """Returns whether two f32 values have equal bits or are both NaN (V4)."""
    return bool((np.isnan(x) and np.isnan(y)) or x.view(np.uint32) == y.view(np.uint32))


@pytest.mark.parametrize(("name", "operands", "right"), SPECIAL)
def test_special_case(name: str, operands: tuple[float, ...], right: float) -> None:
    result = reference.evaluate(name, *(np.array([o], np.float32) for o in operands))[0]
    assert same(result, np.float32(right)), (name, operands, result)


def test_integer_power() -> None:
    x = np.array([NAN, -0.0, -2.0, -1.0, 2.0, 1.0], np.float32)
    n = np.array([0, -3, 3, 2**62 + 1, -150, -(2**63)], np.int64)
    result = reference.evaluate("powi", x, n)
    assert result.tolist() == [1.0, -INF, -8.0, -1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", UNARY)
def test_decision_in_f64_agrees_with_mpfr(name: str) -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 32, 4000, np.uint32)
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        right = np.array([reference.round_exact(name, float(v)) for v in x], np.float32)
    result = reference.evaluate(name, x)
    assert all(same(r, e) for r, e in zip(result, right, strict=True))


def test_rounding_is_to_f32_once() -> None:
    # 1/sqrt(2) rounded to 24 bits; half of the smallest subnormal, a tie that rounds to 0; and 3 times 2^-75, which is
    # exact.
    assert reference.round_exact("rsqrt", 2.0) == float(np.float32(gmpy2.rec_sqrt(gmpy2.mpfr(2))))
    assert reference.round_exact("pow", 2.0**-75, 2.0) == 0.0
    assert reference.round_exact("pow", 3 * 2.0**-75, 1.0) == 3 * 2.0**-75


def test_nan_is_canonical() -> None:
    assert reference.evaluate("log", np.array([-1.0], np.float32)).view(np.uint32)[0] == 0x7FC00000


def test_errors() -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(ValueError, match=r"expected an elementary function of \(S5\), got 'gamma'"):
        reference.evaluate("gamma", x)
    with pytest.raises(ValueError, match="pow: expected 2 operands, got 1"):
        reference.evaluate("pow", x)
    with pytest.raises(ValueError, match="exp: expected f32 or f64 operands, got float16"):
        reference.evaluate("exp", x.astype(np.float16))
    with pytest.raises(ValueError, match="pow: expected f32 operands, got float64"):
        reference.evaluate("pow", x.astype(np.float64), x.astype(np.float64))
    with pytest.raises(ValueError, match="powi: expected an integer exponent, got float32"):
        reference.evaluate("powi", x, x)
