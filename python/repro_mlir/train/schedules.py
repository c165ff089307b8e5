# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes learning-rate schedules in decimal arithmetic. Unlike the functions of libm, this arithmetic gives the same
bits on every platform."""

from __future__ import annotations

from decimal import Context, Decimal

from repro_mlir.base.numerics.environment import float_environment

# A separate context, so that the caller's decimal settings have no effect.
_CONTEXT = Context(prec=60)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def _cosine(angle: Decimal) -> Decimal:
    """Returns cos(angle) for an angle from 0 to pi, computed by the Taylor series and accurate to 50 digits."""
    term = total = Decimal(1)
    square = _CONTEXT.multiply(angle, angle)
    n = 0
    while _CONTEXT.abs(term) > Decimal("1e-58"):
        n += 2
        term = _CONTEXT.divide(_CONTEXT.multiply(term, _CONTEXT.minus(square)), Decimal(n * (n - 1)))
        total = _CONTEXT.add(total, term)
    return total


@float_environment()
def cosine_with_warmup(step: int, *, peak: float, warmup: int, total: int, floor: float = 0.0) -> float:
    """(G4) Returns a learning rate that rises linearly for `warmup` steps, then falls along a cosine to `floor` at step
    `total`. The rate is computed in decimal arithmetic of 60 digits and rounded once to f64.

    Args:
      step: the number of the step from 0; from `total` on the rate is `floor`.
      peak: the highest rate.
      warmup: the number of steps with a rising rate; step 0 has the rate peak / warmup.
      total: the number of steps of the whole schedule.
      floor: the final rate.
    Returns:
      the learning rate of the step.
    """
    high, low = Decimal(peak), Decimal(floor)
    if step < warmup:
        return float(_CONTEXT.divide(_CONTEXT.multiply(high, Decimal(step + 1)), Decimal(warmup)))
    if step >= total:
        return floor
    angle = _CONTEXT.multiply(_PI, _CONTEXT.divide(Decimal(step - warmup), Decimal(total - warmup)))
    half = _CONTEXT.divide(_CONTEXT.add(Decimal(1), _cosine(angle)), Decimal(2))
    return float(_CONTEXT.add(low, _CONTEXT.multiply(_CONTEXT.subtract(high, low), half)))
