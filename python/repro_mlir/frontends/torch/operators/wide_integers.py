# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Unsigned 64-bit integers, which no signed type can represent: operators on their bits in int64 (I1)."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_MIN = -(2**63)


def _ordered(x: Any) -> Any:
    """Flips the sign bit, so that signed comparisons order the results as unsigned numbers."""
    return x ^ _MIN


def of_float(x: torch.Tensor) -> torch.Tensor:
    """Converts floats to unsigned integers and returns the integers' bits: rounds toward zero, saturates, and maps NaN
    to 0 (S3).
    """
    half = 2.0**63
    upper = (x - half).to(torch.int64) ^ _MIN
    low = torch.clamp(x.to(torch.int64), min=0)
    return torch.where(x >= half, upper, low)


def to_float(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Converts the unsigned integers with the given bits to floats, rounded once."""
    one = torch.ones([], dtype=torch.int64)
    # A number of at least 2^63 is halved; the lost bit is merged into the last bit, so that the rounding is the same.
    half = (_shift_right(bits, one) | (bits & 1)).to(dtype)
    return torch.where(bits < 0, half * 2, bits.to(dtype))


def _shift_right(x: Any, amount: Any) -> torch.Tensor:
    kept = torch.where((amount < 0) | (amount > 63), 0, amount) if isinstance(amount, torch.Tensor) else amount
    if not isinstance(kept, torch.Tensor):
        kept = torch.full([], kept if 0 <= kept <= 63 else 64, dtype=torch.int64)
    shifted = torch.bitwise_right_shift(x, kept)
    # Clear the copies of the sign bit.
    mask = torch.bitwise_left_shift(torch.bitwise_left_shift(torch.full([], -1), 63 - kept), torch.ones_like(kept))
    within = shifted & ~torch.where(kept == 0, 0, mask)
    over = (amount < 0) | (amount > 63)
    return torch.where(over, 0, within) if isinstance(over, torch.Tensor) else within * (not over)


def _divided(x: torch.Tensor, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the quotient and remainder; for a divisor of 0, the quotient has all bits set and the remainder is x
    (I1).
    """
    y = y if isinstance(y, torch.Tensor) else torch.full([], y, dtype=torch.int64)
    one = torch.ones([], dtype=torch.int64)
    # The quotient by a divisor of at least 2^63 is 1 or 0.
    large = torch.where(_ordered(x) >= _ordered(y), one, one - one)
    divisor = torch.where(y > 0, y, one)
    first = torch.bitwise_left_shift(torch.div(_shift_right(x, one), divisor, rounding_mode="trunc"), one)
    rest = x - first * divisor
    small = first + torch.where(_ordered(rest) >= _ordered(divisor), one, one - one)
    quotient = torch.where(y == 0, -one, torch.where(y < 0, large, small))
    return quotient, torch.where(y == 0, x, x - quotient * y)


def _compared(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, y: operator(_ordered(x), _ordered(y))


def _chosen(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *args: _ordered(operator(*map(_ordered, args)))


def _top(x: torch.Tensor, *args: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.topk(_ordered(x), *args, **named)
    return _ordered(values), indices


def _sort(x: torch.Tensor, *, stable: bool | None = None, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.sort(_ordered(x), stable=bool(stable), **named)
    return _ordered(values), indices


RULES: dict[str, Callable[..., Any]] = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": _compared(torch.lt),
    "le": _compared(torch.le),
    "gt": _compared(torch.gt),
    "ge": _compared(torch.ge),
    "maximum": _chosen(torch.maximum),
    "minimum": _chosen(torch.minimum),
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "bitwise_not": torch.bitwise_not,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_right_shift": _shift_right,
    "__and__": torch.bitwise_and,
    "__or__": torch.bitwise_or,
    "__xor__": torch.bitwise_xor,
    "__lshift__": torch.bitwise_left_shift,
    "__rshift__": _shift_right,
    "div": lambda x, y, rounding_mode: _divided(x, y)[0],
    "floor_divide": lambda x, y: _divided(x, y)[0],
    "remainder": lambda x, y: _divided(x, y)[1],
    "fmod": lambda x, y: _divided(x, y)[1],
    "topk": _top,
    "sort": _sort,
}
"""The rules, keyed by the operator's name; unsigned operands and results are bits in int64."""
