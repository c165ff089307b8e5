# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Computes low-precision operators in f32 with one rounding: rule (V1) of docs/reference/numerics.md."""

from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.torch_internals import pytree

aten = torch.ops.aten

LOW_PRECISION = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)

# Operators that are called without a conversion: those that only move, compare or select elements (nan_to_num uses the
# limits of the type), and those whose accumulator is wide (F7).
_EXACT = {
    getattr(aten, name)
    for name in """
    mm bmm convolution convolution_backward _to_copy copy_ copy clone detach alias view _unsafe_view reshape permute t
    transpose expand squeeze squeeze_ unsqueeze unsqueeze_ select slice slice_scatter select_scatter slice_backward
    select_backward cat stack split split_with_sizes unbind embedding index index_select gather flip roll
    constant_pad_nd where masked_fill masked_fill_ fill_ fill zero_ zeros_like ones_like full_like empty_like new_zeros
    new_ones new_full new_empty relu relu_ neg neg_ abs abs_ max_pool2d_with_indices amax amin max min maximum minimum
    argmax argmin sort topk repeat lift_fresh_copy tril triu diagonal diagonal_copy scatter eq ne lt le gt ge isnan
    isinf nan_to_num threshold_backward as_strided view_as unfold expand_as t_ transpose_ zero sign lift lift_fresh
    """.split()
}


def _rises(function: Any) -> bool:
    return (
        getattr(function, "namespace", None) == "aten"
        and function.overloadpacket not in _EXACT
        and not function._schema.is_mutable
    )


def _widen(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in LOW_PRECISION:
        return value.to(torch.float32)
    return torch.float32 if value in LOW_PRECISION else value


def call_in_f32(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> Any:
    """Calls an ATen operator with its low-precision tensors widened to f32.

    Args:
      function, args, kwargs: the call.
      expected: the fake results of the call in the trace; the results are converted to the element types of these.
    """
    if function is aten._to_copy.default and kwargs.get("dtype") is torch.float8_e4m3fn:
        args = (_saturate(args[0]), *args[1:])
    if function is aten.copy_.default and args[0].dtype is torch.float8_e4m3fn:
        args = (args[0], _saturate(args[1]), *args[2:])
    flat, spec = pytree.tree_flatten((args, kwargs))
    if not any(isinstance(value, torch.Tensor) and value.dtype in LOW_PRECISION for value in flat):
        return function(*args, **kwargs)
    if not _rises(function):
        changed = _in_place_in_f32(function, args, kwargs)
        return function(*args, **kwargs) if changed is None else changed
    wide_args, wide_kwargs = pytree.tree_unflatten(
        [_widen(v) if isinstance(v, torch.Tensor | torch.dtype) else v for v in flat], spec
    )
    return pytree.tree_map(_narrow, function(*wide_args, **wide_kwargs), expected)


def _narrow(result: Any, expected: Any) -> Any:
    if isinstance(result, torch.Tensor) and isinstance(expected, torch.Tensor) and result.dtype != expected.dtype:
        return (_saturate(result) if expected.dtype is torch.float8_e4m3fn else result).to(expected.dtype)
    return result


def _saturate(x: torch.Tensor) -> torch.Tensor:
    """Clamps to the finite range: PyTorch's cast to float8_e4m3fn saturates, even for infinities; (S3) would return
    NaN.
    """
    if x.dtype is torch.float8_e4m3fn:
        return x
    largest = torch.finfo(torch.float8_e4m3fn).max
    if not x.dtype.is_floating_point or x.dtype in LOW_PRECISION:
        x = x.to(torch.float32)
    return x.clamp(-largest, largest)


def _in_place_in_f32(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Computes `x.op_(...)` as `x.copy_(op(x, ...))`; None if `op_` only moves elements or `op` does not exist."""
    packet = getattr(function, "overloadpacket", None)
    if getattr(function, "namespace", None) != "aten" or packet in _EXACT or not function._schema.is_mutable:
        return None
    name = function._schema.name.removeprefix("aten::")
    if not name.endswith("_") or name.endswith("__") or name.startswith("_foreach"):
        return None
    twin = getattr(getattr(aten, name[:-1], None), function._overloadname, None)
    if twin is None or not isinstance(args[0], torch.Tensor):
        return None
    return args[0].copy_(call_in_f32(twin, args, kwargs, args[0]))
