# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Running maxima, minima and products along a dimension: each round doubles the number of elements in each result."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _running_extreme(x: torch.Tensor, dim: int, greater: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the values and indices of a running maximum or minimum; NaN wins, and among equal elements the last one
    wins.

    The winner does not depend on the order in which elements are combined, so it equals that of a sequential scan (D3).
    """
    dim %= x.dim()
    extent = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = extent
    values, indices = x, torch.arange(extent).reshape(shape).expand(x.shape)
    reach = 1
    while reach < extent:
        rest = extent - reach
        old, new = values.narrow(dim, 0, rest), values.narrow(dim, reach, rest)
        wins = torch.isnan(new) | ((new >= old) if greater else (new <= old))
        chosen = torch.where(wins, indices.narrow(dim, reach, rest), indices.narrow(dim, 0, rest))
        values = torch.cat([values.narrow(dim, 0, reach), torch.where(wins, new, old)], dim)
        indices = torch.cat([indices.narrow(dim, 0, reach), chosen], dim)
        reach *= 2
    return values.clone(), indices.clone()


def _cummax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running_extreme(x, dim, True)


def _cummin(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running_extreme(x, dim, False)


def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Returns the running product (D4)."""
    if dtype is None:
        dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    x = x.to(dtype)
    reach = 1
    while reach < x.shape[dim]:
        rest = x.shape[dim] - reach
        joined = x.narrow(dim, 0, rest) * x.narrow(dim, reach, rest)
        x = torch.cat([x.narrow(dim, 0, reach), joined], dim)
        reach *= 2
    return x.clone()


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.cummax.default: _cummax,
    aten.cummin.default: _cummin,
    aten.cumprod.default: _cumprod,
}
