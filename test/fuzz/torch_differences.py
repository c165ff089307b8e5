# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The complete table of calls on which eager PyTorch and this package differ by more than rounding.

docs/contributors/debugging.md contains the table, too; test_torch_differences.py compares the two copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Difference:
    """A row of the table.

    Attributes:
      name: the name of the row, which outcomes of fuzzers mention.
      functions: the names of PyTorch's functions.
      condition: the arguments for which the results differ, in words.
      eager: the result of eager PyTorch.
      ours: the result of this package.
      reason: the reason for the difference.
      instead: computes the call as this package does, from PyTorch's function and its arguments; None if only the
        positions of NaN and infinities differ.
      applies: whether the arguments of a call satisfy the condition.
    """

    name: str
    functions: str
    condition: str
    eager: str
    ours: str
    reason: str
    instead: Callable[..., Any] | None
    applies: Callable[..., bool] = lambda *_, **__: True

    @property
    def is_of_gradients(self) -> bool:
        """Whether the row concerns gradients."""
        return self.condition.startswith("gradient")

    def row(self) -> str:
        """Returns the row as text of the table in docs/contributors/debugging.md."""
        functions = ", ".join(f"`{name}`" for name in self.functions.split())
        return f"| {self.name} | {functions} | {self.condition} | {self.eager} | {self.ours} | {self.reason} |"


class Instead(TorchFunctionMode):
    """Replaces each call to which a row of the table applies by what this package computes for the call.

    Attributes:
      met: the names of the rows that have applied to a call.
    """

    def __init__(self, rows: Sequence[Difference]) -> None:
        super().__init__()
        self._rows = rows
        self.met: set[str] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for row in self._rows:
            if getattr(function, "__name__", "") in row.functions.split() and row.applies(*args, **kwargs):
                self.met.add(row.name)
                if row.instead is not None:
                    return row.instead(function, *args, **kwargs)
        return function(*args, **kwargs)


# --- Substitutes ---


class _Replaced(torch.autograd.Function):
    """Returns `other` in the forward pass; the gradient flows to `value` as if `value` had been returned."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return other.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def _running_sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    """(D3) Returns a running sum in which each partial sum is rounded."""
    parts = x.unbind(dim) if x.dim() else ()
    return torch.stack([*accumulate(parts, torch.add)], dim) if parts else x


def _running_product(x: torch.Tensor, dim: int) -> torch.Tensor:
    """(D4) Returns a running product, computed in log2(extent) passes."""
    extent, step = x.shape[dim] if x.dim() else 1, 1
    while step < extent:
        both = x.narrow(dim, step, extent - step) * x.narrow(dim, 0, extent - step)
        x = torch.cat([x.narrow(dim, 0, step), both], dim)
        step *= 2
    return x


class _Product(torch.autograd.Function):
    """The product along dimension 0. The gradient of an element is computed as the product of the other elements, not
    by dividing the result by the element."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.prod(x, 0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        one = torch.ones_like(x[:1])
        before = _running_product(torch.cat([one, x[:-1]]), 0)
        after = _running_product(torch.cat([one, x[1:].flip(0)]), 0).flip(0)
        return gradient * (before * after)


def _product(function: Any, x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None or x.dim() == 0:
        return _Product.apply(x.flatten())
    found = _Product.apply(x.movedim(dim, 0))
    return found.unsqueeze(dim) if keepdim else found


def _spread(function: Any, x: torch.Tensor, dim: Any = None, *, correction: int = 1, keepdim: bool = False) -> Any:
    dims = [*range(x.dim())] if dim is None else [dim] if isinstance(dim, int) else [*dim]
    count = math.prod(x.shape[each] if x.dim() else 1 for each in dims)
    wide = x.float()
    away = wide - wide.sum(dims, keepdim=True) / count
    found = (away * away).sum(dims, keepdim=keepdim) / max(count - correction, 0)
    return (found.sqrt() if function.__name__ == "std" else found).to(x.dtype)


class _RunningProduct(torch.autograd.Function):
    """A running product whose partial products are rounded. Its gradient is PyTorch's, computed from these rounded
    products."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int) -> torch.Tensor:
        found = _running_product(x, dim).clone()
        ctx.save_for_backward(x, found)
        ctx.dim = dim
        return found

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, found = ctx.saved_tensors
        return torch.ops.aten.cumprod_backward(gradient, x, ctx.dim, found), None


def _running_value(function: Any, x: torch.Tensor, dim: int) -> Any:
    if function.__name__ == "cumprod":
        return _RunningProduct.apply(x, dim)
    return _Replaced.apply(function(x, dim), _running_sum(x.detach(), dim))


def _exact_sixth(function: Any, x: torch.Tensor, **_: Any) -> Any:
    return _Replaced.apply(torch.where((x > -3) & (x < 3), x / 6, 0), function(x.detach()))


def _sampled_in_f32(function: Any, x: torch.Tensor, grid: torch.Tensor, *given: Any, **options: Any) -> Any:
    return function(x.float(), grid.float(), *given, **options).to(x.dtype)


def _positions(function: Any, x: torch.Tensor, *given: Any, **options: Any) -> Any:
    values, places = function(x, *given, **options)
    # A window that contains only padding gets the position -1. For an image of ones, the maximum of such a window is
    # not 1.
    return values, places.where(function(torch.ones_like(x), *given, **options)[0] == 1, -1)


def _by_its_matrix(function: Any, x: torch.Tensor, *given: Any, **options: Any) -> Any:
    """Computes a linear function of images as a matrix product. Each row of the matrix is the result for an image with
    a single 1."""
    count = x.shape[-2] * x.shape[-1]
    units = torch.eye(count, dtype=x.dtype).reshape(1, count, *x.shape[-2:])
    return (x.flatten(-2) @ function(units, *given, **options).reshape(count, -1)).reshape(x.shape)


def _keeps_its_size(x: torch.Tensor, size: Any, scale_factor: Any, mode: str, *_: Any, **__: Any) -> bool:
    return mode == "bicubic" and size is None and F.interpolate(x, scale_factor=scale_factor).shape == x.shape


def _first_of_ties(function: Any, x: torch.Tensor, k: int, dim: int = -1, largest: bool = True) -> Any:
    values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
    return (values, places) if x.dim() == 0 else (values.narrow(dim, 0, k), places.narrow(dim, 0, k))


def _products_first(function: Any, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Any:
    return (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2) @ weight.flatten(1).t()


class _Extreme(torch.autograd.Function):
    """A maximum or minimum. The selected elements share the gradient equally; the others get the gradient times 0."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, function: Any) -> Any:
        value = function(x)
        is_taken = (x == value) | (value.isnan() & x.isnan())
        ctx.save_for_backward(is_taken.to(x.dtype) / is_taken.sum())
        return value

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (shares,) = ctx.saved_tensors
        return gradient * shares, None


class _Digamma(torch.autograd.Function):
    """Digamma whose gradient is infinite at the poles."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        is_pole = (x <= 0) & (x == x.floor())
        return gradient * torch.polygamma(1, x).masked_fill(is_pole, float("inf"))


# --- The table ---

_NARROW = (torch.float32, torch.bfloat16)

DIFFERENCES = [
    Difference(
        "product",
        "prod",
        "gradient where an element or a product of elements is not finite or underflows",
        "the product times the gradient, divided by the element",
        "the gradient times the product of the other elements",
        "0 / 0 is NaN, and so is inf / inf; PyTorch under compilers does the same as we do",
        _product,
        lambda x, *_, **__: x.numel() > 0,
    ),
    Difference(
        "spread",
        "std var",
        "squares beyond 3.4e38, f32 and narrower",
        "sums in f64",
        "sums in f32, which are infinite",
        "(S1)",
        _spread,
        lambda x, *_, **__: x.dtype in _NARROW,
    ),
    Difference(
        "running",
        "cumsum cumprod",
        "running sums and products beyond 3.4e38, f32 and narrower",
        "the running value in f64, which can become finite again",
        "each running value rounded: infinity stays infinity or becomes NaN",
        "(D3), (D4)",
        _running_value,
        lambda x, *_, **__: x.dtype in _NARROW,
    ),
    Difference(
        "sixth",
        "hardsigmoid",
        "gradient in f64",
        "1/6 rounded to f32",
        "1/6 rounded to f64",
        "the derivative of (x + 3) / 6",
        _exact_sixth,
        lambda x, *_, **__: x.dtype == torch.float64,
    ),
    Difference(
        "narrow sampling",
        "grid_sample",
        "f16 and bf16",
        "positions and weights in 16 bits",
        "positions and weights in f32, the result rounded once",
        "16 bits cannot distinguish all positions of an image",
        _sampled_in_f32,
        lambda x, *_, **__: x.dtype == torch.bfloat16,
    ),
    Difference(
        "sampling",
        "grid_sample",
        "gradient of the grid where image or gradient is not finite; bicubic, or with positions moved into the image",
        "products with 0 for positions that are moved; sums of weights before products",
        "no gradient for positions that are moved; products before sums",
        "infinity times 0 is NaN, and so is the difference of infinities",
        None,
        lambda x, grid, mode, padding_mode, **_: mode == "bicubic" or padding_mode != "zeros",
    ),
    Difference(
        "empty window",
        " ".join(f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)),
        "position of a window without an element of the input",
        "a position that the window does not have",
        "-1",
        "there is no element",
        _positions,
    ),
    Difference(
        "kept size",
        "interpolate",
        "gradient of bicubic interpolation with a `scale_factor` that keeps the size",
        "the gradient of the result, as if it were a copy",
        "the derivative of the result",
        "the result is not a copy",
        _by_its_matrix,
        _keeps_its_size,
    ),
    Difference(
        "weights",
        "interpolate",
        "linear interpolation of an image that is not finite, where a weight is 0",
        "weights with rounding errors of f32: infinity times 1e-8",
        "weights rounded once: infinity times 0, which is NaN",
        "the weight is 0",
        None,
        lambda x, size, scale_factor, mode, *_, **__: "linear" in mode and not bool(x.isfinite().all()),
    ),
    Difference(
        "ties",
        "topk",
        "gradient where elements are equal or NaN",
        "any of the equal elements",
        "the first of the equal elements",
        "(D2)",
        _first_of_ties,
    ),
    Difference(
        "bilinear",
        "bilinear",
        "operands that are not finite",
        "the products of the weight and the first operand are summed first",
        "products of the operands, then one contraction",
        "infinity times 0 is NaN in either order, but not in the same elements",
        _products_first,
        lambda *tensors: not all(bool(x.isfinite().all()) for x in tensors),
    ),
    Difference(
        "extreme",
        "max min",
        "gradient of the largest or least of all elements where the gradient of the result is not finite",
        "0 for elements that are not taken",
        "the gradient times 0 for these: NaN",
        "PyTorch's own formula under compilers",
        lambda function, x: _Extreme.apply(x, function),
        lambda x, *given, **options: not (given or options),
    ),
    Difference(
        "pole",
        "digamma",
        "gradient at 0 and negative integers",
        "a large number, computed from rounded sines",
        "infinity",
        "the derivative has a pole there",
        lambda function, x: _Digamma.apply(x),
    ),
]
