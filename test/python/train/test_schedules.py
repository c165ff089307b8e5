# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(G4) Learning rates are rounded once. They do not depend on the caller's decimal context or the platform's libm."""

import decimal

import mpmath
import pytest
from repro_mlir import cosine_with_warmup

ARGUMENTS = {"peak": 3e-3, "warmup": 30, "total": 300, "floor": 3e-4}


def exactly(step: int) -> float:
    """Returns the learning rate, computed with mpmath in 100 digits and rounded to a float."""
    with mpmath.workdps(100):
        peak, floor = mpmath.mpf(ARGUMENTS["peak"]), mpmath.mpf(ARGUMENTS["floor"])
        if step < ARGUMENTS["warmup"]:
            return float(peak * (step + 1) / ARGUMENTS["warmup"])
        angle = mpmath.pi * (step - ARGUMENTS["warmup"]) / (ARGUMENTS["total"] - ARGUMENTS["warmup"])
        return float(floor + (peak - floor) * (1 + mpmath.cos(angle)) / 2)


def test_every_step_is_rounded_correctly() -> None:
    for step in range(300):
        assert cosine_with_warmup(step, **ARGUMENTS) == exactly(step)
    assert cosine_with_warmup(300, **ARGUMENTS) == cosine_with_warmup(10**9, **ARGUMENTS) == ARGUMENTS["floor"]


@pytest.mark.parametrize("rounding", [decimal.ROUND_UP, decimal.ROUND_FLOOR])
def test_the_callers_decimal_context_takes_no_part(rounding: str) -> None:
    expected = [cosine_with_warmup(step, **ARGUMENTS) for step in range(300)]
    with decimal.localcontext(decimal.Context(prec=3, rounding=rounding, Emin=-9, Emax=9)):
        assert [cosine_with_warmup(step, **ARGUMENTS) for step in range(300)] == expected
