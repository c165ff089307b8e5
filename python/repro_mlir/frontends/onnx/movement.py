# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that move elements or create constants of known shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant, outside_of_trace, sized
from repro_mlir.frontends.onnx.values import Value, dtype_of


def axis_of(axis: int, rank: int) -> int:
    """Returns the axis as a non-negative number. Raises OnnxError if the axis is out of range."""
    if not -rank <= axis < max(rank, 1):
        raise OnnxError(f"expected an axis of a tensor of rank {rank}, got {axis}")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Returns the axes as non-negative numbers. Raises OnnxError if an axis is out of range."""
    return [axis_of(axis, rank) for axis in axes]


def _reshape(call: Call) -> torch.Tensor:
    x, shape = call.tensor(), call.required_numbers(1, "shape")
    if not call.attribute("allowzero", 0):
        shape = [x.shape[i] if extent == 0 and i < x.dim() else extent for i, extent in enumerate(shape)]
    elif -1 in shape and 0 in shape:
        raise OnnxError(f"expected a shape with -1 or 0, not both, as allowzero is set, got {shape[:8]}")
    return x.reshape(shape)


def _transpose(call: Call) -> torch.Tensor:
    x = call.tensor()
    return x.permute(call.attribute("perm", [*reversed(range(x.dim()))]))


def _concat(call: Call) -> torch.Tensor:
    return torch.cat(call.tensors(), call.attribute("axis", 1))


def _split(call: Call) -> tuple[torch.Tensor, ...]:
    x = call.tensor()
    axis = axis_of(call.attribute("axis", 0), x.dim())
    sizes = call.numbers(1, "split")
    if sizes is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        size = -(-x.shape[axis] // count)
        sizes = [max(min(size, x.shape[axis] - i * size), 0) for i in range(count)]
    return tuple(torch.split(x, sizes, axis))


def _slice(call: Call) -> torch.Tensor:
    x = call.tensor()
    starts, ends = call.required_numbers(1, "starts"), call.required_numbers(2, "ends")
    axes = axes_of(call.numbers(3, "axes") or [*range(len(starts))], x.dim())
    steps = call.numbers(4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        # slice.indices() counts negative numbers from the end and clamps numbers out of range, as ONNX does.
        chosen = range(*slice(start, end, step).indices(x.shape[axis]))
        if step > 0:
            x = (
                x.narrow(axis, chosen.start if len(chosen) else 0, 0)
                if not chosen
                else x[(slice(None),) * axis + (slice(chosen.start, chosen.stop, step),)]
            )
        else:
            first = chosen[-1] if chosen else 0
            last = chosen[0] + 1 if chosen else 0
            x = x[(slice(None),) * axis + (slice(first, last, -step),)].flip(axis)
    return x


def _squeeze(call: Call) -> torch.Tensor:
    x = call.tensor()
    axes = call.numbers(1, "axes")
    axes = [i for i, extent in enumerate(x.shape) if extent == 1] if axes is None else axes_of(axes, x.dim())
    if any(x.shape[axis] != 1 for axis in axes):
        raise OnnxError(f"expected extents of 1 at the axes {axes}, got the shape {list(x.shape)}")
    return x.reshape([extent for i, extent in enumerate(x.shape) if i not in axes])


def _unsqueeze(call: Call) -> torch.Tensor:
    x, axes = call.tensor(), call.required_numbers(1, "axes")
    for axis in sorted(axes_of(axes, x.dim() + len(axes))):
        x = x.unsqueeze(axis)
    return x


def _flatten(call: Call) -> torch.Tensor:
    x = call.tensor()
    axis = call.attribute("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _expand(call: Call) -> torch.Tensor:
    x, shape = call.tensor(), call.numbers(1)
    return x.expand(torch.broadcast_shapes(x.shape, sized(shape or [])))


def _tile(call: Call) -> torch.Tensor:
    x, repeats = call.tensor(), call.numbers(1) or []
    sized([extent * count for extent, count in zip(x.shape, repeats, strict=True)])
    return x.repeat(repeats)


def _pad(call: Call) -> torch.Tensor:
    x, pads = call.tensor(), call.required_numbers(1, "pads")
    mode = call.choice("mode", "constant", "constant", "reflect", "edge", "wrap")
    axes = axes_of(call.numbers(3) or [*range(x.dim())], x.dim())
    before, after = pads[: len(axes)], pads[len(axes) :]
    for axis, low, high in zip(axes, before, after, strict=True):
        sized([*x.shape[:axis], x.shape[axis] + max(low, 0) + max(high, 0), *x.shape[axis + 1 :]])
        if mode == "constant":
            continue
        # All modes except constant padding repeat elements of the tensor. The indices of these elements are already
        # known here.
        if low or high:
            index = [_padding_index(i, x.shape[axis], mode) for i in range(-low, x.shape[axis] + high)]
            x = x.index_select(axis, constant(index))
    if mode != "constant":
        return x
    value = call.optional(2)
    fill: Any = call.attribute("value", 0) if value is None else call.number(2)
    widths = [0, 0] * x.dim()
    for axis, low, high in zip(axes, before, after, strict=True):
        position = 2 * (x.dim() - 1 - axis)
        widths[position : position + 2] = [low, high]
    return F.pad(x, widths, value=fill)


def _padding_index(index: int, extent: int, mode: str) -> int:
    if extent == 0:
        raise OnnxError(f"expected an extent above 0 for padding of mode {mode}, got 0")
    if mode == "edge":
        return min(max(index, 0), extent - 1)
    if mode == "wrap":
        return index % extent
    period = max(2 * (extent - 1), 1)
    index %= period
    return min(index, period - index)


def _shape(call: Call) -> torch.Tensor:
    return constant([*call.tensor().shape[call.attribute("start", 0) : call.attribute("end")]])


def _size(call: Call) -> torch.Tensor:
    return constant(call.tensor().numel())


def _constant(call: Call) -> Value:
    for name, dtype in (("value_float", torch.float32), ("value_int", torch.int64)):
        for key in (name, f"{name}s"):
            if call.attribute(key) is not None:
                return constant(call.attribute(key), dtype)
    value = call.attribute("value")
    if not isinstance(value, torch.Tensor):
        raise OnnxError("expected a constant of numbers: strings and sparse tensors are not supported")
    return value


def _constant_of_shape(call: Call) -> torch.Tensor:
    value = call.attribute("value")
    shape = call.numbers(0) or []
    if min(shape, default=0) < 0:
        raise OnnxError(f"expected extents of 0 or more, got {shape[:8]}")
    if value is None:
        return torch.zeros(shape)
    return torch.full(shape, value.item(), dtype=value.dtype)


def _range(call: Call) -> torch.Tensor:
    start, limit, delta = (call.known(i) for i in range(3))
    with outside_of_trace():
        count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0) if delta.item() else -1
        # ONNX defines element i as start + i * delta, not as a running sum of deltas.
        return start.reshape(()) + torch.arange(sized([count])[0]).to(start.dtype) * delta.reshape(())


def _eye_like(call: Call) -> torch.Tensor:
    x = call.tensor()
    dtype = x.dtype if call.attribute("dtype") is None else dtype_of(call.attribute("dtype"))
    rows, columns = sized(x.shape)
    offset = call.attribute("k", 0)
    with outside_of_trace():
        return (torch.arange(columns) - torch.arange(rows).unsqueeze(1) == offset).to(dtype)


def _trilu(call: Call) -> torch.Tensor:
    function = torch.triu if call.attribute("upper", 1) else torch.tril
    return function(call.tensor(), call.number(1, default=0))


def _depth_to_space(call: Call) -> torch.Tensor:
    x, block = call.tensor(), call.attribute("blocksize")
    n, c, h, w = x.shape
    if call.choice("mode", "DCR", "DCR", "CRD") == "DCR":
        x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // block**2, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // block**2, h * block, w * block)


def _space_to_depth(call: Call) -> torch.Tensor:
    x, block = call.tensor(), call.attribute("blocksize")
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block)
    order = (0, 3, 5, 1, 2, 4) if call.choice("mode", "DCR", "DCR", "CRD") == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.permute(order).reshape(n, c * block**2, h // block, w // block)


MOVEMENT: dict[str, Operator] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
