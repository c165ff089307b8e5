# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Orthogonal polynomials with a tensor of degrees, by their recurrences in f64 (DLMF 18.9), rounded once to f32.

Chebyshev polynomials support any degree below 2^31, by the binary digits of the degree; the others are evaluated degree
by degree.
"""

from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.torch.base import value_checks

aten = torch.ops.aten

_F64 = torch.float64
_DIGITS = 31
_STEPS = 128
"""The greatest degree of polynomials that are computed one degree after another. Above it, PyTorch's Hermite
polynomials are NaN in f32."""


def _is_defined(x: Any, n: Any) -> bool:
    """Whether the result's type is f32 or an integer type, for which PyTorch returns the default dtype."""
    kind = torch.result_type(x, n)
    return kind is torch.float32 or not (kind.is_floating_point or kind.is_complex)


def _operands(x: Any, n: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns x in f64 and the degree in i64, rounded toward zero; Python numbers become tensors."""
    x = x if isinstance(x, torch.Tensor) else torch.full([], x, dtype=_F64)
    n = n if isinstance(n, torch.Tensor) else torch.full([], int(n), dtype=torch.int64)
    return x.to(_F64), n.to(torch.int64)


def _binary_power(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns U_(n-1) and -U_(n-2) of x, where U are the Chebyshev polynomials of the second kind.

    The results are a and b in M^n = a M + b for M = [[2x, -1], [1, 0]], where M^2 = 2x M - 1.
    """
    a, b = torch.zeros_like(x), torch.ones_like(x)
    power_a, power_b = torch.ones_like(x), torch.zeros_like(x)
    twice = x + x
    for digit in range(_DIGITS):
        taken = (torch.bitwise_right_shift(n, digit) & 1) == 1
        both = a * power_a
        a, b = (
            torch.where(taken, twice * both + (a * power_b + b * power_a), a),
            torch.where(taken, b * power_b - both, b),
        )
        square = power_a * power_a
        power_a, power_b = twice * square + 2 * (power_a * power_b), power_b * power_b - square
    return a, b


def _chebyshev(kind: str, shifted: bool) -> Callable[..., Any]:
    def polynomial(x: Any, n: Any) -> Any:
        if not _is_defined(x, n):
            return NotImplemented
        x, n = _operands(x, n)
        x, n = torch.broadcast_tensors(2 * x - 1 if shifted else x, n)
        # Replace degrees that are out of range by 0, because their digits may multiply 0 by an infinite power.
        degree = torch.where((n < 0) | (n >= 2**_DIGITS), torch.zeros_like(n), n)
        a, b = _binary_power(x, degree)
        found = {
            "t": lambda: x * a + b,
            "u": lambda: (x + x) * a + b,
            "v": lambda: (x + x) * a + b - a,
            "w": lambda: (x + x) * a + b + a,
        }[kind]()
        found = torch.where(degree == 0, torch.ones_like(found), found)
        found = torch.where(n < 0, torch.zeros_like(found), found)
        found = torch.where(n >= 2**_DIGITS, torch.full_like(found, float("nan")), found)
        return found.to(torch.float32)

    return polynomial


Step = Callable[[torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor]


def _by_steps(first: Callable[[torch.Tensor], torch.Tensor], step: Step, beyond_is_nan: bool) -> Callable[..., Any]:
    """Returns a function that evaluates a polynomial degree by degree.

    The polynomial of degree 0 is 1, and that of a negative degree is 0. `first` computes the polynomial of degree 1;
    `step` computes the one of degree k + 1 from those of degrees k and k - 1. Above degree `_STEPS`, the result is NaN
    if `beyond_is_nan`; otherwise an assertion fails.
    """

    def polynomial(x: Any, n: Any) -> Any:
        if not _is_defined(x, n):
            return NotImplemented
        x, n = torch.broadcast_tensors(*_operands(x, n))
        if not beyond_is_nan:
            value_checks.call_assert((n <= _STEPS).all(), f"a polynomial of a degree above {_STEPS}")
        before, now = torch.ones_like(x), first(x)
        found = torch.where(n == 0, before, now)
        for degree in range(1, _STEPS):
            before, now = now, step(x, degree, now, before)
            found = torch.where(n > degree, now, found)
        found = torch.where(n < 0, torch.zeros_like(found), found)
        if beyond_is_nan:
            found = torch.where(n > _STEPS, torch.full_like(found, float("nan")), found)
        return found.to(torch.float32)

    return polynomial


_POLYNOMIALS: dict[str, Callable[..., Any]] = {
    **{f"chebyshev_polynomial_{kind}": _chebyshev(kind, False) for kind in "tuvw"},
    **{f"shifted_chebyshev_polynomial_{kind}": _chebyshev(kind, True) for kind in "tuvw"},
    "hermite_polynomial_h": _by_steps(lambda x: x + x, lambda x, k, p, q: 2 * (x * p - k * q), True),
    "hermite_polynomial_he": _by_steps(lambda x: x, lambda x, k, p, q: x * p - k * q, True),
    "laguerre_polynomial_l": _by_steps(
        lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1), False
    ),
    "legendre_polynomial_p": _by_steps(
        lambda x: x, lambda x, k, p, q: ((2 * k + 1) * (x * p) - k * q) / (k + 1), False
    ),
}

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    getattr(getattr(aten, f"special_{name}"), overload): function
    for name, function in _POLYNOMIALS.items()
    for overload in ("default", "x_scalar", "n_scalar")
}
