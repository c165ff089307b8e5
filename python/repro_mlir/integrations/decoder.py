# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A decoder of transformers as `repro_mlir.Generator` takes it (docs/huggingface.md)."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import sdpa_mask

from ..errors import ReproError

_ATTENTION = "repro_causal"
"""The name of our attention among those of transformers."""


class Decoder(torch.nn.Module):
    """A causal language model of transformers, called with tokens and positions.

        generator = repro_mlir.Generator(Decoder(model).eval(), capacity=256)

    Attributes:
      model: the model; its other calls keep the attention that it has.
    """

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        """ReproError where `model` is none of transformers, or not one whose attention can be chosen."""
        super().__init__()
        if not isinstance(model, transformers.PreTrainedModel):
            raise ReproError(f"expected a model of transformers, got a {type(model).__qualname__}")
        if not getattr(model, "_supports_sdpa", False):
            raise ReproError(f"{type(model).__qualname__} computes its attention itself: expected a model with sdpa")
        self.model = model

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The logits f32 [rows, length, vocabulary] of tokens at positions, both i64 [rows, length]."""
        config = self.model.config
        former = config._attn_implementation
        config._attn_implementation = _ATTENTION
        try:
            return self.model(input_ids=tokens, position_ids=positions, use_cache=False).logits
        finally:
            config._attn_implementation = former


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
    """What transformers calls, on [rows, heads, length, size] before heads of a group are repeated."""
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise ReproError(f"attention with {name} is not causal attention alone")
    if not (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        raise ReproError("expected causal attention")
    # Windows are in the mask, at which `Generator` looks.
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
# Without a function for masks there would be none, not even of a window.
transformers.AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
