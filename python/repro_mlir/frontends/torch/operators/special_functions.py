# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Special functions as compositions of exact arithmetic in f64 and the elementary functions of f32 (S5).

No function calls a library, so every target and the reference interpreter agree by construction. Arguments and results
are f32; for other floating-point types, a function returns NotImplemented. test_special_functions.py states the
accuracy of each function and tests it against mpmath. tools/functions/derive_special.py derives the polynomials; series
and reflection formulas are cited by their numbers in the Digital Library of Mathematical Functions (DLMF).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.operators import special_coefficients as tables

aten = torch.ops.aten

_F64 = torch.float64
#: Bernoulli numbers B2, B4, ... B16.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_EULER = 0.5772156649015329
#: Recurrences shift arguments to at least this number, where the asymptotic series are exact to f64.
_SHIFT = 10


def _as_float(x: torch.Tensor) -> torch.Tensor:
    """Converts integers to the default dtype, in which PyTorch computes functions of integers."""
    return x if x.dtype.is_floating_point or x.dtype.is_complex else x.to(torch.get_default_dtype())


def _magnitude(x: torch.Tensor) -> torch.Tensor:
    """Returns |x|, but -0 for -0, with the derivative 1 at 0."""
    return torch.where(x < 0, -x, x)


def _polynomial(coefficients: Sequence[float], x: torch.Tensor) -> torch.Tensor:
    result = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def _log(v: torch.Tensor) -> torch.Tensor:
    """Returns the logarithm, in f64, of a positive f64 within f32's range, to about 2^-50."""
    k = torch.floor(torch.log2(v.to(torch.float32)))
    half = torch.floor(k * 0.5)
    # Multiply by two factors, because 2^-k itself may overflow f32.
    m = v * torch.exp2(-half).to(_F64) * torch.exp2(half - k).to(_F64)
    root = math.sqrt(2)
    s = (m - root) / (m + root)
    z = s * s
    series = _polynomial([2 / (2 * j + 1) for j in range(12)], z)
    return (k.to(_F64) + 0.5) * math.log(2) + s * series


def _turn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns sin(pi x) and cos(pi x), up to one common sign, in f64."""
    r = (x - torch.round(x)).to(_F64)
    z = r * r * (math.pi**2)
    sine = [(-1) ** j / math.factorial(2 * j + 1) for j in range(12)]
    cosine = [(-1) ** j / math.factorial(2 * j) for j in range(12)]
    return r * math.pi * _polynomial(sine, z), _polynomial(cosine, z)


def _shifted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns x in f64, and the mask of the elements below _SHIFT, to which _SHIFT has been added."""
    low = x < _SHIFT
    wide = x.to(_F64)
    return torch.where(low, wide + _SHIFT, wide), low


def _lgamma(x: torch.Tensor) -> torch.Tensor:
    a = x.abs()
    y, low = _shifted(a)
    wide = a.to(_F64)
    product = wide
    for k in range(1, _SHIFT):
        product = product * (wide + k)
    # DLMF 5.11.1, and 5.5.1 for the shift.
    inverse = 1 / y
    series = [b / ((2 * j + 2) * (2 * j + 1)) for j, b in enumerate(_BERNOULLI)]
    stirling = (y - 0.5) * _log(y) - y + 0.5 * math.log(2 * math.pi) + inverse * _polynomial(series, inverse * inverse)
    one = torch.ones_like(wide)
    positive = stirling - torch.where(low, _log(torch.where(low, product, one)), one * 0)
    # DLMF 5.5.3, the reflection formula.
    sine, _ = _turn(x)
    reflected = math.log(math.pi) - _log(torch.where(x < 0, (wide * sine).abs(), one)) - positive
    # Near zero, x sin(pi x) is outside of f32's range, but lgamma(-a) equals lgamma(a) to 2^-40.
    result = torch.where((x < 0) & (a > 2.0**-40), reflected, positive).to(torch.float32)
    infinite = (a == math.inf) | ((x <= 0) & (x == torch.floor(x)))
    # At the zeros 1 and 2, the result is an expression that is 0 and has the right derivative.
    result = torch.where(x == 1, (1 - x) * _EULER, torch.where(x == 2, (x - 2) * (1 - _EULER), result))
    return torch.where(infinite, torch.full_like(x, math.inf), result)


def _digamma(x: torch.Tensor) -> torch.Tensor:
    negative = x < 0
    # DLMF 5.5.4: a negative x is reflected to 1 - x.
    wide = torch.where(negative, 1 - x.to(_F64), x.to(_F64))
    low = wide < _SHIFT
    y = torch.where(low, wide + _SHIFT, wide)
    total = 1 / wide
    for k in range(1, _SHIFT):
        total = total + 1 / (wide + k)
    # DLMF 5.11.2
    inverse = 1 / y
    z = inverse * inverse
    series = [b / (2 * j + 2) for j, b in enumerate(_BERNOULLI)]
    value = _log(y) - 0.5 * inverse - z * _polynomial(series, z) - torch.where(low, total, total * 0)
    sine, cosine = _turn(x)
    sine = torch.where(negative, sine, torch.ones_like(sine))
    value = torch.where(negative, value - math.pi * cosine / sine, value)
    result = value.to(torch.float32)
    result = torch.where(x == math.inf, x, result)
    pole = negative & (x == torch.floor(x))
    return torch.where(pole, torch.full_like(x, math.nan), result)


def _polygamma(order: int, x: torch.Tensor) -> Any:
    x = _as_float(x)
    if x.dtype != torch.float32 or not 0 <= order <= 8:
        return NotImplemented
    if order == 0:
        return _digamma(x)
    negative = x < 0
    wide = torch.where(negative, 1 - x.to(_F64), x.to(_F64))
    y = wide + _SHIFT

    def power(v: torch.Tensor, n: int) -> torch.Tensor:
        result = v
        for _ in range(n - 1):
            result = result * v
        return result

    # DLMF 5.15.1 and the Euler-Maclaurin sum of its tail (25.11.5).
    total = 1 / power(wide, order + 1)
    for k in range(1, _SHIFT):
        total = total + 1 / power(wide + k, order + 1)
    inverse = 1 / y
    z = inverse * inverse
    base = power(inverse, order)
    terms = []
    for j, b in enumerate(_BERNOULLI, 1):
        terms.append(b * math.factorial(order + 2 * j - 1) / (math.factorial(2 * j) * math.factorial(order)))
    tail = base / order + 0.5 * base * inverse + base * z * _polynomial(terms, z)
    value = (total + tail) * ((-1) ** (order + 1) * math.factorial(order))
    # DLMF 5.15.6: derivatives of pi cot(pi x), as polynomials in the cotangent.
    derivative = [0.0, 1.0]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(derivative)][1:]
        derivative = [-a - b for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    sine, cosine = _turn(x)
    sine = torch.where(negative, sine, torch.ones_like(sine))
    reflected = (-1) ** order * value - math.pi ** (order + 1) * _polynomial(derivative, cosine / sine)
    result = torch.where(negative, reflected, value).to(torch.float32)
    pole = (x <= 0) & (x == torch.floor(x))
    at_pole = math.inf if order % 2 else math.nan
    result = torch.where(pole, torch.full_like(x, at_pole), result)
    return torch.where(x == math.inf, torch.zeros_like(x), result)


def _inverse_error(x: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Returns erfinv of an f64 x; `product` is 1 - x^2, which is positive."""
    w = -_log(product)
    s = torch.sqrt(torch.maximum(w, torch.ones_like(w)))
    centre = _polynomial(tables.ERFINV_CENTRE, w - 3)
    tail = _polynomial(tables.ERFINV_TAIL, (s - 5) / (s + 5))
    return x * torch.where(w < 6, centre, tail)


def _erfinv(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(_F64)
    inside = x.abs() < 1
    product = torch.where(inside, (1 - wide) * (1 + wide), torch.ones_like(wide))
    result = _inverse_error(wide, product).to(torch.float32)
    ends = x.abs() == 1
    # (J2) The inner select gives the product a gradient only at the ends.
    beyond = torch.where(ends, torch.where(ends, x, torch.ones_like(x)) * math.inf, torch.full_like(x, math.nan))
    return torch.where(inside, result, beyond)


def _ndtri(p: torch.Tensor) -> torch.Tensor:
    wide = p.to(_F64)
    inside = (p > 0) & (p < 1)
    product = torch.where(inside, 4 * wide * (1 - wide), torch.ones_like(wide))
    result = (_inverse_error(2 * wide - 1, product) * math.sqrt(2)).to(torch.float32)
    result = torch.where(inside, result, torch.full_like(p, math.nan))
    result = torch.where(p == 0, torch.full_like(p, -math.inf), result)
    return torch.where(p == 1, torch.full_like(p, math.inf), result)


def _bessel(order: int, scaled: bool) -> Callable[[torch.Tensor], Any]:
    """Returns the modified Bessel function I0 or I1 (`order`), times e^-|x| if `scaled`."""
    tail_table = tables.I1_TAIL if order else tables.I0_TAIL

    def bessel(x: torch.Tensor) -> Any:
        x = _as_float(x)
        if x.dtype != torch.float32:
            return NotImplemented
        a = x.abs()
        # I1 needs a nonzero derivative at 0: that of |x| is 0, that of `_magnitude` is 1. Adding `a` turns -0 into +0.
        wide = torch.where(x == 0, _magnitude(x) + a, a).to(_F64) if order else a.to(_F64)
        # DLMF 10.25.2, for |x| < 8.
        near = torch.where(a < 8, wide, torch.zeros_like(wide))
        quarter = near * near * 0.25
        series = [1 / (math.factorial(j) * math.factorial(j + order)) for j in range(28)]
        small = _polynomial(series, quarter)
        if order:
            small = small * (near * 0.5)
        far = torch.where(a < 8, torch.full_like(wide, 8.0), wide)
        large = _polynomial(tail_table, 8 / far) / torch.sqrt(far)
        if scaled:
            small = small * torch.exp(-a).to(_F64)
        else:
            # Multiply by e^(x / 2) twice, because e^x overflows before the result does.
            root = torch.exp(a * 0.5).to(_F64)
            large = large * root * root
        result = torch.where(a < 8, small, large).to(torch.float32)
        infinite = torch.zeros_like(a) if scaled else a
        result = torch.where(a == math.inf, infinite, result)
        result = torch.where(x != x, x, result)
        return torch.where(x < 0, -result, result) if order else result

    return bessel


def _exp_of_square(x: torch.Tensor) -> torch.Tensor:
    """Returns e^(x^2) of an f64 x, |x| at most 10, to about 2^-24: the square is split into an f32 and a remainder."""
    square = x * x
    high = square.to(torch.float32)
    return torch.exp(high).to(_F64) * (1 + (square - high.to(_F64)))


def _scaled_erfc(x: torch.Tensor) -> torch.Tensor:
    """Returns e^(x^2) erfc(x) of an f64 x."""
    a = torch.minimum(_magnitude(x), torch.full_like(x, 1e30))
    positive = _polynomial(tables.ERFCX, (a - 4) / (a + 4)) / (a + 4)
    grown = _exp_of_square(torch.minimum(a, torch.full_like(a, 10.0)))
    return torch.where(x < 0, 2 * grown - positive, positive)


def _erfcx(x: torch.Tensor) -> torch.Tensor:
    result = _scaled_erfc(x.to(_F64)).to(torch.float32)
    result = torch.where(x == math.inf, torch.zeros_like(x), result)
    return torch.where(x != x, x, result)


def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    # The result is log(erfc(t) / 2) with t = -x / sqrt(2).
    t = x.to(_F64) * -math.sqrt(0.5)
    low = x < 1
    below = torch.where(low, torch.maximum(t, torch.full_like(t, -1.0)), torch.zeros_like(t))
    scaled = torch.where(x > -1e18, 0.5 * _scaled_erfc(below), torch.ones_like(t))
    left = _log(scaled) - below * below
    above = torch.where(low, torch.zeros_like(t), torch.maximum(t, torch.full_like(t, -10.0)))
    tail = 0.5 * _scaled_erfc(-above) / _exp_of_square(above)
    right = torch.log1p(-tail.to(torch.float32))
    result = torch.where(low, left.to(torch.float32), right)
    return torch.where(x != x, x, result)


def _erfc(x: torch.Tensor) -> torch.Tensor:
    wide = torch.minimum(x.abs(), torch.full_like(x, 12.0)).to(_F64)
    square = wide * wide
    # Compute e^(-x^2) as the square of e^(-x^2 / 2), which is not subnormal in f32 where e^(-x^2) is.
    high = square.to(torch.float32)
    half = torch.exp(high * -0.5).to(_F64)
    tail = half * half * (1 - (square - high.to(_F64))) * _scaled_erfc(wide)
    result = torch.where(x < 0, 2 - tail, tail).to(torch.float32)
    result = torch.where(x.abs() < 0.5, 1 - torch.erf(x), result)
    return torch.where(x != x, x, result)


def _of_f32(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    def evaluate(x: torch.Tensor) -> Any:
        x = _as_float(x)
        return function(x) if x.dtype == torch.float32 else NotImplemented

    return evaluate


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.polygamma.default: _polygamma,
    aten.lgamma.default: _of_f32(_lgamma),
    aten.digamma.default: _of_f32(_digamma),
    aten.erfc.default: _of_f32(_erfc),
    aten.special_erfc.default: _of_f32(_erfc),
    aten.erfinv.default: _of_f32(_erfinv),
    aten.special_ndtri.default: _of_f32(_ndtri),
    aten.special_erfcx.default: _of_f32(_erfcx),
    aten.special_log_ndtr.default: _of_f32(_log_ndtr),
    aten.i0.default: _bessel(0, False),
    aten.special_modified_bessel_i0.default: _bessel(0, False),
    aten.special_i0e.default: _bessel(0, True),
    aten.special_i1.default: _bessel(1, False),
    aten.special_modified_bessel_i1.default: _bessel(1, False),
    aten.special_i1e.default: _bessel(1, True),
}
