# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The bits of floats as integers, and functions that compute on those bits."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_mlir_names import ir

aten = torch.ops.aten

_INTEGERS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
_FLOATS = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
_NAN_BITS = {"f64": 0x7FF8000000000000, "f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0}


def canonical_bits(build: Builder, value: ir.Value, compared: ir.Value, kind: ir.Type, nan: int) -> ir.Value:
    """(V4) Returns the bits of a float as an integer, with every NaN made canonical.

    Args:
      compared: the value in a type that `arith.cmpf` accepts.
      kind: the integer's type.
      nan: the bits of the canonical NaN.
    """
    bits = ir.Operation.create("arith.bitcast", operands=[value], results=[kind]).result
    attributes = {"value": ir.IntegerAttr.get(kind, nan)}
    canonical = ir.Operation.create("arith.constant", attributes=attributes, results=[kind]).result
    unordered = ir.Operation.create(
        "arith.cmpf",
        operands=[compared, compared],
        # 14 is the predicate uno (unordered), which is true for NaN.
        attributes={"predicate": build.i64(14)},
        results=[ir.IntegerType.get_signless(1)],
    ).result
    return ir.Operation.create("arith.select", operands=[unordered, canonical, bits], results=[kind]).result


def _write_bits(build: Builder, x: Any) -> Sequence[Any]:
    """(V4) Writes a bitcast to integers, and replaces the bits of each NaN by those of the canonical NaN."""
    kind = ir.RankedTensorType(build.types[0])
    identity = ir.AffineMap.get_identity(kind.rank)

    def compute(values: Sequence[ir.Value]) -> ir.Value:
        (value,) = values
        return canonical_bits(build, value, value, kind.element_type, _NAN_BITS[str(value.type)])

    return [build.generic([x], [identity], compute)]


def _write_float(build: Builder, x: Any, dtype: str) -> Sequence[Any]:
    return [build.elementwise("arith.bitcast", [x])]


def _bits_eager(x: torch.Tensor) -> torch.Tensor:
    canonical = torch.full([], float("nan"), dtype=x.dtype).view(_INTEGERS[x.dtype])
    return torch.where(torch.isnan(x), canonical, x.view(_INTEGERS[x.dtype]))


_BITS = define(
    "bits_of(Tensor x) -> Tensor",
    eager=_bits_eager,
    meta=lambda x: torch.empty(x.shape, dtype=_INTEGERS[x.dtype], device=x.device),
    write=_write_bits,
)
_FLOAT = define(
    "float_of(Tensor x, str dtype) -> Tensor",
    eager=lambda x, dtype: x.view(_FLOATS[dtype]).clone(),
    meta=lambda x, dtype: torch.empty(x.shape, dtype=_FLOATS[dtype], device=x.device),
    write=_write_float,
)


def _float_of(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _FLOAT(x, str(dtype).removeprefix("torch."))


def _view(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """Reinterprets x as another type of the same width."""
    if x.dtype is dtype:
        return x.clone()
    if _INTEGERS.get(x.dtype) is dtype:
        return _BITS(x)
    if _INTEGERS.get(dtype) is x.dtype:
        return _float_of(x, dtype)
    return NotImplemented


def _next_after(x: torch.Tensor, y: torch.Tensor) -> Any:
    if not (x.dtype is y.dtype and x.dtype in (torch.float32, torch.float64)):
        return NotImplemented
    x, y = torch.broadcast_tensors(x, y)
    bits = _BITS(x)
    # The bits of floats, read as integers, order the floats by magnitude.
    grows = (x < y) == (x > 0)
    moved = _float_of(torch.where(grows, bits + 1, bits - 1), x.dtype)
    one = torch.full([], 1, dtype=bits.dtype)
    least = _float_of(one, x.dtype)
    moved = torch.where(x == 0, torch.where(y > 0, least, -least), moved)
    moved = torch.where(x == y, y, moved)
    return torch.where(torch.isnan(x) | torch.isnan(y), x + y, moved)


def _frexp(x: torch.Tensor) -> Any:
    if x.dtype is not torch.float32:
        return NotImplemented
    # Scale subnormal numbers to normal ones.
    low = x.abs() < 2.0**-126
    bits = _BITS(torch.where(low, x * 2.0**25, x))
    shift = torch.full([], 23, dtype=torch.int32)
    exponent = (torch.bitwise_right_shift(bits, shift) & 255) - 126
    exponent = torch.where(low, exponent - 25, exponent)
    mantissa = _float_of((bits & -0x7F800001) | 0x3F000000, torch.float32)
    still = (x == 0) | ~(x.abs() < torch.inf)
    return torch.where(still, x, mantissa), torch.where(still, torch.zeros_like(exponent), exponent)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.view.dtype: _view,
    aten.nextafter.default: _next_after,
    aten.frexp.Tensor: _frexp,
}
