# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators on quantized tensors (I2), with integers computed as i32."""

from __future__ import annotations

import math

import torch

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator
from repro_mlir.frontends.onnx.values import Value, dtype_of
from repro_mlir.frontends.onnx.windows import Window

_F8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def _spread(value: torch.Tensor, x: torch.Tensor, axis: int, block: int) -> torch.Tensor:
    """Returns a scale or zero point (one per tensor, per index of the axis or per block of the axis) in a shape that
    broadcasts to that of `x`."""
    if value.numel() == 1:
        return value.reshape(())
    axis = axis_of(axis, x.dim())
    if value.dim() == 1 and not block:
        return value.reshape([-1 if i == axis else 1 for i in range(x.dim())])
    if not block:
        raise OnnxError(f"expected a block_size for a scale of the shape {list(value.shape)}, got none")
    return value.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])


def _to_integer(x: torch.Tensor, zero: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """Rounds to nearest, adds the i32 zero point and saturates to the type."""
    info = torch.iinfo(dtype)
    # Numbers outside these bounds saturate anyway and may not fit in i32.
    whole = torch.clamp(torch.round(x.to(torch.float32)), -(2.0**24), 2.0**24).to(torch.int32)
    whole = torch.clamp(whole if zero is None else whole + zero, info.min, info.max)
    return whole.to(dtype)


def _quantize(call: Call) -> torch.Tensor:
    x = call.tensor(0)
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    number = call.attribute("output_dtype", 0)
    dtype = call.kind(2) if call.has(2) else dtype_of(number) if number else torch.uint8
    precision = call.attribute("precision", 0)
    computed = dtype_of(precision) if precision else None
    scale = _spread(call.tensor(1), x, axis, block)
    scaled = x / scale.to(x.dtype) if computed is None else x.to(computed) / scale.to(computed)
    if dtype in _F8:
        most = torch.finfo(dtype).max
        wide = scaled.to(torch.float32)
        return (torch.clamp(wide, -most, most) if call.attribute("saturate", 1) else wide).to(dtype)
    return _to_integer(scaled, _spread(call.integers(2), x, axis, block) if call.has(2) else None, dtype)


def _dequantize(call: Call) -> torch.Tensor:
    scale = call.tensor(1)
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    number = call.attribute("output_dtype", 0)
    dtype = dtype_of(number) if number else scale.dtype
    if call.kind(0) in _F8:
        wide = call.tensor(0).to(torch.float32)
        return (wide * _spread(scale, wide, axis, block).to(torch.float32)).to(dtype)
    whole = call.integers(0)
    spread = _spread(scale, whole, axis, block)
    if call.has(2):
        whole = whole - _spread(call.integers(2), whole, axis, block)
    return (whole.to(torch.float32) * spread.to(torch.float32)).to(dtype)


def _dynamic_quantize(call: Call) -> tuple[Value, ...]:
    x = call.tensor()
    zero = torch.zeros([], dtype=x.dtype)
    low, high = torch.minimum(torch.amin(x), zero), torch.maximum(torch.amax(x), zero)
    scale = (high - low) / 255
    point = torch.clamp(torch.round(-low / scale), 0, 255).to(torch.int32)
    return _to_integer(x / scale, point, torch.uint8), scale, point.to(torch.uint8)


def _moved(call: Call, index: int, zero_index: int, axis: int | None = None) -> torch.Tensor:
    """Returns a quantized input minus its zero point, before the scale is applied."""
    whole = call.integers(index)
    if not call.has(zero_index):
        return whole
    zero = call.integers(zero_index)
    if axis is not None and zero.dim() == 1 and zero.numel() > 1:
        zero = zero.reshape([-1 if i == axis else 1 for i in range(whole.dim())])
    return whole - (zero.reshape(()) if zero.numel() == 1 else zero)


def _matmul_integer(call: Call) -> torch.Tensor:
    return torch.matmul(_moved(call, 0, 2, call.integers(0).dim() - 2), _moved(call, 1, 3))


def _convolve_integers(call: Call, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Computes an i32 convolution as elementwise sums of products: integer sums do not depend on the order."""
    window = Window(call, w.shape[2:], x.shape[2:])
    call.spend(math.prod(window.kernel))
    x = window.padded(x)
    groups, rank = call.attribute("group", 1), x.dim() - 2
    counts = [
        (x.shape[2 + i] - window.dilations[i] * (window.kernel[i] - 1) - 1) // window.strides[i] + 1
        for i in range(rank)
    ]
    per_group, out = x.shape[1] // groups, w.shape[0] // groups
    total = None
    for place in range(math.prod(window.kernel)):
        part, tap, rest = x, w, place
        for i in reversed(range(rank)):
            rest, offset = divmod(rest, window.kernel[i])
            first = offset * window.dilations[i]
            last = first + (counts[i] - 1) * window.strides[i] + 1
            part = part[(slice(None),) * (2 + i) + (slice(first, last, window.strides[i]),)]
            tap = tap.select(2 + i, offset)
        columns = part.reshape(x.shape[0], groups, per_group, math.prod(counts))
        product = torch.matmul(tap.reshape(1, groups, out, per_group), columns)
        total = product if total is None else total + product
    assert total is not None
    return total.reshape(x.shape[0], w.shape[0], *counts)


def _conv_integer(call: Call) -> torch.Tensor:
    return _convolve_integers(call, _moved(call, 0, 2), _moved(call, 1, 3, 0))


def _qlinear_conv(call: Call) -> torch.Tensor:
    x, w = _moved(call, 0, 2), _moved(call, 3, 5, 0)
    result, bias, scale = _convolve_integers(call, x, w), call.optional(8), call.tensor(4)
    shape = [1, -1, *[1] * (x.dim() - 2)]
    result = result if bias is None else result + bias.reshape(shape)
    factor = call.tensor(1).reshape(()) * (scale.reshape(shape) if scale.numel() > 1 else scale.reshape(()))
    return _requantized(call, result, factor / call.tensor(6).reshape(()))


def _qlinear_matmul(call: Call) -> torch.Tensor:
    result = torch.matmul(_moved(call, 0, 2, call.integers(0).dim() - 2), _moved(call, 3, 5))
    return _requantized(call, result, (call.tensor(1) * call.tensor(4) / call.tensor(6)).to(torch.float32))


def _requantized(call: Call, result: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Scales i32 sums by a factor and converts them to the type of the zero point or of the first input."""
    zero = call.integers(7) if call.has(7) else None
    return _to_integer(result.to(torch.float32) * factor, zero, call.kind(7 if call.has(7) else 0))


QUANTIZATION: dict[str, Operator] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matmul_integer,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
}
