# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Householder reflections in LAPACK's packed format: the vectors lie below the diagonal, their elements on the diagonal
are implicitly 1, and a separate tensor contains the factors tau."""

from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.torch.operators.linear_algebra import count_steps

aten = torch.ops.aten


def _geqrf(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a matrix that contains R and, below its diagonal, the vectors; and tau."""
    rows = a.shape[-2]
    index = torch.arange(rows)
    zero, one = torch.zeros([], dtype=a.dtype), torch.ones([], dtype=a.dtype)
    factors = []
    for position in range(count_steps(a)):
        below = torch.where(index > position, a.select(-1, position), zero)
        head = a.select(-1, position).select(-1, position)
        rest = (below * below).sum(-1)
        norm = torch.sqrt(head * head + rest)
        beta = torch.where(head >= 0, -norm, norm)
        # A column that is zero below the diagonal needs no reflection: tau is 0.
        still = rest == 0
        tau = torch.where(still, zero, (beta - head) / beta)
        scale = torch.where(still, one, head - beta).unsqueeze(-1)
        below = below / scale
        vector = torch.where(index == position, one, below).unsqueeze(-1)
        wide = tau.unsqueeze(-1).unsqueeze(-1)
        reflected = a - wide * (vector * (vector * a).sum(-2, keepdim=True))
        column = torch.arange(a.shape[-1]) == position
        under = (index > position).unsqueeze(-1) & column
        behind = torch.arange(a.shape[-1]) >= position
        a = torch.where(under, below.unsqueeze(-1), torch.where(behind, reflected, a))
        factors.append(tau)
    if not factors:
        return a.clone(), torch.zeros([*a.shape[:-2], 0], dtype=a.dtype)
    return a, torch.stack(factors, -1)


def _vector(a: torch.Tensor, position: int) -> torch.Tensor:
    index = torch.arange(a.shape[-2])
    zero, one = torch.zeros([], dtype=a.dtype), torch.ones([], dtype=a.dtype)
    column = torch.where(index > position, a.select(-1, position), zero)
    return torch.where(index == position, one, column).unsqueeze(-1)


def _reflect(vector: torch.Tensor, tau: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns (1 - tau v v^T) b."""
    return b - tau.unsqueeze(-1).unsqueeze(-1) * (vector * (vector * b).sum(-2, keepdim=True))


def _product(a: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """Returns the first n columns of the product of all reflections, where n is the number of columns of `a`. The
    reflections are applied from the last one to the first."""
    count_steps(a)
    rows, columns = torch.arange(a.shape[-2]), torch.arange(a.shape[-1])
    q = (rows.unsqueeze(1) == columns).to(a.dtype).expand(a.shape)
    for position in reversed(range(tau.shape[-1])):
        q = _reflect(_vector(a, position), tau.select(-1, position), q)
    return q.clone()


def _multiply(
    a: torch.Tensor, tau: torch.Tensor, b: torch.Tensor, left: bool = True, transpose: bool = False
) -> torch.Tensor:
    """Multiplies b by the product of all reflections, from the `left` or the right; `transpose` transposes the
    product."""
    if not left:
        return _multiply(a, tau, b.mT, True, not transpose).mT.clone()
    count_steps(a)
    numbers = range(tau.shape[-1])
    for position in numbers if transpose else reversed(numbers):
        b = _reflect(_vector(a, position), tau.select(-1, position), b)
    return b.clone()


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.geqrf.default: _geqrf,
    aten.linalg_householder_product.default: _product,
    aten.ormqr.default: _multiply,
}
