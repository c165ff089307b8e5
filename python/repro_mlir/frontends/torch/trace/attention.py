# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K5) Scaled dot-product attention block by block: the compiler's `repro.attention` and `repro.attention_gradient`.

This module checks the arguments as PyTorch's function does and converts them to the operands of these operations:
numbers become f32, and all dimensions but the last two become a single one.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.repro_operations import Builder, define
from repro_mlir.frontends.torch.base.torch_internals import DisableTorchFunction
from repro_mlir.frontends.torch.trace.random_sites import current_sites


class ReplacedAttention(TorchFunctionMode):
    """While this mode is active, replaces `scaled_dot_product_attention`, also in calls from PyTorch's own modules."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        """`attend`: the function that is called instead of PyTorch's function, with the same arguments."""
        super().__init__()
        self._attend = attend
        self._original: Callable[..., torch.Tensor] = F.scaled_dot_product_attention

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = self._attend if function is self._original else function
        return replacement(*args, **(kwargs or {}))

    def __enter__(self) -> "ReplacedAttention":
        # PyTorch disables the mode within functions that the mode handles, such as multi_head_attention_forward, which
        # would then call the original function.
        F.scaled_dot_product_attention = self._attend
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        F.scaled_dot_product_attention = self._original

    def original(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Calls PyTorch's function itself."""
        with DisableTorchFunction():
            return self._original(*args, **kwargs)


class BlockedAttention(ReplacedAttention):
    """While this mode is active, replaces `scaled_dot_product_attention` by blocked attention."""

    def __init__(self, block: int) -> None:
        """`block`: the number of queries, or keys, of a block; at least 1."""
        super().__init__(self._attend_by_blocks)
        self._block = block

    def _attend_by_blocks(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (_autocast(x) for x in (query, key, value))
            with torch.autocast("cpu", enabled=False):
                return self._attend_by_blocks(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        result_dtype = query.dtype
        query, key, value = (x.to(torch.float32) for x in (query, key, value))
        queries, keys, size = query.shape[-2], key.shape[-2], query.shape[-1]
        heads = query.shape[-3] if enable_gqa else None
        shapes = [x.shape[:-2] if heads is None else (*x.shape[:-3], heads) for x in (query, key, value)]
        if attn_mask is not None:
            shapes.append(attn_mask.shape[:-2])
        batch = torch.broadcast_shapes(*shapes)
        if 0 in (*batch, queries, keys, size, value.shape[-1]):
            result = self.original(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
            return result.to(result_dtype)
        if attn_mask is not None:
            mask_dtype = torch.bool if attn_mask.dtype == torch.bool else torch.float32
            attn_mask = attn_mask.to(mask_dtype).expand(*batch, queries, keys).reshape(-1, queries, keys)
        seed = step = site = None
        if dropout_p > 0.0:
            sites = current_sites()
            seed, step, site = sites.seed, sites.step, sites.take()
        settings = (
            is_causal,
            min(self._block, max(queries, keys)),
            1.0 / math.sqrt(size) if scale is None else float(scale),
            None if site is None else float(dropout_p),
            site,
        )
        operands = [_items(x, batch, heads) for x in (query, key, value)]
        result = _Attention.apply(*operands, attn_mask, seed, step, settings)
        return result.reshape(*batch, queries, value.shape[-1]).to(result_dtype)


def _items(x: torch.Tensor, batch: Sequence[int], heads: int | None) -> torch.Tensor:
    """Reshapes `x` [.., rows, columns] to [items, rows, columns], with one item per batch element and head. A head of
    keys or values that a group of query heads shares stays one item, unless `x` is broadcast.
    """
    if heads is not None and (*x.shape[:-3], heads) != tuple(batch):
        # Heads are repeated before the broadcast, so that gradients are summed over the broadcast dimensions first and
        # then over the heads of a group.
        x = x.repeat_interleave(heads // x.shape[-3], -3)
        heads = None
    if heads is None:
        x = x.expand(*batch, *x.shape[-2:])
    return x.reshape(-1, *x.shape[-2:])


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
    enable_gqa: bool,
) -> None:
    """Raises a CaptureError for arguments that PyTorch's function or (K5) does not support."""
    shapes = ", ".join(str(list(x.shape)) for x in (query, key, value))
    if min(query.dim(), key.dim(), value.dim()) < (3 if enable_gqa else 2):
        raise CaptureError(
            f"expected query, key and value of {3 if enable_gqa else 2} dimensions or more, got {shapes}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise CaptureError(f"expected query [..., L, E], key [..., S, E] and value [..., S, F], got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise CaptureError(
            f"expected query, key and value of the same element type, got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if not query.is_floating_point() or query.dtype == torch.float64:
        raise CaptureError(f"expected floats of at most 32 bits (K5) for attention by blocks, got {query.dtype}")
    if enable_gqa and any(x.shape[-3] == 0 or query.shape[-3] % x.shape[-3] for x in (key, value)):
        raise CaptureError(f"expected numbers of heads of key and value that divide that of query, got {shapes}")
    if is_causal and mask is not None:
        raise CaptureError("expected either attn_mask or is_causal, got both")
    if mask is not None and not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise CaptureError(f"expected booleans or floats as attn_mask, got {mask.dtype}")
    if not 0.0 <= dropout <= 1.0:
        raise CaptureError(f"expected dropout_p from 0 to 1, got {dropout}")


def _autocast(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.get_autocast_dtype("cpu"))


class _Attention(torch.autograd.Function):
    """Maps query [N, L, E], key [K, S, E], value [V, S, F] and a mask [N, L, S] or None to [N, L, F]. `settings` has
    the attributes that `_SETTINGS` declares.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        seed: torch.Tensor | None,
        step: torch.Tensor | None,
        settings: tuple[Any, ...],
    ) -> torch.Tensor:
        operands = (query, key, value, mask, seed, step)
        results = _ATTENTION(*operands, *settings)
        ctx.save_for_backward(*operands, *results)
        ctx.settings = settings
        return results[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise CaptureError("attention by blocks has no second derivative: expected attention_block=None")
        *operands, output, maxima, logarithms = ctx.saved_tensors
        mask = operands[3]
        function = _GRADIENT if mask is None or mask.dtype == torch.bool else _GRADIENT_OF_MASK
        gradients = function(*operands, gradient, output, maxima, logarithms, *ctx.settings)
        return *gradients, *[None] * (7 - len(gradients))


# --- The operations ---

_OPERANDS = "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? seed, Tensor? step"
_RESULTS = "Tensor gradient, Tensor output, Tensor maxima, Tensor logarithms"
_SETTINGS = "bool causal, int block, float scale, float? rate, int? site"


def _write(build: Builder, name: str, operands: Sequence[Any], settings: Sequence[Any]) -> Sequence[Any]:
    query, key, value, mask, seed, step, *others = operands
    is_causal, block, scale, rate, site = settings
    attributes = {"block": build.i64(block), "scale": build.f64(scale)}
    if is_causal:
        attributes["causal"] = build.attribute("unit")
    if site is not None:
        attributes |= {"rate": build.f64(rate), "site": build.i64(site)}
    optional = [[] if mask is None else [mask], *([] if x is None else [build.scalar(x)] for x in (seed, step))]
    segments = [[query], [key], [value], *optional, *([x] for x in others)]
    return build.create(name, segments, build.types, attributes)


def _meta(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    items, queries = query.shape[:2]
    return (
        query.new_empty(items, queries, value.shape[-1]),
        query.new_empty(items, queries),
        query.new_empty(items, queries),
    )


_ATTENTION = define(
    f"attention({_OPERANDS}, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
    meta=_meta,
    write=lambda build, *arguments: _write(build, "repro.attention", arguments[:6], arguments[6:]),
)


def _define_gradient(name: str, count: int) -> Any:
    """Defines the operator that computes the gradients of the first `count` operands."""
    return define(
        f"{name}({_OPERANDS}, {_RESULTS}, {_SETTINGS}) -> ({', '.join(['Tensor'] * count)})",
        meta=lambda *arguments: tuple(torch.empty_like(x) for x in arguments[:count]),
        write=lambda build, *arguments: _write(build, "repro.attention_gradient", arguments[:10], arguments[10:]),
    )


_GRADIENT = _define_gradient("attention_gradient", 3)
_GRADIENT_OF_MASK = _define_gradient("attention_gradient_of_mask", 4)
