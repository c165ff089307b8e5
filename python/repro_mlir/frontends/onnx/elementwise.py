# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Elementwise ONNX operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.nodes import Call, Operator
from repro_mlir.frontends.onnx.values import dtype_of


def _unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Operator:
    return lambda call: function(call.tensor())


def _binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Operator:
    return lambda call: function(call.tensor(0), call.tensor(1))


def _variadic(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Operator:
    return lambda call: functools.reduce(function, call.tensors())


def _with(function: Callable[..., torch.Tensor], **defaults: float) -> Operator:
    """Returns an operator that calls the function with input 0 and the attributes named in `defaults`."""
    return lambda call: function(call.tensor(), *(call.attribute(name, value) for name, value in defaults.items()))


def _divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _mod(call: Call) -> torch.Tensor:
    x, y = call.tensor(0), call.tensor(1)
    if call.attribute("fmod", 0):
        return torch.fmod(x, y)
    return torch.remainder(x, y)


def _pow(call: Call) -> torch.Tensor:
    x, y = call.tensor(0), call.tensor(1)
    if not x.is_floating_point() and y.is_floating_point():
        # Computes an integer base in the exponent's type; the result has the base's type.
        return torch.pow(x.to(y.dtype), y).to(x.dtype)
    return torch.pow(x, y.to(x.dtype) if x.is_floating_point() else y).to(x.dtype)


def _shift(call: Call) -> torch.Tensor:
    x, y = call.tensor(0), call.tensor(1)
    is_left = call.choice("direction", "", "LEFT", "RIGHT") == "LEFT"
    return torch.bitwise_left_shift(x, y) if is_left else torch.bitwise_right_shift(x, y)


def _clip(call: Call) -> torch.Tensor:
    x = call.tensor()
    if call.version < 11:
        low, high = call.attribute("min"), call.attribute("max")
        return x if low is None and high is None else torch.clamp(x, low, high)
    for bound, function in ((call.optional(1), torch.maximum), (call.optional(2), torch.minimum)):
        x = x if bound is None else function(x, bound.reshape(()))
    return x


def _prelu(call: Call) -> torch.Tensor:
    x, slope = call.tensor(0), call.tensor(1)
    return torch.where(x < 0, slope * x, x)


def _elu(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return F.elu(x, alpha)


def _celu(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return F.celu(x, alpha)


def _selu(x: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    return torch.where(x > 0, gamma * x, gamma * (alpha * torch.exp(x) - alpha))


def _thresholded(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return torch.where(x > alpha, x, torch.zeros_like(x))


def _hard_sigmoid(x: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
    return torch.clamp(alpha * x + beta, 0, 1)


def _shrink(x: torch.Tensor, bias: float, lambd: float) -> torch.Tensor:
    low = torch.where(x < -lambd, x + bias, torch.zeros_like(x))
    return torch.where(x > lambd, x - bias, low)


def _gelu(call: Call) -> torch.Tensor:
    return F.gelu(call.tensor(), approximate=call.choice("approximate", "none", "none", "tanh"))


def _is_inf(call: Call) -> torch.Tensor:
    x = call.tensor()
    negative, positive = call.attribute("detect_negative", 1), call.attribute("detect_positive", 1)
    if negative and positive:
        return torch.isinf(x)
    if not negative and not positive:
        return torch.zeros_like(x, dtype=torch.bool)
    return torch.eq(x, float("inf") if positive else -float("inf"))


_ROUNDED_TO_MOST = 464.0
"""The greatest number that rounds to 448, the greatest number of E4M3FN."""


def _cast_to(x: torch.Tensor, dtype: torch.dtype, saturate: bool) -> torch.Tensor:
    if dtype is x.dtype:
        return x
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        most = torch.finfo(dtype).max
        wide = x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)
        if saturate:
            return torch.clamp(wide, -most, most).to(dtype)
        if dtype is torch.float8_e4m3fn:
            # PyTorch saturates here, but ONNX requires NaN for numbers that would round to more than 448.
            wide = torch.where(torch.abs(wide) > _ROUNDED_TO_MOST, torch.nan, wide)
        return wide.to(dtype)
    if dtype is torch.bool:
        wide = x.to(torch.float32) if x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else x
        return wide != 0
    return x.to(dtype)


def _cast(call: Call) -> torch.Tensor:
    return _cast_to(call.tensor(), dtype_of(call.attribute("to")), bool(call.attribute("saturate", 1)))


def _cast_like(call: Call) -> torch.Tensor:
    return _cast_to(call.tensor(), call.kind(1), bool(call.attribute("saturate", 1)))


def _bit_cast(call: Call) -> torch.Tensor:
    dtype = dtype_of(call.attribute("to"))
    x = call.tensor()
    if dtype.itemsize != x.dtype.itemsize:
        raise OnnxError(f"expected an element type of {x.dtype.itemsize} bytes, got one of {dtype.itemsize}")
    return x.view(dtype)


def _where(call: Call) -> torch.Tensor:
    return torch.where(call.tensor(0), call.tensor(1), call.tensor(2))


def _dropout(call: Call) -> Any:
    x = call.tensor()
    trains = call.number(2, default=False) and (call.number(1, default=0.5) != 0)
    if trains:
        raise OnnxError("random numbers are not supported: expected training_mode to be false")
    return x, torch.ones_like(x, dtype=torch.bool)


def _swish(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x * torch.sigmoid(x if alpha == 1 else alpha * x)


def _mean(call: Call) -> torch.Tensor:
    return functools.reduce(torch.add, call.tensors()) / len(call)


_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "BitwiseNot": torch.bitwise_not,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": F.hardswish,
    "Identity": lambda x: x,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}

_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Add": torch.add,
    "And": torch.logical_and,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "Div": _divide,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Mul": torch.mul,
    "Or": torch.logical_or,
    "Sub": torch.sub,
    "Xor": torch.logical_xor,
}

ELEMENTWISE: dict[str, Operator] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    "Max": _variadic(torch.maximum),
    "Min": _variadic(torch.minimum),
    "Sum": _variadic(torch.add),
    "Celu": _with(_celu, alpha=1.0),
    "Elu": _with(_elu, alpha=1.0),
    "HardSigmoid": _with(_hard_sigmoid, alpha=0.2, beta=0.5),
    "LeakyRelu": _with(F.leaky_relu, alpha=0.01),
    "Selu": _with(_selu, alpha=1.6732631921768188, gamma=1.0507010221481323),
    "Shrink": _with(_shrink, bias=0.0, lambd=0.5),
    "Swish": _with(_swish, alpha=1.0),
    "ThresholdedRelu": _with(_thresholded, alpha=1.0),
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Clip": _clip,
    "Dropout": _dropout,
    "Gelu": _gelu,
    "IsInf": _is_inf,
    "Mean": _mean,
    "Mod": _mod,
    "PRelu": _prelu,
    "Pow": _pow,
    "Where": _where,
}
