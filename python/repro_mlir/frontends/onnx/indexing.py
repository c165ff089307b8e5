# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that read or write at indices."""

from __future__ import annotations

import math

import torch

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant, outside_of_trace, sized

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_front(index: torch.Tensor, extent: int) -> torch.Tensor:
    """Replaces negative indices, which count from the end, by the equivalent non-negative ones."""
    index = index.to(torch.int64)
    return torch.where(index < 0, index + extent, index)


def _gather(call: Call) -> torch.Tensor:
    x, index = call.tensor(0), call.tensor(1)
    axis = axis_of(call.attribute("axis", 0), x.dim())
    flat = _from_front(index, x.shape[axis]).reshape(-1)
    return x.index_select(axis, flat).reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


def _gather_elements(call: Call) -> torch.Tensor:
    x = call.tensor(0)
    axis = axis_of(call.attribute("axis", 0), x.dim())
    return torch.gather(x, axis, _from_front(call.tensor(1), x.shape[axis]))


def _linear(index: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Returns row-major positions in a tensor of `shape`. The last dimension of `index` has one index for each
    dimension of that tensor."""
    parts = [_from_front(index[..., i], extent) for i, extent in enumerate(shape)]
    position = parts[0]
    for part, extent in zip(parts[1:], shape[1:], strict=True):
        position = position * extent + part
    return position


def _gather_nd(call: Call) -> torch.Tensor:
    x, index = call.tensor(0), call.tensor(1)
    batch = call.attribute("batch_dims", 0)
    depth = index.shape[-1]
    shape = [*x.shape[batch : batch + depth]]
    rest = [*x.shape[batch + depth :]]
    count = math.prod(x.shape[:batch])
    position = _linear(index, shape).reshape(count, -1)
    flat = x.reshape(count * math.prod(shape), *rest)
    offsets = constant([i * math.prod(shape) for i in range(count)]).unsqueeze(1)
    return flat.index_select(0, (position + offsets).reshape(-1)).reshape([*index.shape[:-1], *rest])


def _scatter_elements(call: Call) -> torch.Tensor:
    x, updates = call.tensor(0), call.tensor(2)
    axis = axis_of(call.attribute("axis", 0), x.dim())
    index = _from_front(call.tensor(1), x.shape[axis])
    reduction = call.choice("reduction", "none", "none", *_REDUCTIONS)
    if reduction == "none":
        return torch.scatter(x, axis, index, updates)
    return torch.scatter_reduce(x, axis, index, updates, _REDUCTIONS[reduction])


def _scatter_nd(call: Call) -> torch.Tensor:
    x, index, updates = call.tensor(0), call.tensor(1), call.tensor(2)
    depth = index.shape[-1]
    shape, rest = [*x.shape[:depth]], [*x.shape[depth:]]
    reduction = call.choice("reduction", "none", "none", *_REDUCTIONS)
    position = _linear(index, shape).reshape(-1, 1).expand(-1, math.prod(rest))
    flat, values = x.reshape(math.prod(shape), math.prod(rest)), updates.reshape(-1, math.prod(rest))
    if reduction == "none":
        return torch.scatter(flat, 0, position, values).reshape(x.shape)
    return torch.scatter_reduce(flat, 0, position, values, _REDUCTIONS[reduction]).reshape(x.shape)


def _one_hot(call: Call) -> torch.Tensor:
    index, values = call.tensor(0), call.tensor(2)
    depth = int(call.number(1))
    axis = axis_of(call.attribute("axis", -1), index.dim() + 1)
    sized([*index.shape, depth])
    index = index.to(torch.int64)
    index = torch.where(index < 0, index + depth, index).unsqueeze(axis)
    steps = constant([*range(depth)]).reshape([depth if i == axis else 1 for i in range(index.dim())])
    return torch.where(index == steps, values[1], values[0])


def _reverse_sequence(call: Call) -> torch.Tensor:
    x, lengths = call.tensor(0), call.tensor(1)
    batch, time = call.attribute("batch_axis", 1), call.attribute("time_axis", 0)
    steps = constant([*range(x.shape[time])]).reshape([-1 if i == time else 1 for i in range(x.dim())])
    lengths = lengths.reshape([-1 if i == batch else 1 for i in range(x.dim())])
    index = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return torch.gather(x, time, index.expand(x.shape))


def _compress(call: Call) -> torch.Tensor:
    x = call.tensor(0)
    axis = call.attribute("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    chosen = [i for i, keep in enumerate(call.numbers(1) or []) if keep]
    return x.index_select(axis_of(axis, x.dim()), constant(chosen))


def _non_zero(call: Call) -> torch.Tensor:
    value = call.known(0)
    with outside_of_trace():
        return torch.nonzero(value).T.contiguous()


def _tensor_scatter(call: Call) -> torch.Tensor:
    """Returns the cache after the update of each sequence of the batch has been written at the sequence's start
    position."""
    cache, update = call.tensor(0), call.tensor(1)
    axis = axis_of(call.attribute("axis", -2), cache.dim())
    extent, count = cache.shape[axis], update.shape[axis]
    mode = call.choice("mode", "linear", "linear", "circular")
    starts = call.optional(2)
    steps = constant([*range(count)]).reshape([-1 if i == axis else 1 for i in range(cache.dim())])
    if starts is not None:
        steps = steps + starts.reshape([-1 if i == 0 else 1 for i in range(cache.dim())])
    if mode == "circular":
        steps = torch.remainder(steps, extent)
    return torch.scatter(cache, axis, steps.expand(update.shape), update)


def _array_of(call: Call) -> torch.Tensor:
    raise OnnxError("the shape of the result depends on tensor values, which is not supported")


INDEXING: dict[str, Operator] = {
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonMaxSuppression": _array_of,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "Unique": _array_of,
}
