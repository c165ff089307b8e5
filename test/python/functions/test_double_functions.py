# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(S5) Compares f64 elementary functions with MPFR: special cases, hard cases, and the compiled code of every CPU
level.

test_stages.py evaluates the expanded operations of all functions; tools/functions/check_double.py tests the compiled
code.
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from check_double import arguments, failing
from objects import HERE, available_levels, compiler, reference

INF, NAN = math.inf, math.nan

#: Function, operands, result: special cases of C23 Annex F, ties, and results at the ends of f64's range.
SPECIAL = [
    ("acos", (1.0,), 0.0),
    ("acosh", (0.5,), NAN),
    ("asin", (-0.0,), -0.0),
    ("atan", (INF,), math.pi / 2),
    ("atanh", (-1.0,), -INF),
    ("cbrt", (-27.0,), -3.0),
    ("cos", (INF,), NAN),
    ("erf", (-INF,), -1.0),
    ("erfc", (-INF,), 2.0),
    ("exp", (-746.0,), 0.0),
    ("exp", (-745.1332191019411,), 5e-324),
    ("exp", (709.7827128933841,), INF),
    ("exp2", (-1075.0,), 0.0),
    ("exp2", (-1074.9999999999998,), 5e-324),
    ("exp10", (23.0,), 9.999999999999999e22),
    ("expm1", (-INF,), -1.0),
    ("log", (-0.0,), -INF),
    ("log10", (1e22,), 22.0),
    ("log1p", (-1.0,), -INF),
    ("log1p", (-5e-324,), -5e-324),
    ("log2", (5e-324,), -1074.0),
    ("powi", (NAN, 0), 1.0),
    ("powi", (-0.0, -3), -INF),
    ("powi", (-INF, 3), -INF),
    ("powi", (94906267.0, 2), 9007199515875288.0),
    ("powi", (2.0**-537, 2), 5e-324),
    ("rsqrt", (-0.0,), -INF),
    ("rsqrt", (5e-324,), 2.0**537),
    ("sin", (-0.0,), -0.0),
    ("tan", (INF,), NAN),
    ("tanh", (-INF,), -1.0),
]


@pytest.mark.parametrize(("name", "operands", "right"), SPECIAL)
def test_special_case_of_reference(name: str, operands: tuple[float, ...], right: float) -> None:
    x, *rest = operands
    result = reference.evaluate(name, np.array([x]), *(np.array([n], np.int64) for n in rest))
    assert result.dtype == np.float64
    assert result.tobytes() == np.array([right]).tobytes(), (result, right)


def test_reference_rounds_once() -> None:
    # Rounding the argument to f32 first would give another result.
    x = np.array([0.1], np.float64)
    assert reference.evaluate("exp", x)[0] == 1.1051709180756477
    assert reference.evaluate("exp", x)[0] != reference.evaluate("exp", x.astype(np.float32))[0]


@pytest.mark.skipif(not compiler().exists(), reason=f"no compiler at {compiler()}")
@pytest.mark.parametrize("level", available_levels())
@pytest.mark.parametrize("name", ["exp", "tan"])
@pytest.mark.diagonal
def test_compiled_code(name: str, level: str) -> None:
    operands = arguments(name, 20000, seed=2)
    wrong = failing(name, level, operands, reference.evaluate(name, *operands))
    assert not wrong.size, [float(operands[0][i]).hex() for i in wrong[:5]]


def test_constants_are_the_derived_ones() -> None:
    subprocess.run([sys.executable, str(HERE / "derive_double.py"), "--check"], check=True)
