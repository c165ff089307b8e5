# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Factorizations and solvers of small matrices, unrolled over the columns in a fixed order.

Matrices have shape [*, n, n]; each iteration operates on whole rows or columns of all matrices in the batch. Where
PyTorch raises an error because a matrix is singular, the results are infinite or NaN.
"""

from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError

aten = torch.ops.aten

_LIMIT = 64


def count_steps(matrix: torch.Tensor) -> int:
    """Returns the number of iterations to unroll; raises CaptureError if it is greater than the limit."""
    count = min(matrix.shape[-2:])
    if count > _LIMIT:
        raise CaptureError(
            f"linear algebra is unrolled: expected matrices of at most {_LIMIT} rows or columns, got {count}"
        )
    return count


def _no_errors(matrix: torch.Tensor) -> torch.Tensor:
    return torch.zeros(matrix.shape[:-2], dtype=torch.int32)


def _identity(matrix: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(matrix.shape[-2])
    eye = (rows.unsqueeze(1) == rows).to(matrix.dtype)
    return eye.expand(*matrix.shape[:-2], -1, -1)


# --- Triangular systems and Cholesky ---


def _substitute(a: torch.Tensor, b: torch.Tensor, upper: bool, unit: bool) -> torch.Tensor:
    """Solves a x = b for triangular `a`, row by row."""
    count = count_steps(a)
    rows: list[torch.Tensor] = []
    order = range(count - 1, -1, -1) if upper else range(count)
    for position in order:
        row = b.select(-2, position)
        if not unit:
            row = row / a[..., position, position].unsqueeze(-1)
        rows.append(row)
        b = b - a.select(-1, position).unsqueeze(-1) * row.unsqueeze(-2)
    return torch.stack(rows[::-1] if upper else rows, -2) if rows else b.clone()


def _solve_triangular(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    if not left:
        return _solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _substitute(a, b.expand(*batch, *b.shape[-2:]), upper, unitriangular)


def _triangular_solve(
    b: torch.Tensor, a: torch.Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    matrix, is_upper = (a.mT, not upper) if transpose else (a, upper)
    return _solve_triangular(matrix, b, upper=is_upper, unitriangular=unitriangular), a.clone()


def _cholesky(a: torch.Tensor, upper: bool = False) -> torch.Tensor:
    if upper:
        return _cholesky(a.mT).mT
    rows = torch.arange(a.shape[-1])
    # Only the lower triangle is read.
    rest = torch.where(rows.unsqueeze(1) >= rows, a, a.mT)
    columns = []
    for position in range(count_steps(a)):
        pivot = torch.sqrt(rest[..., position, position]).unsqueeze(-1)
        column = torch.where(rows >= position, rest.select(-1, position) / pivot, torch.zeros([], dtype=a.dtype))
        columns.append(column)
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
    return torch.stack(columns, -1) if columns else a.clone()


def _cholesky_ex(
    a: torch.Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _cholesky(a, upper), _no_errors(a)


def _cholesky_solve(b: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    lower = factor.mT if upper else factor
    half = _solve_triangular(lower, b, upper=False)
    return _solve_triangular(lower.mT, half, upper=True)


def _cholesky_inverse(factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return _cholesky_solve(_identity(factor), factor, upper)


# --- LU ---


def _lu(a: torch.Tensor, pivot: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the packed factors and the pivots (i32, from 1) of Gaussian elimination; of equal candidates, the first
    is the pivot."""
    rows, columns = torch.arange(a.shape[-2]), torch.arange(a.shape[-1])
    pivots = []
    for position in range(count_steps(a)):
        if pivot:
            size = torch.where(rows >= position, a.select(-1, position).abs(), torch.full([], -1.0, dtype=a.dtype))
            chosen = size.argmax(-1, keepdim=True)
            a = _swap(a, position, chosen, rows)
        else:
            chosen = torch.full([*a.shape[:-2], 1], position, dtype=torch.int64)
        pivots.append(chosen + 1)
        column = a.select(-1, position)
        factor = torch.where(
            rows > position, column / a[..., position, position].unsqueeze(-1), torch.zeros([], dtype=a.dtype)
        )
        row = torch.where(columns > position, a.select(-2, position), torch.zeros([], dtype=a.dtype))
        below = (rows > position).unsqueeze(-1) & (columns == position)
        a = torch.where(below, factor.unsqueeze(-1), a - factor.unsqueeze(-1) * row.unsqueeze(-2))
    if not pivots:
        return a.clone(), torch.zeros([*a.shape[:-2], 0], dtype=torch.int32)
    return a, torch.cat(pivots, -1).to(torch.int32)


def _swap(a: torch.Tensor, first: int, second: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Exchanges row `first` with the row whose index is `second` (i64, [*, 1])."""
    order = torch.where(rows == first, second, torch.where(rows == second, torch.full([], first), rows))
    return a.gather(-2, order.unsqueeze(-1).expand(a.shape))


def _apply_pivots(b: torch.Tensor, pivots: torch.Tensor, reverse: bool = False) -> torch.Tensor:
    rows = torch.arange(b.shape[-2])
    order = range(pivots.shape[-1])
    for position in reversed(order) if reverse else order:
        b = _swap(b, position, pivots[..., position : position + 1].to(torch.int64) - 1, rows)
    return b


def _triangles(lu: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Splits packed factors [*, m, n] into unit lower [*, m, k] and upper [*, k, n], where k is min(m, n)."""
    count = min(lu.shape[-2:])
    rows, columns = torch.arange(lu.shape[-2]).unsqueeze(1), torch.arange(lu.shape[-1])
    zero, one = torch.zeros([], dtype=lu.dtype), torch.ones([], dtype=lu.dtype)
    lower = torch.where(rows > columns, lu, torch.where(rows == columns, one, zero))[..., :count]
    upper = torch.where(rows <= columns, lu, zero)[..., :count, :]
    return lower, upper


def _lu_factor_ex(
    a: torch.Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return *_lu(a, pivot), _no_errors(a)


def _lu_unpack(
    lu: torch.Tensor, pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lower, upper = _triangles(lu)
    eye = _identity(lu[..., :1].expand(*lu.shape[:-1], lu.shape[-2]))
    return _apply_pivots(eye, pivots, True) if unpack_pivots else eye, lower, upper


def _linalg_lu(a: torch.Tensor, *, pivot: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _lu_unpack(*_lu(a, pivot))


def _lu_solve(
    lu: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, *, left: bool = True, adjoint: bool = False
) -> torch.Tensor:
    if not left:
        return _lu_solve(lu, pivots, b.mT, adjoint=not adjoint).mT
    batch = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = b.expand(*batch, *b.shape[-2:])
    pivots = pivots.expand(*batch, pivots.shape[-1])
    if adjoint:
        half = _solve_triangular(lu.mT, b, upper=False)
        return _apply_pivots(_solve_triangular(lu.mT, half, upper=True, unitriangular=True), pivots, True)
    half = _solve_triangular(lu, _apply_pivots(b, pivots), upper=False, unitriangular=True)
    return _solve_triangular(lu, half, upper=True)


def _solve_ex(
    a: torch.Tensor, b: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    lu, pivots = _lu(a)
    result = _lu_solve(lu, pivots, b.unsqueeze(-1) if is_vector else b, left=left)
    return result.squeeze(-1) if is_vector else result, lu, pivots, _no_errors(a)


def _inverse_ex(a: torch.Tensor, *, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return _solve_ex(a, _identity(a))[0], _no_errors(a)


# --- QR ---


def _qr(a: torch.Tensor, mode: str = "reduced") -> tuple[torch.Tensor, torch.Tensor]:
    """Computes Q and R with Householder reflections; the elements have the signs that LAPACK computes."""
    rows, columns = a.shape[-2:]
    count = count_steps(a)
    index = torch.arange(rows)
    zero, one = torch.zeros([], dtype=a.dtype), torch.ones([], dtype=a.dtype)
    q = _identity(a[..., :1].expand(*a.shape[:-1], rows))
    for position in range(min(count, rows - 1)):
        column = torch.where(index >= position, a.select(-1, position), zero)
        head = column.select(-1, position)
        below = torch.where(index > position, column, zero)
        rest = (below * below).sum(-1)
        norm = torch.sqrt(head * head + rest)
        beta = torch.where(head >= 0, -norm, norm)
        # A column that is zero below the diagonal needs no reflection: tau is 0.
        still = rest == 0
        tau = torch.where(still, zero, (beta - head) / beta).unsqueeze(-1).unsqueeze(-1)
        scale = torch.where(still, one, head - beta).unsqueeze(-1)
        vector = torch.where(index == position, one, below / scale).unsqueeze(-1)
        a = a - tau * (vector * (vector * a).sum(-2, keepdim=True))
        q = q - tau * ((q * vector.mT).sum(-1, keepdim=True) * vector.mT)
    r = torch.where(index.unsqueeze(1) <= torch.arange(columns), a, zero)
    if mode == "complete":
        return q, r
    if mode == "r":
        return a.new_zeros([0]), r[..., :count, :]
    return q[..., :count], r[..., :count, :]


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten.triangular_solve.default: _triangular_solve,
    aten.linalg_cholesky_ex.default: _cholesky_ex,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.linalg_lu_factor_ex.default: _lu_factor_ex,
    aten.lu_unpack.default: _lu_unpack,
    aten.linalg_lu.default: _linalg_lu,
    aten.linalg_lu_solve.default: _lu_solve,
    aten._linalg_solve_ex.default: _solve_ex,
    aten.linalg_inv_ex.default: _inverse_ex,
    aten.linalg_qr.default: _qr,
}
if hasattr(aten, "cholesky"):
    # PyTorch 2.14 removed torch.cholesky.
    DECOMPOSITIONS[aten.cholesky.default] = _cholesky
