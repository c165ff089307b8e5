# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Arithmetic and functions of complex numbers (Z1) as sequences of operations on real and imaginary parts."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Pair:
    """A complex tensor: its real and imaginary parts."""

    re: torch.Tensor
    im: torch.Tensor

    def map(self, function: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> "Pair":
        """Applies a function to each part and returns the results as a pair."""
        return Pair(function(self.re, *args, **kwargs), function(self.im, *args, **kwargs))


def lifted(x: Any) -> Pair:
    """Returns a real tensor as a pair with the imaginary part 0; returns a pair unchanged."""
    return x if isinstance(x, Pair) else Pair(x, torch.zeros_like(x))


def lifted_number(x: Any) -> tuple[Any, Any]:
    """Returns the real and imaginary parts of a number or tensor; the imaginary part of a real operand is 0."""
    if isinstance(x, Pair):
        return x.re, x.im
    if isinstance(x, complex):
        return x.real, x.imag
    return x, torch.zeros_like(x) if isinstance(x, torch.Tensor) else 0.0


def _parts(x: Any) -> tuple[Any, Any]:
    """Returns the real and imaginary parts; the imaginary part of a real operand is None."""
    if isinstance(x, Pair):
        return x.re, x.im
    if isinstance(x, complex):
        return x.real, x.imag
    return x, None


def _like(x: Any, y: Any) -> tuple[Any, Any]:
    """Converts both operands, at least one of which is complex, so that their parts have the same element type."""
    kinds = [value.re.dtype for value in (x, y) if isinstance(value, Pair)]
    if not kinds:
        kinds = [torch.promote_types(v.dtype, torch.get_default_dtype()) for v in (x, y) if isinstance(v, torch.Tensor)]
    kind = functools.reduce(torch.promote_types, kinds)

    def convert(value: Any) -> Any:
        if isinstance(value, Pair):
            return value.map(lambda part: part.to(kind))
        return value.to(kind) if isinstance(value, torch.Tensor) else value

    return convert(x), convert(y)


# --- Arithmetic ---


def _sum(x: Any, y: Any, sign: int) -> Pair:
    x, y = _like(x, y)
    (a, b), (c, d) = _parts(x), _parts(y)
    re = a + c if sign > 0 else a - c
    if d is None:
        im = b
    elif b is None:
        im = d if sign > 0 else -d
    else:
        im = b + d if sign > 0 else b - d
    # Broadcast both parts to the shape of the result.
    shape = re.shape if isinstance(im, float | int) else torch.broadcast_shapes(re.shape, im.shape)
    if isinstance(im, float | int):
        im = torch.full_like(re, im)
    return Pair(re.expand(shape).clone(), im.expand(shape).clone())


def _add(x: Any, y: Any, *, alpha: Any = 1) -> Pair:
    return _sum(x, y if alpha == 1 else _mul(y, alpha), 1)


def _sub(x: Any, y: Any, *, alpha: Any = 1) -> Pair:
    return _sum(x, y if alpha == 1 else _mul(y, alpha), -1)


def _mul(x: Any, y: Any) -> Any:
    x, y = _like(x, y)
    (a, b), (c, d) = _parts(x), _parts(y)
    if b is None and d is None:
        return a * c
    if d is None:
        return Pair(a * c, b * c)
    if b is None:
        return Pair(a * c, a * d)
    return Pair(a * c - b * d, a * d + b * c)


def _div(x: Any, y: Any) -> Pair:
    x, y = _like(x, y)
    (a, b), (c, d) = _parts(x), _parts(y)
    if d is None:
        return Pair(a / c, b / c)
    c, d = (
        part if isinstance(part, torch.Tensor) else torch.full([], part, dtype=lifted(x).re.dtype) for part in (c, d)
    )
    b = torch.zeros([], dtype=c.dtype) if b is None else b
    # Smith's method: divide by the part of greater magnitude, so that no square overflows.
    real_is_greater = c.abs() >= d.abs()
    great, small = torch.where(real_is_greater, c, d), torch.where(real_is_greater, d, c)
    ratio = small / great
    # A zero divisor gives infinite or NaN quotients: the parts are divided by its magnitude, +0.
    zero = (c == 0) & (d == 0)
    ratio = torch.where(zero, torch.zeros_like(ratio), ratio)
    scale = torch.where(zero, great.abs(), great + small * ratio)
    re = torch.where(real_is_greater, a + b * ratio, a * ratio + b) / scale
    im = torch.where(real_is_greater, b - a * ratio, b * ratio - a) / scale
    return Pair(re, im)


def _reciprocal(x: Pair) -> Pair:
    return _div(torch.ones_like(x.re), x)


def _pow_number(x: Any, exponent: Any) -> Any:
    if not isinstance(exponent, complex) and exponent == int(exponent) and abs(exponent) <= 64:
        # Repeated squaring, from the lowest bit of the exponent.
        result, square, rest = None, x, abs(int(exponent))
        while rest:
            if rest & 1:
                result = square if result is None else _mul(result, square)
            square, rest = (_mul(square, square) if rest > 1 else square), rest >> 1
        if result is None:
            return Pair(torch.ones_like(x.re), torch.zeros_like(x.im))
        return _reciprocal(result) if exponent < 0 else result
    if exponent == 0.5:
        return _sqrt(x)
    if exponent == -0.5:
        return _reciprocal(_sqrt(x))
    return NotImplemented


def _pow(x: Any, y: Any) -> Any:
    if isinstance(x, Pair) and isinstance(y, bool | int | float | complex):
        found = _pow_number(x, y)
        if found is not NotImplemented:
            return found
    kind = next(v.re.dtype if isinstance(v, Pair) else v.dtype for v in (x, y) if isinstance(v, Pair | torch.Tensor))
    base = _tensor(x, kind)
    exponent = _tensor(y, kind)
    result = _exp(_mul(exponent, _log(base)))
    # 0 to the power of 0 is 1; 0 to any other power is 0.
    none, flat = (base.re == 0) & (base.im == 0), (exponent.re == 0) & (exponent.im == 0)
    zero = torch.zeros([], dtype=result.re.dtype)
    re = torch.where(none, torch.where(flat, torch.ones_like(zero), zero), result.re)
    return Pair(re, torch.where(none, zero, result.im))


def _tensor(x: Any, kind: torch.dtype) -> Pair:
    if isinstance(x, Pair):
        return x
    if isinstance(x, torch.Tensor):
        return lifted(x.to(kind))
    re, im = lifted_number(x)
    return Pair(torch.full([], re, dtype=kind), torch.full([], im, dtype=kind))


def _addcmul(x: Any, y: Any, z: Any, *, value: Any = 1) -> Pair:
    return _sum(x, _mul(_mul(y, z), value), 1)


def _addcdiv(x: Any, y: Any, z: Any, *, value: Any = 1) -> Pair:
    return _sum(x, _mul(_div(y, z), value), 1)


# --- Parts ---


def _real(x: Any) -> torch.Tensor:
    return x.re.clone() if isinstance(x, Pair) else x


def _conjugate(x: Any) -> Any:
    if isinstance(x, Pair):
        return Pair(x.re, -x.im)
    # Autograd also conjugates Python numbers.
    return x.conjugate() if isinstance(x, complex) else x


def _complex(re: torch.Tensor, im: torch.Tensor) -> Pair:
    shape = torch.broadcast_shapes(re.shape, im.shape)
    return Pair(re.expand(shape).clone(), im.expand(shape).clone())


def _polar(length: torch.Tensor, angle: torch.Tensor) -> Pair:
    return Pair(length * torch.cos(angle), length * torch.sin(angle))


def _abs(x: Pair) -> torch.Tensor:
    return torch.hypot(x.re, x.im)


def _angle(x: Pair) -> torch.Tensor:
    return torch.atan2(x.im, x.re)


def _sgn(x: Pair) -> Pair:
    length = _abs(x)
    zero = length == 0
    length = torch.where(zero, torch.ones_like(length), length)
    return Pair(x.re / length, x.im / length)


# --- Comparison ---


def _equal(x: Any, y: Any) -> torch.Tensor:
    x, y = _like(x, y)
    (a, b), (c, d) = lifted_number(x), lifted_number(y)
    return (a == c) & (b == d)


def _truth(x: Any) -> torch.Tensor:
    return (x.re != 0) | (x.im != 0) if isinstance(x, Pair) else x != 0


def _of_truth(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def call(*operands: Any, **kwargs: Any) -> torch.Tensor:
        tensors = [_truth(x) if isinstance(x, Pair | torch.Tensor) else x for x in operands]
        return operator(*tensors, **kwargs)

    return call


# --- Functions ---


def _is_endless(x: torch.Tensor) -> torch.Tensor:
    """Returns a mask of the elements that are infinite or NaN."""
    return torch.logical_not(torch.isfinite(x))


def _number(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.full([], value, dtype=x.dtype)


def _exp(x: Pair) -> Pair:
    found = _polar(torch.exp(x.re), x.im)
    # C99 Annex G defines the results for an infinite real part with an infinite or NaN angle, and for real numbers.
    magnitude = torch.where(x.re < 0, _number(x.re, 0.0), _number(x.re, math.inf))
    unknown = torch.isinf(x.re) & _is_endless(x.im)
    im = torch.where(x.im == 0, x.im, found.im)
    return Pair(torch.where(unknown, magnitude, found.re), torch.where(unknown & (x.re < 0), magnitude, im))


def _exp2(x: Pair) -> Pair:
    return _exp(x.map(torch.mul, math.log(2)))


def _expm1(x: Pair) -> Pair:
    # exp(a) cos(b) - 1 = expm1(a) cos(b) - 2 sin(b/2)^2
    half = torch.sin(x.im * 0.5)
    re = torch.expm1(x.re) * torch.cos(x.im) - 2 * half * half
    return Pair(re, torch.exp(x.re) * torch.sin(x.im))


def _log(x: Pair) -> Pair:
    return Pair(torch.log(_abs(x)), _angle(x))


def _log_of(base: float) -> Callable[[Pair], Pair]:
    def logarithm(x: Pair) -> Pair:
        function = torch.log2 if base == 2 else torch.log10
        return Pair(function(_abs(x)), _angle(x) / math.log(base))

    return logarithm


def _log1p(x: Pair) -> Pair:
    # |1 + z|^2 - 1 = a (2 + a) + b^2
    re = 0.5 * torch.log1p(x.re * (2 + x.re) + x.im * x.im)
    far = _log(Pair(1 + x.re, x.im))
    return Pair(torch.where(torch.maximum(x.re.abs(), x.im.abs()) < 0.5, re, far.re), far.im)


def _sqrt(x: Pair) -> Pair:
    length = _abs(x)
    # The greater part is a square root. The other part is computed by a division, because a subtraction would cancel.
    great = torch.sqrt((length + x.re.abs()) * 0.5)
    small = torch.where(great == 0, torch.zeros_like(great), x.im.abs() / (2 * great))
    right = x.re >= 0
    re, im = torch.where(right, great, small), torch.where(right, small, great)
    # C99 Annex G: an infinite imaginary part gives an infinite result, whatever the real part is.
    infinite, most = torch.isinf(x.im), _number(x.im, math.inf)
    re, im = torch.where(infinite, most, re), torch.where(infinite, most, im)
    return Pair(re, torch.copysign(im, x.im))


def _sinh(x: Pair) -> Pair:
    endless = _is_endless(x.im)
    re, im = torch.sinh(x.re) * torch.cos(x.im), torch.cosh(x.re) * torch.sin(x.im)
    # C99 Annex G defines the result for an infinite real part with an infinite or NaN angle. A zero part stays zero,
    # whatever the other part is.
    re = torch.where(endless & torch.isinf(x.re), _number(re, math.inf), re)
    return Pair(torch.where(endless & (x.re == 0), x.re, re), torch.where(x.im == 0, x.im, im))


def _cosh(x: Pair) -> Pair:
    endless = _is_endless(x.im)
    re, im = torch.cosh(x.re) * torch.cos(x.im), torch.sinh(x.re) * torch.sin(x.im)
    re = torch.where(endless & torch.isinf(x.re), _number(re, math.inf), re)
    flat = (x.im == 0) & torch.isnan(im)
    im = torch.where(endless & (x.re == 0), _number(im, 0.0), im)
    return Pair(re, torch.where(flat, torch.where(x.re < 0, -x.im, x.im), im))


def _sin(x: Pair) -> Pair:
    found = _by_turn(_sinh)(x)
    # For an infinite imaginary part and an infinite or NaN angle, C99 leaves the sign of the infinite result open; use
    # PyTorch's sign.
    unknown = torch.isinf(x.im) & _is_endless(x.re)
    return Pair(found.re, torch.where(unknown, _number(found.im, math.inf), found.im))


def _tanh(x: Pair) -> Pair:
    # With t = tanh(a) and u = 1 / cosh(a)^2, tanh(a + ib) is (t + i u sin(b) cos(b)) / (t^2 + u cos(b)^2). No term
    # overflows.
    t, sine, cosine = torch.tanh(x.re), torch.sin(x.im), torch.cos(x.im)
    near = torch.minimum(x.re.abs(), torch.full_like(x.re, 40.0))
    inverse = 1 / torch.cosh(near)
    u = inverse * inverse
    scale = t * t + u * cosine * cosine
    re, im = t / scale, u * sine * cosine / scale
    # C99 Annex G defines the limit for an infinite or NaN angle. A zero part stays zero, whatever the other part is.
    endless = _is_endless(x.im)
    limit = endless & torch.isinf(x.re)
    re = torch.where(limit, t, torch.where(endless & (x.re == 0), x.re, re))
    im = torch.where(limit, _number(im, 0.0), torch.where((x.im == 0) & torch.isnan(x.re), x.im, im))
    return Pair(re, im)


def _by_turn(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """Returns the function f(z) = -i g(i z), where g is `function`."""

    def call(x: Pair) -> Pair:
        found = function(Pair(-x.im, x.re))
        return Pair(found.im, -found.re)

    return call


def _is_far(x: Pair) -> torch.Tensor:
    """Returns a mask of elements that are infinite, or so large that x^2 + 1 rounds to x^2 and may overflow."""
    most = torch.finfo(x.re.dtype).max ** 0.5 / 4
    return torch.isinf(x.re) | torch.isinf(x.im) | (torch.maximum(x.re.abs(), x.im.abs()) > most)


def _log_of_double(x: Pair) -> Pair:
    """Returns log(2 x), without an overflow of 2 x."""
    found = _log(x)
    return Pair(found.re + math.log(2), found.im)


def _asinh(x: Pair) -> Pair:
    # asinh is odd: compute log(z + sqrt(z^2 + 1)) for the z = x or -x whose real part is not negative.
    sign = torch.where(x.re < 0, torch.full_like(x.re, -1.0), torch.ones_like(x.re))
    z = Pair(x.re * sign, x.im * sign)
    square = Pair((z.re - z.im) * (z.re + z.im) + 1, 2 * z.re * z.im)
    near = _log(_sum(z, _sqrt(square), 1))
    # asinh commutes with conjugation, so the signs of both parts can be restored separately.
    far, beyond = _log_of_double(x.map(torch.abs)), _is_far(x)
    re = torch.where(beyond, torch.copysign(far.re, x.re), near.re * sign)
    im = torch.where(beyond, torch.copysign(far.im, x.im), near.im * sign)
    return Pair(re, torch.where((x.im == 0) & torch.isnan(x.re), x.im, im))


def _acosh(x: Pair) -> Pair:
    # log(z + sqrt(z + 1) sqrt(z - 1))
    root = _mul(_sqrt(Pair(x.re + 1, x.im)), _sqrt(Pair(x.re - 1, x.im)))
    near, far, beyond = _log(_sum(x, root, 1)), _log_of_double(x), _is_far(x)
    im = torch.where(beyond, far.im, near.im)
    # C99 Annex G: a zero real part with a NaN imaginary part gives the imaginary part pi / 2.
    upright = (x.re == 0) & torch.isnan(x.im)
    return Pair(torch.where(beyond, far.re, near.re), torch.where(upright, _number(im, math.pi / 2), im))


def _atanh(x: Pair) -> Pair:
    a, b = x.re, x.im
    below, square = (1 - a) * (1 - a) + b * b, b * b
    re = 0.25 * torch.log1p(4 * a / below)
    im = 0.5 * torch.atan2(2 * b, (1 - a) * (1 + a) - square)
    # For a = 1 or -1 and a tiny b, b^2 underflows to 0, but log(|b|) is finite.
    near = (a.abs() == 1) & (b != 0) & (b.abs() < torch.finfo(b.dtype).tiny ** 0.5)
    re = torch.where(near, torch.copysign(0.5 * (math.log(2) - torch.log(b.abs())), a), re)
    beyond = _is_far(x)
    re = torch.where(beyond | ((a == 0) & torch.isnan(b)), torch.copysign(_number(a, 0.0), a), re)
    quarter = torch.copysign(_number(b, math.pi / 2), b)
    return Pair(re, torch.where(beyond, torch.where(torch.isnan(b), b, quarter), im))


def _acos(x: Pair) -> Pair:
    found = _by_turn(_asinh)(x)
    return Pair(math.pi / 2 - found.re, -found.im)


def _sigmoid(x: Pair) -> Pair:
    grown = _exp(x.map(torch.neg))
    return _reciprocal(Pair(1 + grown.re, grown.im))


def _sinc(x: Pair) -> Pair:
    scaled = x.map(torch.mul, math.pi)
    zero = (x.re == 0) & (x.im == 0)
    found = _div(_sin(scaled), scaled)
    return Pair(torch.where(zero, torch.ones_like(x.re), found.re), torch.where(zero, torch.zeros_like(x.im), found.im))


def _rsqrt(x: Pair) -> Pair:
    return _reciprocal(_sqrt(x))


def _tanh_backward(gradient: Any, result: Pair) -> Pair:
    return _mul(gradient, _conjugate(_sum(1.0, _mul(result, result), -1)))


def _sigmoid_backward(gradient: Any, result: Pair) -> Pair:
    return _mul(gradient, _conjugate(_mul(_sum(1.0, result, -1), result)))


# --- Sums of products ---


def _product(operator: Callable[..., torch.Tensor], x: Any, y: Any) -> Pair:
    x, y = _like(x, y)
    (a, b), (c, d) = _parts(x), _parts(y)
    if d is None:
        return Pair(operator(a, c), operator(b, c))
    if b is None:
        return Pair(operator(a, c), operator(a, d))
    return Pair(operator(a, c) - operator(b, d), operator(a, d) + operator(b, c))


def _bilinear(operator: Callable[..., torch.Tensor]) -> Callable[..., Pair]:
    return lambda x, y: _product(operator, x, y)


def _with_addend(operator: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def call(x: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        found: Any = _product(operator, first, second)
        found = found if alpha == 1 else _mul(found, alpha)
        if beta == 0:
            return found
        return _sum(x if beta == 1 else _mul(x, beta), found, 1)

    return call


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, out: Any, groups: int
) -> Pair:
    def convolve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution.default(a, b, None, stride, padding, dilation, transposed, out, groups)

    found = _product(convolve, x, weight)
    if bias is None:
        return found
    shape = [-1, *[1] * (found.re.dim() - 2)]
    re, im = lifted_number(bias)
    return _sum(found, Pair(re.reshape(shape), im.reshape(shape)), 1)


def _prod(x: Pair, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Pair:
    """Multiplies element i by element i + h until one is left, h being the greatest power of two below the extent."""
    axis = 0 if dim is None else dim
    if dim is None:
        x = x.map(torch.flatten)
    elif x.re.dim() == 0:
        return x
    count = x.re.shape[axis]
    if count == 0:
        one = x.re.sum(axis, keepdim) + 1
        return Pair(one, torch.zeros_like(one))
    while count > 1:
        half = 1 << (count - 1).bit_length() - 1
        low, high = x.map(torch.narrow, axis, 0, count - half), x.map(torch.narrow, axis, half, count - half)
        joined = _mul(low, high)
        rest = x.map(torch.narrow, axis, count - half, 2 * half - count)
        x = Pair(torch.cat([joined.re, rest.re], axis), torch.cat([joined.im, rest.im], axis))
        count = half
    return x if keepdim and dim is not None else x.map(torch.squeeze, axis)


def _cumprod(x: Pair, dim: int, *, dtype: Any = None) -> Pair:
    """Returns the running product (D4)."""
    reach = 1
    while x.re.dim() and reach < x.re.shape[dim]:
        rest = x.re.shape[dim] - reach
        joined = _mul(x.map(torch.narrow, dim, 0, rest), x.map(torch.narrow, dim, reach, rest))
        kept = x.map(torch.narrow, dim, 0, reach)
        x = Pair(torch.cat([kept.re, joined.re], dim), torch.cat([kept.im, joined.im], dim))
        reach *= 2
    return x


def _var(
    x: Pair, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    parts = x.map(torch.var, dim, correction=1 if correction is None else correction, keepdim=keepdim)
    return parts.re + parts.im


def _std(x: Pair, dim: Sequence[int] | None = None, **options: Any) -> torch.Tensor:
    return torch.sqrt(_var(x, dim, **options))


def _var_mean(x: Pair, dim: Sequence[int] | None = None, **options: Any) -> tuple[torch.Tensor, Pair]:
    axes = list(range(x.re.dim())) if dim is None else dim
    return _var(x, dim, **options), x.map(torch.mean, axes, keepdim=options.get("keepdim", False))


def _vector_norm(x: Pair, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> torch.Tensor:
    if ord == 2:
        axes = list(range(x.re.dim())) if dim is None else dim
        return torch.sqrt((x.re * x.re + x.im * x.im).sum(axes, keepdim))
    return torch.linalg.vector_norm(_abs(x), ord, dim, keepdim)


def _norm(x: Pair, p: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> torch.Tensor:
    return _vector_norm(x, 2 if p is None else p, dim, keepdim)


RULES: dict[str, Callable[..., Any]] = {
    "_conj": _conjugate,
    "_conj_physical": _conjugate,
    "_neg_view": lambda x: x.map(torch.neg),
    "abs": _abs,
    "acos": _acos,
    "acosh": _acosh,
    "add": _add,
    "addbmm": _with_addend(lambda x, y: torch.bmm(x, y).sum(0)),
    "addcdiv": _addcdiv,
    "addcmul": _addcmul,
    "addmm": _with_addend(torch.mm),
    "addmv": _with_addend(torch.mv),
    "addr": _with_addend(torch.outer),
    "all": _of_truth(torch.all),
    "angle": _angle,
    "any": _of_truth(torch.any),
    "asin": _by_turn(_asinh),
    "asinh": _asinh,
    "atan": _by_turn(_atanh),
    "atanh": _atanh,
    "baddbmm": _with_addend(torch.bmm),
    "bmm": _bilinear(torch.bmm),
    "complex": _complex,
    "conj_physical": _conjugate,
    "convolution": _convolution,
    "cos": lambda x: _cosh(Pair(-x.im, x.re)),
    "cosh": _cosh,
    "cumprod": _cumprod,
    "div": _div,
    "dot": _bilinear(torch.dot),
    "eq": _equal,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "imag": lambda x: x.im.clone(),
    "isfinite": lambda x: torch.isfinite(x.re) & torch.isfinite(x.im),
    "isinf": lambda x: torch.isinf(x.re) | torch.isinf(x.im),
    "isnan": lambda x: torch.isnan(x.re) | torch.isnan(x.im),
    "linalg_vector_norm": _vector_norm,
    "log": _log,
    "log10": _log_of(10),
    "log1p": _log1p,
    "log2": _log_of(2),
    "logical_and": _of_truth(torch.logical_and),
    "logical_not": _of_truth(torch.logical_not),
    "logical_or": _of_truth(torch.logical_or),
    "logical_xor": _of_truth(torch.logical_xor),
    "mm": _bilinear(torch.mm),
    "mul": _mul,
    "mv": _bilinear(torch.mv),
    "ne": lambda x, y: torch.logical_not(_equal(x, y)),
    "norm": _norm,
    "polar": _polar,
    "pow": _pow,
    "prod": _prod,
    "real": _real,
    "reciprocal": _reciprocal,
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
    "rsqrt": _rsqrt,
    "rsub": lambda x, y, alpha=1: _sub(y, x, alpha=alpha),
    "sgn": _sgn,
    "sigmoid": _sigmoid,
    "sigmoid_backward": _sigmoid_backward,
    "sin": _sin,
    "sinc": _sinc,
    "sinh": _sinh,
    "sqrt": _sqrt,
    "std": _std,
    "sub": _sub,
    "tan": _by_turn(_tanh),
    "tanh": _tanh,
    "tanh_backward": _tanh_backward,
    "var": _var,
    "var_mean": _var_mean,
    "vdot": lambda x, y: _product(torch.dot, _conjugate(x), y),
    "view_as_complex": lambda x: Pair(x.select(-1, 0), x.select(-1, 1)),
    "view_as_real": lambda x: torch.stack([x.re, x.im], -1),
}
"""The rules, keyed by the name of the ATen operator; complex operands are pairs, other tensors are real."""
