# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that reduce, scan or sort along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axes_of, axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator

_Reduction = Callable[[torch.Tensor, list[int], bool], torch.Tensor]


def _reduction(function: _Reduction, one: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Operator:
    """Returns an operator that reduces by `function`. With noop_with_empty_axes and no axes, it applies `one` to each
    element instead.
    """

    def run(call: Call) -> torch.Tensor:
        x, axes = call.tensor(), call.numbers(1, "axes")
        if not axes:
            if call.attribute("noop_with_empty_axes", 0):
                return one(x)
            axes = [*range(x.dim())]
        if x.dim() == 0:
            return function(x.reshape(1), [0], False)
        return function(x, sorted(axes_of(axes, x.dim())), bool(call.attribute("keepdims", 1)))

    return run


def _sum(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return torch.sum(x, axes, keep, dtype=x.dtype)


def _mean(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if x.is_floating_point():
        return torch.mean(x, axes, keep)
    total, count = _sum(x, axes, keep), math.prod(x.shape[axis] for axis in axes)
    return torch.div(total, count, rounding_mode="trunc").to(x.dtype)


def _extreme(function: Callable[..., torch.Tensor], is_max: bool) -> _Reduction:
    def run(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
        if x.dtype is torch.bool:
            return run(x.to(torch.int8), axes, keep) > 0
        if math.prod(x.shape[axis] for axis in axes) == 0:
            # The maximum of no elements is the least value of the type, and the minimum of no elements is the greatest.
            info = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
            least, most = (-math.inf, math.inf) if x.is_floating_point() else (info.min, info.max)
            shape = [1 if i in axes else extent for i, extent in enumerate(x.shape) if keep or i not in axes]
            return torch.full(shape, least if is_max else most, dtype=x.dtype)
        return function(x, axes, keep)

    return run


def _prod(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in reversed(axes):
        x = torch.prod(x, axis, keep, dtype=x.dtype)
    return x


def _l1(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return _sum(torch.abs(x), axes, keep)


def _sum_square(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return _sum(x * x, axes, keep)


def _l2(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if not x.is_floating_point():
        return torch.sqrt(_sum_square(x.to(torch.float64), axes, keep)).to(x.dtype)
    return torch.sqrt(_sum_square(x, axes, keep))


def _log_sum(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    return torch.log(_sum(x, axes, keep))


def _log_sum_exp(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if math.prod(x.shape[axis] for axis in axes) == 0:
        return torch.log(_sum(x, axes, keep))
    return torch.logsumexp(x, axes, keep)


def _extreme_index(function: Callable[..., torch.Tensor]) -> Operator:
    def run(call: Call) -> torch.Tensor:
        x = call.tensor()
        axis, keep = axis_of(call.attribute("axis", 0), x.dim()), bool(call.attribute("keepdims", 1))
        if not call.attribute("select_last_index", 0):
            return function(x, axis, keep)
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keep)

    return run


def _cumulative(function: Callable[..., torch.Tensor], neutral: int) -> Operator:
    def run(call: Call) -> torch.Tensor:
        x = call.tensor()
        axis = axis_of(call.number(1), x.dim())
        is_reverse = call.attribute("reverse", 0)
        x = x.flip(axis) if is_reverse else x
        result = function(x, axis, dtype=x.dtype)
        if call.attribute("exclusive", 0):
            first = torch.full_like(x.narrow(axis, 0, 1), neutral)
            result = torch.cat([first, result.narrow(axis, 0, x.shape[axis] - 1)], axis)
        return result.flip(axis) if is_reverse else result

    return run


def _products(x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns the cumulative products along the axis, computed by log2(n) multiplications of whole tensors."""
    step = 1
    while step < x.shape[axis]:
        ones = torch.ones_like(x.narrow(axis, 0, step))
        x = x * torch.cat([ones, x.narrow(axis, 0, x.shape[axis] - step)], axis)
        step *= 2
    return x


def _top_k(call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    x = call.tensor()
    axis = axis_of(call.attribute("axis", -1), x.dim())
    k = call.number(1, "k")
    if not 0 <= k <= x.shape[axis]:
        raise OnnxError(f"expected k from 0 to {x.shape[axis]}, got {k}")
    # The sort is stable: equal elements stay in index order. The attribute `sorted` needs no check, because its value 0
    # allows any order.
    values, index = torch.sort(x, dim=axis, descending=bool(call.attribute("largest", 1)), stable=True)
    return values.narrow(axis, 0, k), index.narrow(axis, 0, k)


def _flat_rows(function: Callable[[torch.Tensor, int], torch.Tensor]) -> Operator:
    """Returns an operator that applies the function along one axis or, before version 13, along all axes from that one
    to the last."""

    def run(call: Call) -> torch.Tensor:
        x = call.tensor()
        axis = axis_of(call.attribute("axis", -1 if call.version >= 13 else 1), x.dim())
        if call.version >= 13:
            return function(x, axis)
        return function(x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), 1).reshape(x.shape)

    return run


def _softmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.softmax(x, axis)


def _log_softmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.log_softmax(x, axis)


def _hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    index = torch.argmax(x, axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, index, torch.ones_like(index, dtype=x.dtype))


def _lp_normalization(call: Call) -> torch.Tensor:
    x, p = call.tensor(), call.attribute("p", 2)
    if p not in (1, 2):
        raise OnnxError(f"expected p of 1 or 2, got {p}")
    axis = axis_of(call.attribute("axis", -1), x.dim())
    norm = (_l1 if p == 1 else _l2)(x, [axis], True)
    # The result is 0 where the norm is 0.
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def _einsum(call: Call) -> Any:
    return torch.einsum(call.attribute("equation"), call.tensors())


REDUCTIONS: dict[str, Operator] = {
    "ArgMax": _extreme_index(torch.argmax),
    "ArgMin": _extreme_index(torch.argmin),
    "CumProd": _cumulative(_products, 1),
    "CumSum": _cumulative(torch.cumsum, 0),
    "Einsum": _einsum,
    "Hardmax": _flat_rows(_hardmax),
    "LogSoftmax": _flat_rows(_log_softmax),
    "LpNormalization": _lp_normalization,
    "ReduceL1": _reduction(_l1, torch.abs),
    "ReduceL2": _reduction(_l2, torch.abs),
    "ReduceLogSum": _reduction(_log_sum, torch.log),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_extreme(torch.amax, True)),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(_extreme(torch.amin, False)),
    "ReduceProd": _reduction(_prod),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": _reduction(_sum_square, torch.square),
    "Softmax": _flat_rows(_softmax),
    "TopK": _top_k,
}
