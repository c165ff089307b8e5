# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes torch.compile's fused multiply-add, `prims.fma`, which PyTorch defines only if Inductor is loaded."""

from collections.abc import Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.repro_operations import Builder, define


def is_fma(function: Any) -> bool:
    """Returns whether `function` is the operator a * b + c with one rounding."""
    schema = getattr(function, "_schema", None)
    return schema is not None and schema.name == "prims::fma"


def call_fma(a: torch.Tensor, b: torch.Tensor | float, c: torch.Tensor) -> torch.Tensor:
    """Computes a * b + c with one rounding; numbers and tensors of shape [] get the element type of the others."""
    dtype = torch.promote_types(torch.result_type(a, b), torch.result_type(a, c))
    tensors = [each if isinstance(each, torch.Tensor) else torch.full([], each, dtype=dtype) for each in (a, b, c)]
    shape = torch.broadcast_shapes(*(each.shape for each in tensors))
    return _FMA(*(each.to(dtype).expand(shape).contiguous() for each in tensors))


def _write(build: Builder, *operands: Any) -> Sequence[Any]:
    return [build.elementwise("math.fma", operands)]


_FMA = define(
    "fma(Tensor a, Tensor b, Tensor c) -> Tensor",
    meta=lambda a, b, c: torch.empty_like(a),
    write=_write,
)
