# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K5) Scaled dot-product attention block by block, for sequences whose whole matrix of weights is too much to keep.

The forward pass goes by blocks of queries, the backward pass by blocks of keys, for which it computes the weights
again. What a causal mask takes out of whole blocks is not computed at all. Only what dropout keeps, and the gradient of
a mask, are whole matrices.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.errors import CaptureError


class BlockedAttention(TorchFunctionMode):
    """Replaces `scaled_dot_product_attention` while it is active, also where PyTorch's own modules call it."""

    def __init__(self, block: int) -> None:
        """`block`: queries, or keys, of a block; at least 1."""
        super().__init__()
        self._block = block
        self._original: Callable[..., torch.Tensor] = F.scaled_dot_product_attention

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = self._attend if function is self._original else function
        return replacement(*args, **(kwargs or {}))

    def __enter__(self) -> "BlockedAttention":
        # A function that the mode sees runs without it: multi_head_attention_forward would find the original.
        F.scaled_dot_product_attention = self._attend
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        F.scaled_dot_product_attention = self._original

    def _attend(
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
        """As torch.nn.functional.scaled_dot_product_attention."""
        _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (_autocast(x) for x in (query, key, value))
            with torch.autocast("cpu", enabled=False):
                return self._attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
        result_dtype = query.dtype
        query, key, value = (x.to(dtype) for x in (query, key, value))
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
        queries, keys, size = query.shape[-2], key.shape[-2], query.shape[-1]
        operands = [query, key, value] if attn_mask is None else [query, key, value, attn_mask]
        batch = torch.broadcast_shapes(*(x.shape[:-2] for x in operands))
        if 0 in (*batch, queries, keys, size, value.shape[-1]):
            result = self._original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
            return result.to(result_dtype)

        def items(x: torch.Tensor) -> torch.Tensor:
            return x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])

        if attn_mask is not None:
            mask_dtype = torch.bool if attn_mask.dtype == torch.bool else dtype
            attn_mask = attn_mask.to(mask_dtype).expand(*batch, queries, keys).reshape(-1, queries, keys)
        kept = None
        if dropout_p > 0.0:
            weights = torch.empty([math.prod(batch), queries, keys], dtype=torch.float32, device=query.device)
            kept = weights.bernoulli_(1.0 - dropout_p).to(torch.bool)
        settings = _Settings(self._block, is_causal, dropout_p)
        scaled = items(query) * (1.0 / math.sqrt(size) if scale is None else scale)
        result = _Attention.apply(scaled, items(key), items(value), attn_mask, kept, settings)
        return result.reshape(*batch, queries, value.shape[-1]).to(result_dtype)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
    enable_gqa: bool,
) -> None:
    """Raises a CaptureError for what the framework's function refuses."""
    shapes = ", ".join(str(list(x.shape)) for x in (query, key, value))
    if min(query.dim(), key.dim(), value.dim()) < (3 if enable_gqa else 2):
        raise CaptureError(
            f"expected query, key and value of {3 if enable_gqa else 2} dimensions or more, got {shapes}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise CaptureError(f"expected query [.., L, E], key [.., S, E] and value [.., S, F], got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise CaptureError(
            f"expected query, key and value of one element type, got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if enable_gqa and any(x.shape[-3] == 0 or query.shape[-3] % x.shape[-3] for x in (key, value)):
        raise CaptureError(f"expected heads of key and value that divide those of query, got {shapes}")
    if is_causal and mask is not None:
        raise CaptureError("expected either attn_mask or is_causal, got both")
    if mask is not None and not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise CaptureError(f"expected booleans or floats as attn_mask, got {mask.dtype}")
    if not 0.0 <= dropout <= 1.0:
        raise CaptureError(f"expected 0 to 1 as dropout_p, got {dropout}")


def _autocast(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.to(torch.get_autocast_dtype("cpu"))


@dataclass(frozen=True)
class _Settings:
    block: int
    is_causal: bool
    dropout: float

    def count_keys(self, queries: int, keys: int) -> int:
        """So many of the first `keys` are met by the first `queries`."""
        return min(queries, keys) if self.is_causal else keys


@dataclass(frozen=True)
class _Scores:
    """The scores of blocks; `q` is scaled. All tensors have three dimensions, the first is the items of the batch."""

    q: torch.Tensor
    k: torch.Tensor
    mask: torch.Tensor | None
    is_causal: bool
    positions: torch.Tensor

    @classmethod
    def of(cls, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, is_causal: bool) -> "_Scores":
        # One tensor for all blocks: its parts are read where they lie.
        return cls(q, k, mask, is_causal, torch.arange(max(q.shape[1], k.shape[1]), dtype=torch.int32, device=q.device))

    def block(self, rows: slice, columns: slice) -> torch.Tensor:
        scores = self.q[:, rows] @ self.k[:, columns].mT
        if self.mask is not None:
            mask = self.mask[:, rows, columns]
            return torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
        if self.is_causal and columns.stop > rows.start + 1:
            earlier = self.positions[columns].unsqueeze(0) <= self.positions[rows].unsqueeze(1)
            return torch.where(earlier, scores, -math.inf)
        return scores


class _Attention(torch.autograd.Function):
    """[N, L, E], [N, S, E], [N, S, F], mask [N, L, S] or None, what dropout keeps [N, L, S] or None -> [N, L, F]."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        kept: torch.Tensor | None,
        settings: _Settings,
    ) -> torch.Tensor:
        scores = _Scores.of(q, k, mask, settings.is_causal)
        outputs, maxima, logarithms = [], [], []
        for rows in _blocks(q.shape[1], settings.block):
            columns = slice(0, settings.count_keys(rows.stop, k.shape[1]))
            block = scores.block(rows, columns)
            greatest = block.amax(-1, keepdim=True)
            if mask is not None:
                # A query without keys has no weights rather than NaNs.
                greatest = torch.where(greatest == -math.inf, 0.0, greatest)
            weights = torch.exp(block - greatest)
            total = weights.sum(-1, keepdim=True)
            if mask is not None:
                total = torch.where(total == 0.0, 1.0, total)
            outputs.append(_drop(weights, kept, rows, columns, settings) @ v[:, columns] / total)
            maxima.append(greatest)
            logarithms.append(torch.log(total))
        output = torch.cat(outputs, 1)
        # Their sum would lose the logarithm beside a large maximum.
        ctx.save_for_backward(q, k, v, mask, kept, output, torch.cat(maxima, 1), torch.cat(logarithms, 1))
        ctx.settings = settings
        return output

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise CaptureError("attention_block: attention by blocks has no second derivative")
        q, k, v, mask, kept, output, maxima, logarithms = ctx.saved_tensors
        settings: _Settings = ctx.settings
        scores = _Scores.of(q, k, mask, settings.is_causal)
        products = (grad * output).sum(-1, keepdim=True)
        grads_k, grads_v, grads_mask = [], [], []
        grad_q = None
        met = settings.count_keys(q.shape[1], k.shape[1])
        for columns in _blocks(met, settings.block):
            rows = slice(columns.start if settings.is_causal else 0, q.shape[1])
            weights = torch.exp((scores.block(rows, columns) - maxima[:, rows]) - logarithms[:, rows])
            above = _drop(grad[:, rows] @ v[:, columns].mT, kept, rows, columns, settings)
            grad_scores = weights * (above - products[:, rows])
            grads_v.append(_drop(weights, kept, rows, columns, settings).mT @ grad[:, rows])
            grads_k.append(grad_scores.mT @ q[:, rows])
            grads_mask.append(grad_scores)
            part = grad_scores @ k[:, columns]
            if grad_q is None:
                grad_q = part
            else:
                grad_q = torch.slice_scatter(grad_q, grad_q[:, rows] + part, 1, rows.start)
        if met < k.shape[1]:
            grads_k.append(torch.zeros_like(k[:, met:]))
            grads_v.append(torch.zeros_like(v[:, met:]))
        grad_mask = torch.cat(grads_mask, 2) if ctx.needs_input_grad[3] else None
        return grad_q, torch.cat(grads_k, 1), torch.cat(grads_v, 1), grad_mask, None, None


def _blocks(size: int, block: int) -> Sequence[slice]:
    return [slice(first, min(first + block, size)) for first in range(0, size, block)]


def _drop(x: torch.Tensor, kept: torch.Tensor | None, rows: slice, columns: slice, settings: _Settings) -> torch.Tensor:
    if kept is None:
        return x
    factor = 0.0 if settings.dropout >= 1.0 else 1.0 / (1.0 - settings.dropout)
    return torch.where(kept[:, rows, columns], x * factor, 0.0)
