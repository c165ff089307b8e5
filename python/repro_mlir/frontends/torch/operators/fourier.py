# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Discrete Fourier transforms (Z2) as products with tables of correctly rounded sines and cosines, in a fixed order."""

import functools
import math
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import torch

from repro_mlir.frontends.torch.base.errors import CaptureError

_DIRECT = 32
"""The greatest number of elements that one matrix product transforms, unless the number is a prime."""
_LARGEST_PRIME = 1024
"""The greatest supported prime factor of a number of elements: the table for a prime n has n^2 elements."""

# A private context, so that results do not depend on the caller's decimal settings.
_CONTEXT = Context(prec=50)
_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606965068423")


def _series(angle: Decimal, first: int) -> Decimal:
    """Returns the cosine (`first` 0) or sine (`first` 1) of an angle of at most pi/4, to 45 digits."""
    term = total = angle if first else Decimal(1)
    square, n = _CONTEXT.multiply(angle, angle), first
    while _CONTEXT.abs(term) > Decimal("1e-48"):
        n += 2
        term = _CONTEXT.divide(_CONTEXT.multiply(term, _CONTEXT.minus(square)), Decimal(n * (n - 1)))
        total = _CONTEXT.add(total, term)
    return total


@functools.cache
def _turned(k: int, n: int) -> tuple[float, float]:
    """Returns the cosine and sine of 2 pi k / n for 0 <= k < n, rounded to f64.

    Exact values of equal magnitude are rounded to equal magnitudes.
    """
    if 2 * k > n:
        cosine, sine = _turned(n - k, n)
        return cosine, 0.0 - sine
    if 4 * k > n:
        # Reflect the angle: pi - 2 pi k / n is 2 pi (n - 2 k) / (2 n).
        cosine, sine = _turned(n - 2 * k, 2 * n)
        return 0.0 - cosine, sine
    if 8 * k > n:
        cosine, sine = _turned(n - 4 * k, 4 * n)
        return sine, cosine
    angle = _CONTEXT.divide(_CONTEXT.multiply(_TWO_PI, Decimal(k)), Decimal(n))
    return float(_series(angle, 0)), float(_series(angle, 1))


@functools.cache
def _table(rows: int, columns: int, n: int, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the real and imaginary parts, in f64, of e^(-2 pi i j k / n) for row j and column k.

    `inverse` omits the minus sign.
    """
    cosines, sines = np.empty([rows, columns]), np.empty([rows, columns])
    for j in range(rows):
        for k in range(columns):
            cosines[j, k], sines[j, k] = _turned(j * k % n, n)
    return cosines, sines if inverse else 0.0 - sines


def _constant(values: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    # The tensor becomes a constant of the graph; `torch.tensor` would record operators that torch-mlir cannot lower.
    return torch.from_numpy(np.array(values, np.float64 if dtype is torch.float64 else np.float32)).clone()


Parts = tuple[torch.Tensor, torch.Tensor | None]
"""The real and imaginary parts; an imaginary part of None is zero."""


def _products(
    x: Parts, table: tuple[torch.Tensor, torch.Tensor], multiply: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies x by the table with `multiply`; each real product, sum and difference is rounded separately."""
    assert callable(multiply)
    (re, im), (cosine, sine) = x, table
    if im is None:
        return multiply(re, cosine), multiply(re, sine)
    return multiply(re, cosine) - multiply(im, sine), multiply(re, sine) + multiply(im, cosine)


def _factor(n: int) -> int:
    """Returns the largest divisor of n that is at most the square root of n."""
    return next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)


def _last(x: Parts, inverse: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the Fourier transform of x along the last dimension; the inverse transform if `inverse`."""
    re, im = x
    n, dtype = re.shape[-1], re.dtype
    if isinstance(n, torch.SymInt):
        raise CaptureError("a Fourier transform of a dynamic size is not supported: its order depends on the size")
    few = _factor(n)
    if n <= _DIRECT or few == 1:
        if n > _LARGEST_PRIME:
            raise CaptureError(
                f"a Fourier transform of {n} elements: expected a number without prime factors above {_LARGEST_PRIME}"
            )
        table = tuple(_constant(each, dtype) for each in _table(n, n, n, inverse))
        return _products(x, (table[0], table[1]), torch.matmul)
    # (Z2) The input index is many * j1 + j2, the output index few * k2 + k1.
    many = n // few
    lead = re.shape[:-1]

    def by_columns(part: torch.Tensor | None) -> torch.Tensor | None:
        return None if part is None else part.reshape(*lead, few, many).transpose(-1, -2)

    columns = by_columns(re)
    assert columns is not None
    inner = _last((columns, by_columns(im)), inverse)
    turns = tuple(_constant(each, dtype) for each in _table(many, few, n, inverse))
    rows = _products(inner, (turns[0], turns[1]), torch.mul)
    found = _last((rows[0].transpose(-1, -2), rows[1].transpose(-1, -2)), inverse)
    return found[0].transpose(-1, -2).reshape(re.shape), found[1].transpose(-1, -2).reshape(re.shape)


def _along(x: Parts, dim: int, inverse: bool) -> tuple[torch.Tensor, torch.Tensor]:
    re, im = x
    found = _last((re.movedim(dim, -1), None if im is None else im.movedim(dim, -1)), inverse)
    return found[0].movedim(-1, dim), found[1].movedim(-1, dim)


def _scaled(x: torch.Tensor, normalization: int, count: int) -> torch.Tensor:
    """Multiplies x by 1 (normalization 0), 1 / sqrt(count) (1) or 1 / count (2), rounded to the type of x."""
    if normalization == 0:
        return x
    # Compute the factor in f64, where every machine rounds square root and division alike.
    factor = 1.0 / math.sqrt(count) if normalization == 1 else 1.0 / count
    return x * torch.full([], factor, dtype=x.dtype)


def complex_to_complex(
    re: torch.Tensor, im: torch.Tensor, dims: Sequence[int], normalization: int, forward: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `aten._fft_c2c` on real and imaginary parts, from the last dimension in `dims` to the first."""
    x = re, im
    for dim in reversed(dims):
        x = _along(x, dim, not forward)
    count = math.prod(re.shape[dim] for dim in dims)
    return _scaled(x[0], normalization, count), _scaled(x[1], normalization, count)


def real_to_complex(
    x: torch.Tensor, dims: Sequence[int], normalization: int, onesided: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `aten._fft_r2c`: the transform along the last dimension in `dims` reads real elements."""
    count = math.prod(x.shape[dim] for dim in dims)
    re, im = _along((x, None), dims[-1], False)
    if onesided:
        half = x.shape[dims[-1]] // 2 + 1
        re, im = re.narrow(dims[-1], 0, half), im.narrow(dims[-1], 0, half)
    if dims[1:]:
        re, im = complex_to_complex(re, im, dims[:-1], 0, True)
    return _scaled(re, normalization, count), _scaled(im, normalization, count)


def complex_to_real(
    re: torch.Tensor, im: torch.Tensor, dims: Sequence[int], normalization: int, last: int
) -> torch.Tensor:
    """Computes `aten._fft_c2r`: the result has `last` real elements along the last dimension in `dims`."""
    if dims[1:]:
        re, im = complex_to_complex(re, im, dims[:-1], 0, False)
    dim = dims[-1]
    half = last // 2 + 1
    re, im = re.narrow(dim, 0, half), im.narrow(dim, 0, half)
    # The imaginary parts of the first element and, if `last` is even, of the middle element are ignored.
    zero = torch.zeros_like(im.narrow(dim, 0, 1))
    inner = im.narrow(dim, 1, half - 1) if last % 2 else torch.cat([im.narrow(dim, 1, half - 2), zero], dim)
    if last == 1:
        im = zero
    else:
        im = torch.cat([zero, inner], dim)
    rest = last - half
    if rest:
        re = torch.cat([re, re.narrow(dim, 1, rest).flip(dim)], dim)
        im = torch.cat([im, -im.narrow(dim, 1, rest).flip(dim)], dim)
    found, _ = _along((re, im), dim, True)
    return _scaled(found, normalization, last * math.prod(re.shape[d] for d in dims[:-1]))
