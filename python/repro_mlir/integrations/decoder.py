# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adapts a decoder of transformers to `repro_mlir.Generator` (docs/guides/huggingface.md)."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import sdpa_mask

from repro_mlir.base.errors import ReproError

_ATTENTION = "repro_causal"
"""The name under which our attention is registered with transformers."""

_EXPERTS = "batched_mm"
"""The implementation of a mixture of experts: a batched product multiplies each token by the weights of its experts."""

_TRIED = 8
"""The number of tokens in the trial run of a model."""

_DEVIATION = 1e-4
"""The tolerance relative to the greatest logit, because PyTorch's attention variants round differently."""


class Decoder(torch.nn.Module):
    """A causal language model of transformers as a module that maps tokens and positions to logits.

        generator = repro_mlir.Generator(Decoder(model).eval(), capacity=256)

    Attributes:
      model: the model. Calling it directly still uses its own implementations of attention and experts.
    """

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        """Checks that this module gives nearly the logits of the unmodified model for a few tokens.

        Raises:
          ReproError: `model` is not a transformers model, its attention cannot be replaced, it does not run, returns no
            finite logits, or does not number its tokens from 0.
        """
        super().__init__()
        if not isinstance(model, transformers.PreTrainedModel):
            raise ReproError(f"expected a model of transformers, got a {type(model).__qualname__}")
        if not getattr(model, "_supports_sdpa", False):
            raise ReproError(f"{type(model).__qualname__} has its own attention: expected a model that supports sdpa")
        self.model = model
        self._check_positions()

    def _check_positions(self) -> None:
        length = min(_TRIED, getattr(self.model.config, "max_position_embeddings", None) or _TRIED)
        positions = torch.arange(length)[None]
        tokens = positions % self.model.get_input_embeddings().num_embeddings
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        try:
            with torch.no_grad():
                own = self.model(input_ids=tokens, use_cache=False).logits
                found = self(tokens, positions)
        except ReproError:
            raise
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ReproError(f"{type(self.model).__qualname__} does not run on {length} tokens: {reason}") from error
        finally:
            for module, is_training in modes:
                module.training = is_training
        # Infinite logits are left out, since they would make the tolerance infinite.
        finite = own[own.isfinite()]
        if not finite.numel():
            raise ReproError(f"{type(self.model).__qualname__} returns no finite logits for {length} tokens")
        if not torch.allclose(found, own, rtol=0, atol=_DEVIATION * finite.abs().max().item(), equal_nan=True):
            raise ReproError(
                f"{type(self.model).__qualname__} returns other logits with the positions 0, 1, 2, ... than without "
                "positions: expected a model that counts tokens from 0"
            )

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Returns the logits, f32 [rows, length, vocabulary], of tokens at positions, both i64 [rows, length]."""
        config = self.model.config
        former = config._attn_implementation, config._experts_implementation
        config._attn_implementation, config._experts_implementation = _ATTENTION, _EXPERTS
        try:
            return self.model(input_ids=tokens, position_ids=positions, use_cache=False).logits
        finally:
            config._attn_implementation, config._experts_implementation = former


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Computes attention for transformers, which calls it with [rows, heads, length, size] operands. Grouped keys and
    values are not yet repeated."""
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise ReproError(f"attention with {name} is not supported: expected causal attention without it")
    if not (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        raise ReproError("expected causal attention, got attention to later tokens")
    # Options for an attention window are ignored: the mask already contains the window, and `Generator` checks the
    # mask.
    result = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        is_causal=attention_mask is None,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return result.transpose(1, 2).contiguous(), None


transformers.AttentionInterface.register(_ATTENTION, _attend)
# transformers creates no mask for an attention without a mask function, not even for an attention window.
transformers.AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
