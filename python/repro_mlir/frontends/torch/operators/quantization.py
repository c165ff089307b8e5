# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch's operators that quantize floats to integers, as rounding, bounds and conversions (I2).

Operators of `quantized_decomposed` are expanded first, while tensors have their original integer types, in which the
arithmetic wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.interpreters import functional
from repro_mlir.frontends.torch.base.source_lines import origin_of_node

aten = torch.ops.aten

_LIBRARY = "quantized_decomposed::"


def has_quantizing(graph: torch.fx.Graph) -> bool:
    """Whether a graph has an operator of `quantized_decomposed`, or one that returns tensors of quantized types."""
    return any(_name(node.target).startswith(_LIBRARY) or _makes_quantized(node.target) for node in graph.nodes)


def without_quantizing(graph: torch.fx.GraphModule, arguments: Any) -> torch.fx.GraphModule:
    """Expands the `quantized_decomposed` operators of a graph. Must be called within `tracing_environment`, so that the
    nodes keep their source lines.

    Raises:
      CaptureError: the graph has tensors of quantized types, or an operator without a rule.
    """
    for node in graph.graph.nodes:
        if _makes_quantized(node.target):
            raise located(
                origin_of_node(node),
                f"{_name(node.target).removeprefix('aten::')}: tensors of quantized types are not supported: expected "
                "integers, as torch.ops.quantized_decomposed.quantize_per_tensor returns them",
            )
    table = {
        node.target: _rule_of(_name(node.target).removeprefix(_LIBRARY))
        for node in graph.graph.nodes
        if _name(node.target).startswith(_LIBRARY)
    }
    return functional(graph, arguments, table)


def _name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return schema.name if schema is not None else ""


def _makes_quantized(target: Any) -> bool:
    return _name(target).startswith(("aten::quantize_per_", "aten::_make_per_"))


def _rule_of(name: str) -> Callable[..., Any]:
    if name not in _RULES:
        raise CaptureError(f"operator quantized_decomposed.{name} is not supported")
    return _RULES[name]


# --- Operators of quantized_decomposed ---


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _number(value: Any) -> Any:
    """Returns a scalar as `item()` would: floats become f64 of shape [], which does not promote other operands."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.reshape([])
    return value.to(torch.float64) if value.is_floating_point() else value


def _bounded(x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    if isinstance(low, torch.Tensor):
        return torch.minimum(torch.maximum(x, _number(low).to(x.dtype)), _number(high).to(x.dtype))
    return torch.clamp(x, low, high)


def _quantize(x: torch.Tensor, scale: Any, point: Any, low: Any, high: Any, dtype: torch.dtype) -> torch.Tensor:
    inverse = 1.0 / _number(scale)
    return _bounded(torch.round(_wide(x) * inverse) + _number(point), low, high).to(dtype)


def _dequantize(x: torch.Tensor, scale: Any, point: Any, *_: Any, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    return (x.to(out_dtype or torch.float32) - _number(point)) * _number(scale)


def _along(value: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    return value.view([-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())])


def _quantize_channels(
    x: torch.Tensor, scales: torch.Tensor, points: torch.Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> torch.Tensor:
    inverse = 1.0 / _along(scales, x, axis)
    return torch.clamp(torch.round(_wide(x) * inverse) + _along(points, x, axis), low, high).to(dtype)


def _dequantize_channels(
    x: torch.Tensor,
    scales: torch.Tensor,
    points: torch.Tensor | None,
    axis: int,
    *_: Any,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    moved = x if points is None else x - _along(points, x, axis)
    return (moved * _along(scales, x, axis)).to(out_dtype or torch.float32)


def _quantize_tokens(
    x: torch.Tensor, scales: torch.Tensor, points: torch.Tensor, low: int, high: int, dtype: torch.dtype
) -> torch.Tensor:
    return (x * (1.0 / scales) + points).round().clamp(low, high).to(dtype)


def _dequantize_tokens(
    x: torch.Tensor,
    scales: torch.Tensor,
    points: torch.Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    return ((x - points) * scales).to(output_dtype)


def _choose(x: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    zero = torch.zeros([], dtype=x.dtype)
    least, most = torch.minimum(torch.amin(x), zero), torch.maximum(torch.amax(x), zero)
    scale = torch.maximum((most - least) / float(high - low), torch.full([], eps, dtype=torch.float32))
    point = torch.clamp(low - torch.round(least / scale).to(torch.int32), low, high)
    return scale.to(torch.float64).reshape([1]), point.to(torch.int64).reshape([1])


_RULES: dict[str, Callable[..., Any]] = {
    "quantize_per_tensor": _quantize,
    "dequantize_per_tensor": _dequantize,
    "quantize_per_channel": _quantize_channels,
    "dequantize_per_channel": _dequantize_channels,
    "quantize_per_token": _quantize_tokens,
    "dequantize_per_token": _dequantize_tokens,
    "choose_qparams": _choose,
}


# --- ATen operators that quantize, dequantize, and return the mask that their gradients need ---


def _faked(x: torch.Tensor, scale: Any, point: Any, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    quantized = torch.round(x * (1.0 / scale)) + point
    within = (quantized >= low) & (quantized <= high)
    return (torch.clamp(quantized, low, high) - point) * scale, within


def _fake_per_tensor(
    x: torch.Tensor, scale: float, point: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    # PyTorch rounds both the scale and its inverse to f32.
    return _faked(x, torch.full([], scale, dtype=torch.float32), point, low, high)


def _fake_where_enabled(
    x: torch.Tensor, scale: torch.Tensor, point: torch.Tensor, enabled: torch.Tensor, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    faked, within = _faked(x, scale.reshape([]).to(torch.float32), point.reshape([]), low, high)
    on = enabled.reshape([-1])[0] != 0
    return torch.where(on, faked, x), within | ~on


def _fake_per_channel(
    x: torch.Tensor, scale: torch.Tensor, point: torch.Tensor, axis: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    if point.is_floating_point():
        raise CaptureError(f"expected integer zero points, got {point.dtype}")
    return _faked(x, _along(scale, x, axis), _along(point, x, axis), low, high)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_where_enabled,
    aten.fake_quantize_per_channel_affine_cachemask.default: _fake_per_channel,
}
