# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The decomposition table of the second stage: torch-mlir's own, with what it lacks or gets wrong written out.

Reasons for an entry: the default computes in f64, loses a NaN, scatters where a comparison does, is not
supported by the linalg lowering, or crashes it.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from repro_mlir.frontends.torch import convolutions

aten = torch.ops.aten

_entries: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: convolutions.convolution,
    aten.convolution_backward.default: convolutions.convolution_backward,
}


def _decomposes(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operator in operators:
            _entries[operator] = function
        return function

    return register


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """ATen operator to decomposition; an entry of this module that does not apply falls back to torch-mlir's."""
    table = dict(get_decomposition_table())
    table |= _of_unknown_operators(table)
    for operator, function in _entries.items():
        default = table.get(operator)
        table[operator] = function if default is None else _with_default(function, default)
    return table


def _of_unknown_operators(table: Mapping[Any, Any]) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of operators that torch-mlir's dialect does not have."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    found = {}
    for operator, function in torch._decomp.decomposition_table.items():
        if not isinstance(operator, torch._ops.OpOverload) or operator in table:
            continue
        schema = operator._schema
        name = "torch." + schema.name.replace("::", ".") + (f".{schema.overload_name}" if schema.overload_name else "")
        if schema.name.startswith("aten::") and not context.is_registered_operation(name):
            found[operator] = function
    return found


def _with_default(function: Callable[..., Any], default: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return default(*args, **kwargs) if result is NotImplemented else result

    return decompose


def _dimensions(x: torch.Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.dim()))
    return [d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim)]


def _pair(values: Sequence[int]) -> list[int]:
    return list(values) * (2 if len(values) == 1 else 1)


# --- Reductions ---


@_decomposes(aten.var_mean.correction)
def _var_mean(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    # The default converts to f64.
    if x.dtype.is_complex:
        return NotImplemented
    correction = 1 if correction is None else correction
    dims = _dimensions(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    mean = torch.sum(x, dims, True) / count
    difference = x - mean
    # A Python division by zero must become the NaN or infinity of the framework.
    variance = torch.sum(difference * difference, dims, True) / max(count - correction, 0)
    if not keepdim:
        for d in sorted(dims, reverse=True):
            mean, variance = mean.squeeze(d), variance.squeeze(d)
    return variance, mean


@_decomposes(aten.var.correction)
def _var(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    result = _var_mean(x, dim, correction=correction, keepdim=keepdim)
    return result if result is NotImplemented else result[0]


@_decomposes(aten.std.correction)
def _std(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    result = _var_mean(x, dim, correction=correction, keepdim=keepdim)
    return result if result is NotImplemented else torch.sqrt(result[0])


@_decomposes(aten.linalg_vector_norm.default)
def _vector_norm(
    x: torch.Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    if x.dtype.is_complex or not x.numel():
        return NotImplemented
    if dtype is not None:
        x = x.to(dtype)
    dims = _dimensions(x, dim)
    if ord == 2:
        return torch.sqrt(torch.sum(x * x, dims, keepdim))
    if ord == 1:
        return torch.sum(x.abs(), dims, keepdim)
    if ord == 0:
        return torch.sum((x != 0).to(x.dtype), dims, keepdim)
    if ord == math.inf:
        return torch.amax(x.abs(), dims, keepdim)
    if ord == -math.inf:
        return torch.amin(x.abs(), dims, keepdim)
    return torch.pow(torch.sum(torch.pow(x.abs(), ord), dims, keepdim), 1.0 / ord)


# --- Comparison and power with a Python number ---


def _compare(operator: Any) -> Callable[..., Any]:
    def compare(x: torch.Tensor, number: Any) -> Any:
        # The default compares f32 elements with the number in f64.
        if x.dtype.is_floating_point and isinstance(number, int | float):
            return operator(x, torch.full([], float(number), dtype=x.dtype))
        return NotImplemented

    return compare


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _entries[getattr(aten, _name).Scalar] = _compare(getattr(aten, _name).Tensor)


@_decomposes(aten.pow.Tensor_Scalar)
def _power(x: torch.Tensor, exponent: float) -> Any:
    # As ATen computes these exponents itself.
    if not x.dtype.is_floating_point:
        return NotImplemented
    if exponent == 0.5:
        return torch.sqrt(x)
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent == -0.5:
        return torch.rsqrt(x)
    if exponent == -1:
        return torch.reciprocal(x)
    if exponent == -2:
        return torch.reciprocal(x * x)
    return NotImplemented


# --- Losses, embeddings, indexing ---


@_decomposes(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_loss_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    # Compares class numbers; the default scatters.
    axis = 0 if x.dim() < 2 else 1
    if reduction == 1:
        gradient = gradient / total_weight
    shape = [1] * x.dim()
    shape[axis] = x.shape[axis]
    classes = torch.arange(x.shape[axis], dtype=target.dtype).view(shape)
    target = target.unsqueeze(axis)
    hit = (classes == target) & (target != ignore_index)
    if 0 < gradient.dim() < x.dim():
        gradient = gradient.unsqueeze(axis)
    if weight is not None:
        gradient = gradient * weight.view(shape)
    return torch.where(hit, -gradient, torch.zeros([], dtype=x.dtype))


def _positive_dimension(operator: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, dim: int, *args: Any, **kwargs: Any) -> Any:
        # A negative dimension crashes the lowering to tm_tensor.
        if dim < 0:
            return operator(x, dim + max(x.dim(), 1), *args, **kwargs)
        return NotImplemented

    return call


for _operator in (
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.scatter_reduce.two,
    aten.gather.default,
):
    _entries[_operator] = _positive_dimension(_operator)


@_decomposes(aten.sort.stable)
def _stable_sort(
    x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    # (D2) every sort is stable.
    return aten.sort.default(x, dim % max(x.dim(), 1), descending)


@_decomposes(aten.constant_pad_nd.default)
def _constant_pad(x: torch.Tensor, pad: Sequence[int], value: float = 0) -> Any:
    # The lowering does not take negative amounts.
    if all(amount >= 0 for amount in pad):
        return NotImplemented
    for index in range(0, len(pad), 2):
        axis = x.dim() - 1 - index // 2
        low, high = max(-pad[index], 0), max(-pad[index + 1], 0)
        if low or high:
            x = x.narrow(axis, low, x.shape[axis] - low - high)
    pad = [max(amount, 0) for amount in pad]
    return aten.constant_pad_nd(x, pad, value) if any(pad) else x.clone()


# --- Pooling gradients ---


@_decomposes(aten.max_pool2d_with_indices_backward.default)
def _max_pool2d_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> Any:
    # Windows that tile the input: each element belongs to one window, so a comparison replaces the scatter.
    kernel = _pair(kernel)
    stride = _pair(stride) if stride else kernel
    height, width = x.shape[-2:]
    if kernel != stride or any(padding) or any(d != 1 for d in dilation) or height % kernel[0] or width % kernel[1]:
        return NotImplemented

    def spread(t: torch.Tensor) -> torch.Tensor:
        rows, columns = t.shape[-2:]
        t = t.unsqueeze(-1).unsqueeze(-3)
        return t.expand(*t.shape[:-4], rows, kernel[0], columns, kernel[1]).reshape(x.shape)

    position = torch.arange(height * width).view(height, width)
    return torch.where(spread(indices) == position, spread(gradient), torch.zeros([], dtype=gradient.dtype))


@_decomposes(aten.avg_pool2d_backward.default)
def _avg_pool2d_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Any:
    # A transposed convolution of one channel with ones.
    if ceil_mode or not (count_include_pad or divisor or not any(padding)):
        return NotImplemented
    kernel = _pair(kernel)
    stride = _pair(stride) if stride else kernel
    gradient = gradient / (divisor or kernel[0] * kernel[1])
    planes = gradient.reshape(-1, 1, *gradient.shape[-2:])
    ones = torch.ones([1, 1, *kernel], dtype=gradient.dtype)
    return convolutions.transposed(planes, ones, None, stride, _pair(padding), [1, 1], list(x.shape[-2:]), 1).reshape(
        x.shape
    )


@_decomposes(aten._adaptive_avg_pool2d_backward.default)
def _adaptive_avg_pool2d_backward(gradient: torch.Tensor, x: torch.Tensor) -> Any:
    rows, columns = gradient.shape[-2:]
    if x.shape[-2] % rows or x.shape[-1] % columns:
        return NotImplemented
    kernel = (x.shape[-2] // rows, x.shape[-1] // columns)
    gradient = (gradient / (kernel[0] * kernel[1])).unsqueeze(-1).unsqueeze(-3)
    return gradient.expand(*gradient.shape[:-4], rows, kernel[0], columns, kernel[1]).reshape(x.shape)


# --- Weight normalisation ---


@_decomposes(aten._weight_norm_interface.default)
def _weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    norm = torch.sqrt((v * v).sum([d for d in range(v.dim()) if d != dim], True))
    return v * (g / norm), norm


@_decomposes(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norm: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    dot = (gradient * v).sum([d for d in range(v.dim()) if d != dim], True)
    return g / norm * gradient - g * dot / (norm * norm * norm) * v, dot / norm
