# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls `torch._foreach_*` operators as one operator per tensor."""

from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError

aten = torch.ops.aten


def is_foreach(function: Any) -> bool:
    """Returns whether `function` is an ATen operator on lists of tensors."""
    schema = getattr(function, "_schema", None)
    return schema is not None and schema.name.startswith("aten::_foreach_")


def call_foreach(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
    """Applies `function` tensor by tensor; returns the results, or None for an in-place operator."""
    name = function._schema.name.removeprefix("aten::_foreach_")
    in_place = name.endswith("_")
    name = name.rstrip("_")
    first = args[0]
    operator = getattr(torch, "zeros_like" if name == "zero" else name, None)
    if name == "copy" and in_place:
        for destination, source in zip(first, args[1], strict=True):
            destination.copy_(source)
        return None
    if operator is None:
        raise CaptureError(f"operator {function} is not supported")
    arguments = {a.name: value for a, value in zip(function._schema.arguments, args, strict=False)} | kwargs
    del arguments["self"]
    results = []
    for index, tensor in enumerate(first):
        own = {k: v[index] if isinstance(v, list | tuple) and len(v) == len(first) else v for k, v in arguments.items()}
        results.append(_call(name, operator, tensor, own))
    if not in_place:
        return results
    for destination, result in zip(first, results, strict=True):
        destination.copy_(result)
    return None


def _call(name: str, operator: Any, tensor: torch.Tensor, arguments: dict[str, Any]) -> torch.Tensor:
    if name in ("addcdiv", "addcmul"):
        value = arguments.get("value", arguments.get("scalars", 1))
        return operator(tensor, arguments["tensor1"], arguments["tensor2"], value=value)
    if name == "lerp":
        return operator(tensor, arguments["tensors1"], arguments.get("weights", arguments.get("weight")))
    if name == "norm":
        return torch.linalg.vector_norm(tensor, arguments.get("ord", 2), dtype=arguments.get("dtype"))
    if name in ("add", "sub") and "alpha" in arguments:
        return operator(tensor, arguments["other"], alpha=arguments["alpha"])
    return operator(tensor, *arguments.values())
