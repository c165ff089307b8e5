# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Integer operators in integer arithmetic: torch-mlir's own lowerings compute in floats, crash on i8, or do not exist.

Where PyTorch raises an error or a processor traps, (I1) applies: x // 0 is -1, x % 0 is x, and overflow wraps.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

aten = torch.ops.aten


def of_one_kind(x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Converts tensors or Python numbers to tensors of the result's type; returns None if this is not an integer
    type."""
    kind = torch.result_type(x, y)
    if kind.is_floating_point or kind.is_complex:
        return None
    x, y = (v.to(kind) if isinstance(v, torch.Tensor) else _wrapped(v, kind) for v in (x, y))
    return x, y


def holds(kind: torch.dtype, number: int) -> bool:
    """Whether a type can represent an integer; True for floating-point, complex and bool types, to which any integer
    can be converted."""
    if kind.is_floating_point or kind.is_complex or kind is torch.bool:
        return True
    return torch.iinfo(kind).min <= number <= torch.iinfo(kind).max


def _wrapped(number: int, kind: torch.dtype) -> torch.Tensor:
    if kind is not torch.bool:
        half = 2 ** (torch.iinfo(kind).bits - 1)
        number = (number + half) % (2 * half) - half
    return torch.full([], number, dtype=kind)


def floor_divide(x: Any, y: Any) -> Any:
    """Returns x // y, or NotImplemented for floats."""
    operands = of_one_kind(x, y)
    if operands is None:
        return NotImplemented
    x, y = operands
    quotient = torch.div(x, y, rounding_mode="trunc")
    remainder = x - quotient * y
    above = ((remainder < 0) & (y > 0)) | ((remainder > 0) & (y < 0))
    return torch.where(above, quotient - 1, quotient)


def _divide(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return floor_divide(x, y)
    # For two tensors, torch-mlir's lowering already truncates in integer arithmetic.
    operands = None if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) else of_one_kind(x, y)
    if rounding_mode is None or operands is None:
        return NotImplemented
    return torch.div(*operands, rounding_mode="trunc")


def _of_tensors(operator: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Returns an operator that also accepts a Python number on one side, and returns NotImplemented for floats."""

    def call(x: Any, y: Any) -> Any:
        operands = of_one_kind(x, y)
        return NotImplemented if operands is None else operator(*operands)

    return call


def _with_number(operator: Any) -> Callable[..., Any]:
    def call(x: torch.Tensor, y: Any, **alpha: Any) -> Any:
        # torch-mlir's lowering crashes on a Python number next to an i8 tensor.
        operands = None if isinstance(y, torch.Tensor) else of_one_kind(x, y)
        return NotImplemented if operands is None else operator(*operands, **alpha)

    return call


def _compare(operator: Any) -> Callable[..., Any]:
    wrapped = _of_tensors(operator)

    def call(x: torch.Tensor, y: Any) -> Any:
        # PyTorch wraps a number that the tensor's type cannot represent, whereas torch-mlir's lowering compares in 64
        # bits.
        return NotImplemented if type(y) is not int or holds(x.dtype, y) else wrapped(x, y)

    return call


def _extremum(along: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def call(x: torch.Tensor) -> Any:
        # torch-mlir's lowering crashes on i8.
        return NotImplemented if x.dtype.is_floating_point else along(x, list(range(x.dim())))

    return call


def _linspace(start: float, end: float, steps: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    # PyTorch computes an integer linspace in f64, the first half from `start` and the second half from `end`, and
    # rounds toward zero; torch-mlir's lowering computes in f32.
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return NotImplemented
    step = (float(end) - float(start)) / max(steps - 1, 1)
    rising = [int(start + step * i) for i in range(steps // 2)]
    values = [*rising, *(int(end - step * (steps - 1 - i)) for i in range(steps // 2, steps))]
    # The tensor becomes a constant of the graph; `torch.tensor` would record operators that torch-mlir cannot lower.
    return torch.from_numpy(np.array(values, np.int64)).clone().to(dtype)


def _negate(x: torch.Tensor) -> Any:
    # torch-mlir's lowering multiplies by -1.0, that is, in floating point.
    return NotImplemented if x.dtype.is_floating_point or x.dtype.is_complex else torch.zeros([], dtype=x.dtype) - x


def _power(x: Any, y: Any) -> Any:
    """Computes a power by repeated squaring; as in PyTorch, a negative exponent rounds the result toward zero."""
    if isinstance(y, int):
        return _power_of_number(x, y)
    operands = of_one_kind(x, y)
    if operands is None:
        return NotImplemented
    base, exponent = operands
    one = torch.ones([], dtype=base.dtype)
    sign = torch.where((exponent & 1) == 1, base, one)
    inverse = torch.where(base == 1, one, torch.where(base == -1, sign, one - 1))
    result, square, rest = one, base, exponent
    for _ in range(torch.iinfo(base.dtype).bits - 1):
        result = torch.where((rest & 1) == 1, result * square, result)
        square, rest = square * square, torch.bitwise_right_shift(rest, torch.ones([], dtype=rest.dtype))
    return torch.where(exponent < 0, inverse, result)


def _power_of_number(x: torch.Tensor, exponent: int) -> Any:
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return NotImplemented
    kind = torch.result_type(x, exponent)
    square, result = x.to(kind), None
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square
    return torch.ones_like(x, dtype=kind) if result is None else result


_FEWEST_BITS_PER_STEP = math.log2((1 + math.sqrt(5)) / 2)
"""The number of bits by which a step of Euclid's algorithm reduces Fibonacci numbers, which are the worst case."""


def _greatest_divisor(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Returns the greatest common divisor. Takes as many steps of Euclid's algorithm as any two numbers of the type
    need."""
    operands = of_one_kind(x, y)
    if operands is None:
        return NotImplemented
    x, y = (value.abs() if value.dtype.is_signed else value for value in operands)
    zero = torch.zeros([], dtype=x.dtype)
    for _ in range(math.ceil(torch.iinfo(x.dtype).bits / _FEWEST_BITS_PER_STEP) + 1):
        is_done = y == zero
        x, y = torch.where(is_done, x, y), torch.where(is_done, zero, torch.fmod(x, y))
    return x


def _least_multiple(x: torch.Tensor, y: torch.Tensor) -> Any:
    operands = of_one_kind(x, y)
    if operands is None:
        return NotImplemented
    # PyTorch computes narrow integers in 32 bits.
    wide = [each.to(torch.int32) if each.dtype in (torch.int8, torch.int16) else each for each in operands]
    divisor = _greatest_divisor(*wide)
    one = torch.ones([], dtype=divisor.dtype)
    product = torch.div(wide[0], torch.where(divisor == 0, one, divisor), rounding_mode="trunc") * wide[1]
    return (product.abs() if product.dtype.is_signed else product).to(operands[0].dtype)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.gcd.default: _greatest_divisor,
    aten.lcm.default: _least_multiple,
    aten.div.Tensor_mode: _divide,
    aten.div.Scalar_mode: _divide,
    aten.floor_divide.default: floor_divide,
    aten.floor_divide.Scalar: floor_divide,
    aten.fmod.Scalar: _of_tensors(aten.fmod.Tensor),
    aten.remainder.Scalar: _of_tensors(aten.remainder.Tensor),
    aten.remainder.Scalar_Tensor: _of_tensors(aten.remainder.Tensor),
    aten.sub.Tensor: _with_number(aten.sub.Tensor),
    aten.mul.Tensor: _with_number(aten.mul.Tensor),
    aten.max.default: _extremum(aten.amax),
    aten.min.default: _extremum(aten.amin),
    aten.linspace.default: _linspace,
    aten.neg.default: _negate,
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
}
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    DECOMPOSITIONS[getattr(aten, _name).Scalar] = _compare(getattr(aten, _name).Tensor)
for _name in ("and", "or", "xor"):
    _bitwise = getattr(aten, f"bitwise_{_name}")
    for _operator in (_bitwise.Scalar, _bitwise.Scalar_Tensor, getattr(aten, f"__{_name}__").Scalar):
        DECOMPOSITIONS[_operator] = _of_tensors(_bitwise.Tensor)
for _name, _short in (("left", "l"), ("right", "r")):
    _shift = getattr(aten, f"bitwise_{_name}_shift")
    for _operator in (
        _shift.Tensor_Scalar,
        _shift.Scalar_Tensor,
        getattr(aten, f"__{_short}shift__").Tensor,
        getattr(aten, f"__{_short}shift__").Scalar,
    ):
        DECOMPOSITIONS[_operator] = _of_tensors(_shift.Tensor)
